"""What loads and stores make of tiles: where boxes lie in stages, and what goes to tensors."""

from __future__ import annotations

import pytest

from lowering.ground.dtypes import DType
from lowering.ground.expr import ONE, ZERO, Const, Expr, Var, as_expr, evaluate
from lowering.ground.types import FragmentType
from lowering.kernel.copy_tile import CopyTile
from lowering.kernel.cp_async import CpAsync
from lowering.kernel.kernel import GlobalTensor, Kernel, SharedBuffer, TensorMap
from lowering.kernel.memory import FragStoreGlobal, TmaLoad, TmaStore
from lowering.kernel.nodes import FragLoadGlobal
from lowering.kernel.operands import Frag, GmemRef, SmemRef, Stmt
from lowering.kernel.reduction import FragRedGlobal, FragStoreReduced
from lowering.kernel.tensors import ENTRY, Ragged
from lowering.proof.board import Board, Walker
from lowering.proof.ends import Ends, Way
from lowering.proof.flow import Result
from lowering.proof.stages import Spot
from lowering.proof.tile import Along, Read, Term, Tile
from lowering.proof.transfers import BY_ONE, BY_THREADS
from tests.conftest import Golden
from tests.lowering.proof.test_tile import drawn

N, K, B, X, Y = (Var(name) for name in "nkbxy")
SIZES = {"n": 100, "k": 64, "b": 3, "x": 16, "y": 8}
BF16 = DType.BF16
KERNEL = Kernel(
    "k", 128, ONE, (N, K, B),
    (
        TensorMap("T", BF16, (N, K), (8, 32)),
        TensorMap("M", BF16, (B, N, K), (2, 4, 32)),
        TensorMap("P", BF16, (N, ONE), (8, 32)),
        TensorMap("V", BF16, (K,), (32,)),
        TensorMap("E", BF16, (ENTRY * 10, K), (8, 32), count=as_expr(4)),
        TensorMap("RUN", BF16, (B, N, K), (1, 8, 32), ragged=Ragged.BEGIN),
        TensorMap("OUT", BF16, (N, K), (8, 32)),
        TensorMap("OUTS", BF16, (B, N, K), (2, 4, 32)),
        TensorMap("LINE", BF16, (K,), (32,)),
        TensorMap("SCRATCH", BF16, (N, K), (8, 32), device=True),
        GlobalTensor("G", BF16, (N, K)),
        GlobalTensor("GS", BF16, (B, N, K)),
        GlobalTensor("ROW", BF16, (K,)),
        GlobalTensor("LIST", BF16, (N, K), count=3),
        SharedBuffer("s", BF16, 2, (16, 64)),
        SharedBuffer("halves", BF16, 2, (2, 8, 64)),
    ),
    (), cluster=2,
)  # fmt: skip
S = SmemRef("s", ONE, (ZERO, as_expr(32)))
LOW = SmemRef("s", ZERO, (as_expr(8), ZERO))
V, WIDE = Frag("v", FragmentType(BF16, 8, 32)), Frag("w", FragmentType(BF16, 32, 8))
INDEX = Frag("index", FragmentType(DType.S32, 8, 1))
COUNTED, MIXED = (Frag(name, INDEX.type) for name in ("counted", "mixed"))


def at(name: str, *coords: Expr | int, entry: Expr | None = None) -> GmemRef:
    return GmemRef(name, tuple(Const(c) if isinstance(c, int) else c for c in coords), entry)


def board() -> Board:
    return Board(KERNEL, 2, 1, SIZES, Ends(Way.ONE, 100, 8, {}))


def walker(on: Board, cta: int = 1) -> Walker:
    return Walker(cta, on, 1, {})


def does(stmt: Stmt, w: Walker) -> None:
    event = (BY_ONE if type(stmt) in BY_ONE else BY_THREADS)[type(stmt)]
    values = [evaluate(e, SIZES) for e in event.asks(KERNEL, stmt)]
    assert event.does(stmt, w, 1, values) is True


LOADS: dict[str, Stmt] = {
    "a box": TmaLoad(S, at("T", X, Y)),
    "a box below": TmaLoad(LOW, at("T", X, Y)),
    "matrices one below the other": TmaLoad(S, at("M", 1, X, Y)),
    "matrices in halves": TmaLoad(
        SmemRef("halves", ZERO, (ZERO, as_expr(4), ZERO)), at("M", 1, X, Y)
    ),
    "a box for both": TmaLoad(S, at("T", X, Y), multicast=as_expr(3)),
    "a box for the other": TmaLoad(S, at("T", X, Y), multicast=ONE),
    "a box for itself": TmaLoad(S, at("T", X, Y), multicast=as_expr(2)),
    "matrices for both": TmaLoad(S, at("M", 1, X, Y), multicast=as_expr(3)),
    "one column": TmaLoad(S, at("P", X, 0)),
    "a vector": TmaLoad(S, at("V", Y)),
    "an entry": TmaLoad(S, at("E", X, Y, entry=as_expr(2))),
    "a run": TmaLoad(S, at("RUN", 20, X, Y)),
    "a tile": CopyTile(S, at("G", X, Y), 8, 32),
    "copies": CpAsync(S, at("G", X, Y), 8, 32),
    "copies up to a row": CpAsync(S, at("G", X, Y), 8, 32, limit=as_expr(5)),
    "copies of none": CpAsync(S, at("G", X, Y), 8, 32, limit=as_expr(-2)),
    "copies of all": CpAsync(S, at("G", X, Y), 8, 32, limit=as_expr(9)),
    "copies by index": CpAsync(S, at("G", X, Y), 8, 32, index=INDEX),
    "copies of matrices": CpAsync(S, at("GS", 2, X, Y), 8, 32, index=INDEX),
    "registers": FragLoadGlobal(V, at("G", X, Y)),
    "registers, turned": FragLoadGlobal(WIDE, at("G", X, Y), trans=True),
    "registers up to a row": FragLoadGlobal(V, at("G", X, Y), limit=as_expr(3)),
    "registers of all rows": FragLoadGlobal(V, at("G", X, Y), limit=as_expr(8)),
    "turned up to a row": FragLoadGlobal(WIDE, at("G", X, Y), limit=as_expr(30), trans=True),
    "registers by index": FragLoadGlobal(V, at("G", X, Y), index=INDEX),
    "a row in registers": FragLoadGlobal(V, at("ROW", Y)),
    "one of a list": FragLoadGlobal(V, at("LIST", X, Y, entry=as_expr(2))),
}


def test_loads(golden: Golden) -> None:
    """Each puts pieces into a stage of some CTAs, or into registers."""
    lines = []
    for name, stmt in LOADS.items():
        on = board()
        w = walker(on)
        does(stmt, w)
        lines.append(name)
        for (cta, buffer, stage), tile in on.flow.stages.items():
            lines.append(f"  CTA {cta}, {buffer}[{stage}], {drawn(tile)}")
        lines += [f"  {frag}, {drawn(tile)}" for frag, tile in w.frags.items()]
        assert on.flow.wrong == []
    assert "\n".join(lines) == golden


READ = Read("T", 0, (0, 0), (Along.ROWS, Along.COLS))
TILE = Tile.of(8, 32, frozenset({Term(frozenset({READ}))}))
NUMBERS = [Read("NUMBERS", 0, (first, 0), (Along.ROWS, Along.ANY)) for first in (40, 50)]
STORES: dict[str, Stmt] = {
    "a box": TmaStore(at("OUT", X, Y), LOW),
    "a box at the end": TmaStore(at("OUT", 96, 48), LOW),
    "a box behind the end": TmaStore(at("OUT", 100, 0), LOW),
    "a box beside the end": TmaStore(at("OUT", 0, 64), LOW),
    "a box in front": TmaStore(at("OUT", -3, -4), LOW),
    "a box far in front": TmaStore(at("OUT", -8, 0), LOW),
    "matrices": TmaStore(at("OUTS", 1, X, Y), LOW),
    "the last matrix": TmaStore(at("OUTS", 2, X, Y), LOW),
    "a matrix in front": TmaStore(at("OUTS", -1, X, Y), LOW),
    "a vector": TmaStore(at("LINE", Y), LOW),
    "scratch": TmaStore(at("SCRATCH", X, Y), LOW),
    "registers": FragStoreGlobal(at("G", X, Y), V),
    "registers up to a row": FragStoreGlobal(at("G", X, Y), V, limit=as_expr(3)),
    "no row": FragStoreGlobal(at("G", X, Y), V, limit=ZERO),
    "up to a column": FragStoreGlobal(at("G", X, Y), V, limit_cols=as_expr(5)),
    "no column": FragStoreGlobal(at("G", X, Y), V, limit_cols=ZERO),
    "up to both": FragStoreGlobal(
        at("G", X, Y), V, limit=as_expr(40), limit_cols=as_expr(5)),
    "turned": FragStoreGlobal(at("G", X, Y), V, trans=True),
    "by index": FragStoreGlobal(at("G", 97, Y), V, index=INDEX),
    "one of a list": FragStoreGlobal(at("LIST", X, Y, entry=as_expr(2)), V),
    "a row": FragStoreGlobal(at("ROW", Y), V),
    "sums": FragRedGlobal("add", at("G", X, Y), V),
    "sums up to a row": FragRedGlobal("add", at("G", X, Y), V, limit=as_expr(2)),
    "sums by index": FragRedGlobal("add", at("G", 0, Y), V, index=INDEX),
    "sums by numbers": FragRedGlobal("add", at("G", 0, Y), V, index=COUNTED),
    "sums by some numbers": FragRedGlobal(
        "add", at("G", 0, Y), V, limit=as_expr(3), index=COUNTED),
    "sums by numbers of two places": FragRedGlobal("add", at("G", 0, Y), V, index=MIXED),
    "a row of warps": FragStoreReduced("add", at("ROW", ZERO), LOW, 4, 32),
}  # fmt: skip


def test_stores(golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    """What of a tile goes where, as far as it lies in the tensor; of sums others add to it."""
    lines = []
    for name, stmt in STORES.items():
        on, found = board(), list[str]()
        w = walker(on)
        w.frags["v"] = TILE
        w.frags["counted"] = Tile.of(8, 1, frozenset({Term(frozenset(NUMBERS[:1]))}))
        w.frags["mixed"] = Tile.of(8, 1, frozenset({Term(frozenset(NUMBERS))}))
        Spot(1, "s", 0, 8, 0).put(w, TILE)

        def store(
            place: Result, tile: Tile, several: bool = False, told: list[str] = found
        ) -> None:
            told.append(f"  {place}{' with others' * several}, {drawn(tile)}")

        monkeypatch.setattr(on.flow, "store", store)
        does(stmt, w)
        lines += [name, *found, *on.flow.wrong]
    assert "\n".join(lines) == golden


def test_places_in_stages() -> None:
    """Lines and columns further, of another CTA; what is not there is noted."""
    on = board()
    w = walker(on)
    spot = Spot(1, "s", 1, 4, 8)
    assert spot.below(0) is spot and spot.below(3) == Spot(1, "s", 1, 7, 8)
    assert spot.in_peer(w, None) is spot and spot.in_peer(w, 0) == Spot(0, "s", 1, 4, 8)
    assert spot.beside(2) == Spot(3, "s", 1, 4, 8)
    assert spot.take(w, 2, 3).known == 0
    spot.put(w, TILE)
    assert spot.take(w, 8, 32) == TILE
    assert on.flow.wrong == []
    Spot(1, "s", 0, 9, 0).put(w, TILE)
    assert on.flow.wrong == ["9 .. 17, 0 .. 32 of s[0] lie outside of it"]
    refs = SmemRef("halves", X, (ONE, Y, K)), SmemRef("s", ZERO, (Y, X))
    values = iter([16, 1, 8, 64, 7])
    assert Spot.of(w, refs[0], values) == Spot(1, "halves", 16, 16, 64)
    assert next(values) == 7


def test_rows_of_whole_warpgroups() -> None:
    on = board()
    w = walker(on)
    for first, rows, right in ((8, 4, True), (8, 8, True), (9, 4, False), (8, 3, False)):
        on.flow.wrong.clear()
        src = SmemRef("s", ZERO, (Const(first), ZERO))
        does(FragStoreReduced("add", at("SCRATCH", ZERO, ZERO), src, rows, 32), w)
        wrong = f"{rows} rows of s from {first} on are not those of whole warpgroups"
        assert on.flow.wrong == ([] if right else [wrong])
