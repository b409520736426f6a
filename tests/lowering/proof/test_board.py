"""What all warps of a grid see: what each event does to it, and what of it should not happen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lowering.ground.dtypes import DType
from lowering.ground.expr import ONE, ZERO, Const, Var, as_expr, evaluate
from lowering.kernel.atomic import Atom, CounterWait
from lowering.kernel.cp_async import CpAsyncArrive
from lowering.kernel.kernel import (
    Kernel,
    MBarrierArray,
    NamedBarrierArray,
    SharedBuffer,
    TensorBuffer,
    TensorMap,
)
from lowering.kernel.memory import TmaLoad
from lowering.kernel.operands import (
    CounterRef,
    GmemRef,
    MBarrierRef,
    NamedBarrierRef,
    SmemRef,
    Stmt,
)
from lowering.kernel.queue import LdWord, StWord
from lowering.kernel.scalar_memory import LdGlobalScalar
from lowering.kernel.sync import (
    BarArrive,
    BarSync,
    ClusterSync,
    CtaNumber,
    CtaSync,
    MBarrierArrive,
    MBarrierExpectTx,
    MBarrierWait,
)
from lowering.kernel.tensor_memory import Tcgen05Alloc, Tcgen05Commit
from lowering.kernel.tensors import ENTRY
from lowering.proof.board import Board, Meeting, Walker
from lowering.proof.ends import Ends, Way
from lowering.proof.events import EVENTS
from lowering.proof.obligation import UnknownError

N, AT, J, V, P, M = (Var(name) for name in "nijvpm")
SIZES = {"n": 40}
KERNEL = Kernel(
    "k", 96, ONE, (N,),
    (
        TensorMap("T", DType.BF16, (N, as_expr(64)), (8, 64)),
        TensorMap("C", DType.BF16, (N, as_expr(64)), (8, 64), clipped=True),
        TensorMap("E", DType.BF16, (ENTRY, as_expr(64)), (8, 64), clipped=True, count=as_expr(4)),
        TensorMap("B", DType.BF16, (N, N, as_expr(64)), (3, 8, 64)),
        SharedBuffer("words", DType.S32, 3, (2, 5)),
        SharedBuffer("line", DType.S32, 2, (5,)),
        SharedBuffer("boxes", DType.S32, 2, (3, 4, 8)),
        TensorBuffer("cells", DType.F32, 2, (128, 32)),
        MBarrierArray("b", 2, 33),
        MBarrierArray("c", 2, 1),
        NamedBarrierArray("named", 3, 64),
    ),
    (), cluster=2,
)  # fmt: skip
BAR = MBarrierRef("b", AT)


def board(kernel: Kernel = KERNEL, grid: int = 8, rows: int = 3) -> Board:
    return Board(kernel, grid, rows, SIZES, Ends(Way.ONE, 40, 8, {"ends": 2}))


def walker(on: Board, cta: int = 0, **env: int) -> Walker:
    return Walker(cta, on, 0, env)


def does(stmt: Stmt, w: Walker, threads: int = 1) -> Any:
    """What an event says, of values as the walker has them."""
    event = EVENTS[type(stmt)]
    known = {**SIZES, **w.env}
    values = [evaluate(e, known) for e in event.asks(w.board.kernel, stmt)]
    return event.does(stmt, w, threads, values)


def phases(on: Board) -> dict[tuple[int, str, int], tuple[int, int, int]]:
    return {key: (p.done, p.arrivals, p.bytes) for key, p in on.phases.items()}


def test_arrivals_end_a_phase() -> None:
    """At the barrier of the CTA itself, or of another one of its cluster, by each thread."""
    on = board()
    assert does(MBarrierArrive(BAR), walker(on, 3, i=1), 32) is True
    assert phases(on) == {(3, "b", 1): (0, 1, 0)}
    assert does(MBarrierArrive(BAR, J), walker(on, 2, i=1, j=1)) is True
    assert phases(on) == {(3, "b", 1): (1, 33, 0)}
    does(MBarrierArrive(BAR, J), walker(on, 3, i=0, j=0))
    assert on.phases[2, "b", 0].arrivals == 32


def test_bytes_are_awaited_that_are_announced() -> None:
    on = board()
    full, into = MBarrierRef("c", AT), SmemRef("words", ZERO, (ZERO, ZERO))
    load = TmaLoad(into, GmemRef("T", (ZERO, ZERO)), full)
    assert does(MBarrierExpectTx(full, V), walker(on, i=1, v=2048)) is True
    assert phases(on) == {(0, "c", 1): (0, 0, 2048)}
    assert does(load, walker(on, i=1), 2) is True
    assert phases(on) == {(0, "c", 1): (1, 1, 0)}
    does(load, walker(on, i=1))  # before they are announced
    does(MBarrierExpectTx(full, V), walker(on, i=1, v=1024))
    assert phases(on) == {(0, "c", 1): (2, 1, 0)}
    with pytest.raises(UnknownError, match=r"^mbarrier.expect_tx of unknown bytes$"):
        does(MBarrierExpectTx(full), walker(on, i=1))
    with pytest.raises(UnknownError, match=r"^tma.load that completes on no mbarrier$"):
        does(replace(load, bar=None), walker(on, i=1))


@pytest.mark.parametrize(
    ("source", "group", "mask", "wanted"),
    [
        (GmemRef("T", (ZERO, ZERO)), 1, None, {5: 1024}),
        (GmemRef("T", (ZERO, ZERO)), 2, None, {4: 1024}),
        (GmemRef("T", (ZERO, ZERO)), 1, 3, {4: 1024, 5: 1024}),
        (GmemRef("T", (ZERO, ZERO)), 1, 1, {4: 1024}),
        (GmemRef("T", (ZERO, ZERO)), 1, 2, {5: 1024}),
        (GmemRef("T", (ZERO, ZERO)), 2, 3, {4: 2048}),
        (GmemRef("E", (ZERO, ZERO), as_expr(3)), 1, None, {5: 3 * 128}),
        (GmemRef("B", (ZERO, ZERO, ZERO)), 1, None, {5: 3 * 1024}),
    ],
)
def test_where_boxes_land(
    source: GmemRef, group: int, mask: int | None, wanted: dict[int, int]
) -> None:
    """In a CTA of the mask, told to the first one of a group; of a clipped box what there is."""
    on = board()
    multicast = None if mask is None else as_expr(mask)
    into = SmemRef("words", ZERO, (ZERO, ZERO))
    load = TmaLoad(into, source, MBarrierRef("c", AT), multicast, cta_group=group)
    does(load, walker(on, 5, i=0))
    assert {cta: -p.bytes for (cta, _, _), p in on.phases.items()} == wanted


def test_what_products_and_copies_tell() -> None:
    on = board()
    assert does(CpAsyncArrive(BAR), walker(on, 5, i=0), 32) is True
    assert phases(on) == {(5, "b", 0): (0, 1, 0)}
    assert does(Tcgen05Commit(MBarrierRef("c", AT), M), walker(on, 3, i=0, m=3)) is True
    assert {key: p.done for key, p in on.phases.items() if key[1] == "c"} == {
        (2, "c", 0): 1, (3, "c", 0): 1,
    }  # fmt: skip
    does(Tcgen05Commit(MBarrierRef("c", AT)), walker(on, 7, i=1))
    assert on.phases[7, "c", 1].done == 1


def test_waits_are_for_a_parity() -> None:
    """That of the phase before passes at once, that of the current one when it is over."""
    on, wait = board(), MBarrierWait(MBarrierRef("c", AT), P)
    seen = []
    for _ in range(3):
        seen.append([does(wait, walker(on, 1, i=1, p=p)) for p in (0, 1)])
        on.arrive(1, "c", 1, 1)
    assert seen == [[False, True], [True, False], [False, True]]


def test_threads_meet() -> None:
    """So many of them as there are; each is counted once, and more begin the next meeting."""
    meeting = Meeting()
    meeting.come(32, 96)
    meeting.come(32, 96)
    assert (meeting.done, meeting.threads) == (0, 64)
    meeting.come(64, 96)
    assert (meeting.done, meeting.threads) == (1, 32)
    on = board()
    first, other = walker(on, i=2), walker(on, i=2)
    sync = BarSync(NamedBarrierRef("named", AT))
    assert not does(sync, first, 32) and not does(sync, first, 32)
    assert not does(sync, walker(on, 1, i=2), 32) and not does(sync, walker(on, i=1), 32)
    assert does(sync, other, 32) and does(sync, first, 32)
    assert first.joined is other.joined is None
    assert not does(sync, first, 32)
    assert does(BarArrive(NamedBarrierRef("named", AT)), other, 32) is True
    assert does(sync, first, 32)


def test_a_cta_and_a_cluster_meet() -> None:
    on = board()
    one = walker(on, 2)
    assert not does(CtaSync(), one, 64) and not does(CtaSync(), walker(on, 3), 32)
    assert does(CtaSync(), walker(on, 2), 32) and does(CtaSync(), one, 64)
    mine, its = walker(on, 2), walker(on, 3)
    assert not does(ClusterSync(), mine, 96) and not does(ClusterSync(), its, 32)
    assert not does(ClusterSync(), walker(on, 4), 96)
    assert does(ClusterSync(), walker(on, 3), 64)
    assert does(ClusterSync(), its, 32) and does(ClusterSync(), mine, 96)


def test_places_of_ctas() -> None:
    """Of the clusters x is the fastest, then y; a CTA has its rank."""
    on = board(grid=8, rows=3)
    found = [tuple(on.place(n, rank).values()) for n in range(24) for rank in (0, 1)]
    assert found == [(x, y, z) for z in range(2) for y in range(3) for x in range(8)]
    assert list(on.place(0, 0)) == ["%ctaid.x", "%ctaid.y", "%ctaid.z"]
    assert walker(on).at == 0
    told = does(CtaNumber(V), walker(on, 5, v=5))
    assert told == {"%ctaid.x": 3, "%ctaid.y": 1, "%ctaid.z": 0}


@pytest.mark.parametrize(
    ("op", "before", "value", "after"),
    [
        ("add", 3, 2, 5), ("exch", 3, 2, 2), ("inc", 3, 4, 4), ("inc", 3, 3, 0), ("inc", 3, 2, 0),
        ("max", 3, 2, 3), ("max", 3, 4, 4), ("min", 3, 2, 2), ("min", 3, 4, 3),
    ],
)  # fmt: skip
def test_counters(op: str, before: int, value: int, after: int) -> None:
    on = board()
    on.counters["c", 1] = before
    w = walker(on, i=1, v=value)
    assert does(Atom(V, op, CounterRef("c", AT), V), w) == {"v": before}
    assert on.counters == {("c", 1): after}
    assert does(Atom(V, "add", CounterRef("c", AT), V), walker(on, i=0, v=7)) == {"v": 0}
    for n in (after - 1, after, after + 1):
        wait = CounterWait(CounterRef("c", AT), V)
        assert does(wait, walker(on, i=1, v=n)) is (after >= n)
    assert does(CounterWait(CounterRef("z", AT), V), walker(on, i=1, v=0)) is True
    assert does(CounterWait(CounterRef("z", AT), V), walker(on, i=1, v=1)) is False


def test_words() -> None:
    """In the CTA's memory, or in that of another one of its cluster."""
    on = board()
    at = SmemRef("words", AT, (ZERO, J))
    assert does(StWord(at, V), walker(on, 3, i=2, j=4, v=9)) is True
    assert does(StWord(at, V, ZERO), walker(on, 3, i=2, j=4, v=8)) is True
    assert on.words == {(3, "words", (2, 0, 4)): 9, (2, "words", (2, 0, 4)): 8}
    assert does(LdWord(P, at), walker(on, 3, i=2, j=4)) == {"p": 9}
    assert does(LdWord(P, at), walker(on, 2, i=2, j=4)) == {"p": 8}
    assert on.flow.wrong == []
    alloc = Tcgen05Alloc(at, 32)
    assert does(alloc, walker(on, 5, i=0, j=0)) is True
    assert on.words[5, "words", (0, 0, 0)] == 0
    read = LdGlobalScalar(P, GmemRef("ends", (AT,)))
    assert [does(read, walker(on, i=n)) for n in (0, 1)] == [{"p": 0}, {"p": 40}]
    entry = LdGlobalScalar(P, GmemRef("ends", (ZERO,), AT))
    assert does(entry, walker(on, i=1)) == {"p": 40}


OUT = "{} of words[{}] lie outside of it"


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ((0, 0, 0), None), ((2, 1, 4), None), ((2, 0, 5), "0 .. 1, 5 .. 6"),
        ((3, 0, 0), "0 .. 1, 0 .. 1"), ((-1, 0, 0), "0 .. 1, 0 .. 1"),
        ((0, 2, 0), "2 .. 3, 0 .. 1"), ((0, 0, -1), "0 .. 1, -1 .. 0"),
    ],
)  # fmt: skip
def test_words_that_a_buffer_has(at: tuple[int, ...], said: str | None) -> None:
    """Whoever stores or loads one that there is not is noted, each word once."""
    into = SmemRef("words", Const(at[0]), tuple(map(Const, at[1:])))
    wanted = [] if said is None else [OUT.format(said, at[0])]
    on = board()
    does(StWord(into, ZERO), walker(on))
    does(StWord(into, ZERO), walker(on))
    assert on.flow.wrong == wanted
    on = board()
    on.words[0, "words", at] = 1
    does(LdWord(P, into), walker(on))
    assert on.flow.wrong == wanted


def test_words_of_a_buffer_of_one_dimension() -> None:
    on = board()
    for at, wrong in ((4, 0), (5, 1), (-1, 1)):
        on.flow.wrong.clear()
        does(StWord(SmemRef("line", ONE, (AT,)), ZERO), walker(on, i=at))
        assert len(on.flow.wrong) == wrong


@pytest.mark.parametrize(
    ("name", "spans", "right"),
    [
        ("boxes", ((0, 12), (0, 8)), True), ("boxes", ((0, 13), (0, 8)), False),
        ("boxes", ((11, 1), (7, 1)), True), ("boxes", ((12, 1), (0, 1)), False),
        ("cells", ((0, 128), (0, 32)), True), ("cells", ((0, 129), (0, 1)), False),
        ("cells", ((127, 1), (1, 32)), False), ("cells", ((-1, 4), (0, 1)), False),
    ],
)  # fmt: skip
def test_lines_and_columns_that_a_buffer_has(
    name: str, spans: tuple[tuple[int, int], ...], right: bool
) -> None:
    on = board()
    for stage in (0, 1, 2, -1):
        on.flow.wrong.clear()
        on.touch(name, stage, *spans)
        on.touch(name, stage, *spans)
        assert len(on.flow.wrong) == (0 if right and stage in (0, 1) else 2)
    assert on.shape(name) == ((12, 8) if name == "boxes" else (128, 32))


@pytest.mark.parametrize("kind", [BarSync, BarArrive])
def test_named_barriers_that_there_are(kind: type[BarSync] | type[BarArrive]) -> None:
    for at in (-1, 0, 2, 3):
        on = board()
        does(kind(NamedBarrierRef("named", AT)), walker(on, i=at), 32)
        assert on.flow.wrong == ([] if 0 <= at < 3 else [f"there is no named[{at}]"])


def test_ctas_of_a_mask() -> None:
    on = board()
    assert on.masked(5, []) == [5] and on.masked(5, [0]) == []
    assert [on.masked(5, [m]) for m in (1, 2, 3)] == [[4], [5], [4, 5]]
    assert [on.peer(5, r) for r in (0, 1)] == [on.peer(4, r) for r in (0, 1)] == [4, 5]
    assert on.rows_of(on.maps["T"]) == 40
