"""What belongs to a place of a result: sums, rows, columns, blocks and groups, right and wrong."""

from __future__ import annotations

from typing import Any

import pytest

from lowering.ground.dtypes import DType
from lowering.ground.expr import ONE, Expr, Var, as_expr, ceildiv
from lowering.kernel.kernel import GlobalTensor, Kernel, TensorMap
from lowering.kernel.nodes import LdGlobalScalar
from lowering.kernel.operands import GmemRef
from lowering.proof.ends import Ends, Way
from lowering.proof.flow import Flow, Result
from lowering.proof.tile import Along, Piece, Read, Term, Tile

R, C, F, S, Y = Along.ROWS, Along.COLS, Along.FIXED, Along.SUMMED, Along.ANY
M, N, K, B, G = (Var(name) for name in "mnkbg")
SIZES = {"m": 128, "n": 96, "k": 64, "b": 3, "g": 2}
BF16 = DType.BF16
EXTENTS: dict[str, tuple[Expr, ...]] = {
    "A": (M, K), "W": (N, K), "OUT": (M, N), "BIAS": (ONE, N), "COLUMN": (M, ONE),
    "BATCH": (B, M, K), "OUTS": (B, M, N), "GROUPS": (G, N, K),
    "SCALE": (ceildiv(M, 32), ceildiv(K, 16)), "COLS": (ceildiv(N, 32), K), "ROWS": (M, N),
    "PER": (G, N), "BYK": (ceildiv(K, 16), N), "HEADS": (G, M, N),
}  # fmt: skip
KERNEL = Kernel(
    "k", 128, ONE, (M, N, K, B, G),
    (
        *(TensorMap(name, BF16, sizes, (8, 16)) for name, sizes in EXTENTS.items()),
        TensorMap("LIST", BF16, (M, N), (8, 16), count=as_expr(3)),
        GlobalTensor("ends", DType.S32, (G,)),
    ),
    (LdGlobalScalar(Var("end"), GmemRef("ends", (as_expr(0),))),),
)  # fmt: skip


def flow() -> Flow:
    """Of two groups: of 16 rows, and of the rest."""
    return Flow.of(KERNEL, SIZES, Ends(Way.UNEQUAL, 128, 16, {"ends": 2}))


def read(
    name: str,
    at: tuple[int, ...],
    along: tuple[Along, ...],
    entry: int = 0,
    begin: int | None = None,
) -> Read:
    return Read(name, entry, at, along, begin)


def term(*reads: Read, slices: tuple[tuple[int, int], ...] = ()) -> Term:
    return Term(frozenset(reads), slices)


def whole(*terms: Term, rows: int = 8, cols: int = 16) -> Tile:
    return Tile.of(rows, cols, frozenset(terms))


def sums(row: int = 32, col: int = 48, *slices: tuple[int, int]) -> Term:
    a, w = read("A", (row, 0), (R, S)), read("W", (col, 0), (C, S))
    return term(a, w, slices=slices or ((0, 64),))


def stored(tile: Tile, at: Result | None = None, **said: Any) -> str:
    on = flow()
    on.store(at or Result("OUT", None, (), 32, 48), tile, **said)
    assert len(on.wrong) < 2
    return on.wrong[0] if on.wrong else ""


OUT = "OUT[32, 48] gets "
OUTS = Result("OUTS", None, (1,), 32, 48)
BATCH = read("BATCH", (1, 32, 0), (F, R, S))
WEIGHT = read("W", (48, 0), (C, S))
SUMS = {
    "all of k": (whole(sums()), ""),
    "behind k": (whole(sums(32, 48, (0, 80))), ""),
    "in front of k": (whole(sums(32, 48, (-16, 64))), ""),
    "not the end": (whole(sums(32, 48, (0, 48))), OUT + "0 .. 48 of 0 .. 64 of K of A and W"),
    "not the begin": (whole(sums(32, 48, (1, 64))), OUT + "1 .. 64 of 0 .. 64 of K of A and W"),
    "two parts": (
        whole(sums(32, 48, (0, 16), (32, 64))),
        OUT + "0 .. 16, 32 .. 64 of 0 .. 64 of K of A and W"),
    "none of it": (
        whole(term(read("A", (32, 0), (R, S)), WEIGHT)),
        OUT + "nothing of 0 .. 64 of K of A and W"),
    "another row": (whole(sums(33)), OUT + "row 33 of A"),
    "another column": (whole(sums(32, 0)), OUT + "column 0 of W"),
    "not everywhere": (
        Tile(8, 16, (Piece(0, 7, 0, 16, frozenset({sums()})),)),
        OUT + "what nobody has loaded or computed"),
    "zeros": (whole(), ""),
    "zeros, and sums": (
        Tile(8, 16, (Piece(0, 8, 0, 8, frozenset()), Piece(0, 8, 8, 16, frozenset({sums()})))),
        OUT + "products of A and W, other parts nothing"),
}  # fmt: skip


@pytest.mark.parametrize("name", SUMS)
def test_sums(name: str) -> None:
    tile, wanted = SUMS[name]
    assert stored(tile) == wanted


def test_sums_that_others_add_to() -> None:
    """Parts of k; but rows and columns are those of the place."""
    assert stored(whole(sums(32, 48, (0, 16))), several=True) == ""
    assert stored(whole(sums(33, 48, (0, 16))), several=True) == OUT + "row 33 of A"
    assert stored(whole(sums(33)), Result("OUT", None, (), None, 48)) == ""
    assert stored(whole(sums(33, 0)), Result("OUT", None, (), None, 48)) == (
        "OUT[?, 48] gets column 0 of W")  # fmt: skip


def test_the_first_wrong_one_is_kept() -> None:
    on = flow()
    on.store(Result("OUT", None, (), 32, 48), whole(sums(33)))
    on.store(Result("OUT", None, (), 32, 48), whole(sums(34)))
    assert on.wrong == [OUT + "row 33 of A"]


def test_all_parts_are_products_of_the_same() -> None:
    on = flow()
    for row in (0, 32):
        on.store(Result("OUT", None, (), row, 48), whole(sums(row)))
    assert on.wrong == [] and on.sums == {"OUT": frozenset({frozenset({"A", "W"})})}
    two = term(read("A", (64, 0), (R, S)), read("BYK", (0, 48), (S, C)), slices=((0, 64),))
    on.store(Result("OUT", None, (), 64, 48), whole(two))
    why = "products of A and BYK, other parts A and W"
    assert on.wrong == [f"OUT[64, 48] gets {why}"]


def beside(*reads: Read, at: Result | None = None, tile: tuple[int, int] = (8, 16)) -> str:
    return stored(whole(term(*reads), rows=tile[0], cols=tile[1]), at)


def test_what_is_the_same_all_over_a_tile() -> None:
    """Of the matrix that the result is in, of its rows, or of all that there is."""
    assert beside(read("BIAS", (0, 48), (F, C))) == beside(read("COLUMN", (32, 0), (R, F))) == ""
    wrong = "OUT[32, 48] gets BIAS, of which coordinate 0 is 1"
    assert beside(read("BIAS", (1, 48), (F, C))) == wrong
    assert stored(whole(term(BATCH, WEIGHT, slices=((0, 64),))), OUTS) == ""
    other = read("BATCH", (2, 32, 0), (F, R, S))
    assert stored(whole(term(other, WEIGHT, slices=((0, 64),))), OUTS) == (
        "OUTS[1, 32, 48] gets BATCH, of which coordinate 0 is 2")  # fmt: skip
    row = Result("OUT", None, (), 5, 48)
    assert beside(read("ROWS", (5, 48), (F, C)), at=row, tile=(1, 16)) == ""
    assert beside(read("ROWS", (6, 48), (F, C)), at=row, tile=(1, 16)) != ""
    assert beside(read("ROWS", (5, 48), (F, C)), at=row, tile=(2, 16)) != ""


def test_all_that_there_is_of_a_dimension() -> None:
    every = [term(read("PER", (n, 48), (F, C))) for n in range(2)]
    anywhere = Result("OUT", None, (), None, 48)
    assert stored(whole(*every), anywhere) == ""
    assert stored(whole(every[0]), anywhere) == "OUT[?, 48] gets PER, of which coordinate 0 is 0"


@pytest.mark.parametrize(
    ("block", "row", "rows", "right"),
    [
        (1, 32, 8, True), (1, 56, 8, True), (1, 57, 8, False), (1, 24, 8, False),
        (0, 32, 8, False), (2, 32, 8, False), (0, 0, 32, True), (0, 0, 33, False),
    ],
)  # fmt: skip
def test_blocks_of_rows(block: int, row: int, rows: int, right: bool) -> None:
    """A number of a block of 32 rows belongs to rows of that block."""
    scale = [term(read("SCALE", (block, n), (F, F))) for n in range(4)]
    found = stored(whole(*scale, rows=rows), Result("OUT", None, (), row, 48))
    assert found == (
        "" if right else f"OUT[{row}, 48] gets SCALE, of which coordinate 0 is {block}"
    )


@pytest.mark.parametrize(
    ("block", "col", "right"), [(1, 48, True), (1, 49, False), (2, 48, False), (2, 64, True)]
)
def test_blocks_of_columns(block: int, col: int, right: bool) -> None:
    found = stored(
        whole(*(term(read("COLS", (block, n), (F, F))) for n in range(64))),
        Result("OUT", None, (), 32, col),
    )
    assert found == ("" if right else f"OUT[32, {col}] gets COLS, of which coordinate 0 is {block}")


@pytest.mark.parametrize(
    ("group", "row", "right"),
    [(0, 0, True), (0, 8, True), (0, 9, False), (1, 8, False), (1, 16, True), (1, 120, True)],
)
def test_groups_of_rows(group: int, row: int, right: bool) -> None:
    """A tensor with a matrix for each group is read for the rows of that one."""
    found = beside(read("PER", (group, 48), (F, C)), at=Result("OUT", None, (), row, 48))
    assert found == ("" if right else f"OUT[{row}, 48] gets PER, of which coordinate 0 is {group}")


def test_where_groups_go() -> None:
    on = flow()
    assert on.span_of("GROUPS", 0) == (0, 16) and on.span_of("GROUPS", 1) == (16, 128)
    assert on.span_of("BATCH", 0) is None
    assert on.sizes("A", 0) == (128, 64) and on.dims("SCALE")[1] == ceildiv(K, 16)
    assert on.array("LIST") and not on.array("A")


def test_sums_of_runs() -> None:
    """Of a group's matrix they are over what the group has of k, and nothing in front."""
    a = read("A", (0, 0), (S, R), begin=0)
    w = read("W", (0, 0), (S, C), begin=0)
    both = term(a, w, slices=((0, 16),))
    on = flow()
    at = [Result("HEADS", None, (g,), 0, 0) for g in range(2)]
    assert on.partial(both, at[0]) == ()
    assert on.partial(both, at[1]) == ("0 .. 16 of 16 .. 128 of K of A and W",)
    rest = term(a, w, slices=((16, 128),))
    assert on.partial(rest, at[1]) == ()
    assert on.partial(rest, Result("OUT", None, (), 0, 0)) == (
        "16 .. 128 of 0 .. 0 of K of A and W",
    )
    assert on.partial(rest) == ("16 .. 128 of 0 .. 0 of K of A and W",)
    alone = read("A", (32, 48), (R, C), begin=5)
    assert beside(alone) == "OUT[32, 48] gets A, of which zeros lie in front of row 5"


def test_entries_of_a_list() -> None:
    """Of the result's entry, or of a tensor that is one."""
    at = Result("LIST", 1, (), 32, 48)
    assert str(at) == "LIST[1][32, 48]" and str(OUTS) == "OUTS[1, 32, 48]"
    entry = [read("LIST", (32, 48), (R, C), entry=n) for n in range(3)]
    assert beside(entry[1], at=at) == beside(read("ROWS", (32, 48), (R, C)), at=at) == ""
    assert beside(entry[2], at=at) == "LIST[1][32, 48] gets LIST[2]"
    assert beside(entry[2]) == ""
    on = flow()
    made = term(entry[2], slices=((0, 1),))
    assert on.named(at, made) == frozenset({"LIST"})
    assert on.named(OUTS, made) == frozenset({"LIST[2]"})
    assert on.named(OUTS, sums()) == frozenset({"A", "W"})


def test_up_to_where_parameters_were_gone_through() -> None:
    on = flow()
    on.store(Result("OUT", None, (), 32, 48), whole(sums(32, 48, (0, 70))))
    assert on.ends == {"k": 70}
    on.reach(on.dims("A")[0], 100)
    on.reach(on.dims("A")[0], 90)
    on.reach(on.dims("BIAS")[0], 90)
    assert on.ends == {"k": 70, "m": 100}


@pytest.mark.parametrize(
    ("slices", "block", "right"),
    [
        ((16, 32), 1, True), ((16, 33), 1, False), ((15, 32), 1, False), ((0, 16), 1, False),
        ((48, 80), 3, True), ((47, 80), 3, False), ((64, 80), 1, True), ((63, 80), 1, False),
    ],
)  # fmt: skip
def test_sums_times_a_number_of_a_block(slices: tuple[int, int], block: int, right: bool) -> None:
    """Of the same block of what is summed over, as far as there is any."""
    on = flow()
    by = whole(term(read("BYK", (block, 48), (F, C))))
    on.scale("mul", whole(sums(32, 48, slices)), by)
    assert on.wrong == ([] if right else [f"a sum of other blocks than {block} counts BYK"])
    on.wrong.clear()
    on.scale("mul", whole(term(read("OUT", (32, 48), (R, C)))), by)
    on.scale("mul", whole(sums(32, 48, slices)), whole(term(read("BIAS", (7, 48), (F, C)))))
    assert on.wrong == []


@pytest.mark.parametrize("op", ["mul", "div", "add", "sub", "maximum"])
def test_sums_and_numbers_of_blocks_in_other_ways(op: str) -> None:
    """A number of a block may be a factor, and nothing else; sums that have theirs may be added."""
    on = flow()
    by, made = term(read("BYK", (1, 48), (F, C))), sums(32, 48, (16, 32))
    on.scale(op, whole(made), whole(by))
    assert on.wrong == ([] if op == "mul" else [f"a sum and BYK of a block make a {op}"])
    on.wrong.clear()
    on.scale(op, whole(made), whole(by, sums(32, 48, (16, 32))))
    on.scale(op, whole(by), whole(made))
    assert on.wrong == []
