"""What statements do to what all warps of a grid see of each other.

Of every kind that changes or awaits any of it :data:`EVENTS` says what it evaluates and what it
does: what the hardware does, with copies that land at once.
"""

from __future__ import annotations

from collections.abc import Mapping

from lowering.ground.expr import Const, Expr, substitute
from lowering.kernel.atomic import Atom, CounterWait
from lowering.kernel.cp_async import CpAsyncArrive
from lowering.kernel.group_part import GroupPart
from lowering.kernel.kernel import Kernel
from lowering.kernel.memory import TmaLoad
from lowering.kernel.operands import Stmt
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
from lowering.kernel.tensor_memory import (
    Tcgen05Alloc,
    Tcgen05Commit,
)
from lowering.kernel.tensors import ENTRY
from lowering.proof.board import Env, Event, Walker
from lowering.proof.obligation import UnknownError

__all__ = ["EVENTS"]


def _arrive(stmt: MBarrierArrive, w: Walker, threads: int, values: list[int]) -> bool:
    at, *rank = values
    cta = w.board.peer(w.cta, rank[0]) if rank else w.cta
    w.board.arrive(cta, stmt.bar.array, at, threads)
    return True


def _copied(
    stmt: CpAsyncArrive | Tcgen05Commit, w: Walker, threads: int, values: list[int]
) -> bool:
    at, *mask = values
    for cta in w.board.masked(w.cta, mask):
        w.board.arrive(cta, stmt.bar.array, at, threads)
    return True


def _announced(kernel: Kernel, stmt: MBarrierExpectTx) -> tuple[Expr, ...]:
    if stmt.bytes is None:
        raise UnknownError(f"{stmt.OP} of unknown bytes")
    return stmt.bar.index, stmt.bytes


def _announce(stmt: MBarrierExpectTx, w: Walker, threads: int, values: list[int]) -> bool:
    w.board.arrive(w.cta, stmt.bar.array, values[0], threads, values[1])
    return True


def _waited(stmt: MBarrierWait, w: Walker, threads: int, values: list[int]) -> bool:
    return w.board.phase(w.cta, stmt.bar.array, values[0]).done & 1 != values[1]


def _boxes(kernel: Kernel, stmt: TmaLoad) -> tuple[Expr, ...]:
    if stmt.bar is None:
        raise UnknownError(f"{stmt.OP} that completes on no mbarrier")
    source = kernel.tensor_map(stmt.src.map)
    entry = {} if stmt.src.entry is None else {ENTRY: stmt.src.entry}
    bytes_ = substitute(source.box_lines * (source.dtype.size(source.box[-1])), entry)
    return stmt.bar.index, bytes_, *(() if stmt.multicast is None else (stmt.multicast,))


def _land(stmt: TmaLoad, w: Walker, threads: int, values: list[int]) -> bool:
    at, count, *mask = values
    assert stmt.bar is not None
    for cta in w.board.masked(w.cta, mask):
        told = cta - cta % stmt.cta_group
        w.board.arrive(told, stmt.bar.array, at, 0, -count * threads)
    return True


def _sync(stmt: BarSync, w: Walker, threads: int, values: list[int]) -> bool:
    array = stmt.bar.array
    w.board.barrier(array, values[0])
    return w.board.meet(w, (w.cta, array, values[0]), threads, w.board.threads[array])


def _come(stmt: BarArrive, w: Walker, threads: int, values: list[int]) -> bool:
    array = stmt.bar.array
    w.board.barrier(array, values[0])
    w.board.meeting((w.cta, array, values[0])).come(threads, w.board.threads[array])
    return True


def _cta_sync(stmt: CtaSync, w: Walker, threads: int, values: list[int]) -> bool:
    return w.board.meet(w, (w.cta, "", 0), threads, w.board.kernel.threads)


def _cluster_sync(stmt: ClusterSync, w: Walker, threads: int, values: list[int]) -> bool:
    kernel = w.board.kernel
    whole = kernel.threads * kernel.cluster
    return w.board.meet(w, (w.board.peer(w.cta, 0), "cluster", -1), threads, whole)


def _number(stmt: CtaNumber, w: Walker, threads: int, values: list[int]) -> Env:
    return w.board.place(values[0], w.cta % w.board.kernel.cluster)


def _change(stmt: Atom, w: Walker, threads: int, values: list[int]) -> Env:
    key = stmt.counter.array, values[0]
    before, value = w.board.counters.get(key, 0), values[1]
    after = {
        "add": before + value, "exch": value, "inc": 0 if before >= value else before + 1,
        "max": max(before, value), "min": min(before, value),
    }  # fmt: skip
    w.board.counters[key] = after[stmt.op]
    if stmt.op == "add":
        w.board.told.tell((w.cta, w.group), key)
    elif stmt.op == "exch":
        w.board.told.clear(key)
    return {stmt.out.name: before}


def _counted(stmt: CounterWait, w: Walker, threads: int, values: list[int]) -> bool:
    key = stmt.counter.array, values[0]
    if w.board.counters.get(key, 0) < values[1]:
        return False
    if why := w.board.told.wait((w.cta, w.group), key, values[1]):
        w.board.flow.wrong.append(why)
    return True


def _store(stmt: StWord, w: Walker, threads: int, values: list[int]) -> bool:
    at, rest = tuple(values[: 1 + len(stmt.dst.coords)]), values[1 + len(stmt.dst.coords) :]
    value, rank = rest[0], rest[1:]
    cta = w.board.peer(w.cta, rank[0]) if rank else w.cta
    w.board.word(stmt.dst.buffer, at)
    w.board.words[cta, stmt.dst.buffer, at] = value
    return True


def _allocate(stmt: Tcgen05Alloc, w: Walker, threads: int, values: list[int]) -> bool:
    w.board.words[w.cta, stmt.dst.buffer, tuple(values)] = 0
    return True


def _load(stmt: LdWord, w: Walker, threads: int, values: list[int]) -> Env:
    at = tuple(values)
    w.board.word(stmt.src.buffer, at)
    return {stmt.out.name: w.board.words[w.cta, stmt.src.buffer, at]}


def _read(stmt: LdGlobalScalar, w: Walker, threads: int, values: list[int]) -> Env:
    return {stmt.out.name: w.board.memory(stmt.src.map, values)}


def _part(stmt: GroupPart, w: Walker, threads: int, values: list[int]) -> Env:
    (whole,) = values
    if whole < 0:
        w.board.wrong.add(f"a group of {whole} elements is divided up")
    part = w.board.memory.part(max(whole, 0))
    return {stmt.begin.name: part.begin, stmt.size.name: part.size}


EVENTS: Mapping[type[Stmt], Event] = {
    Atom: Event(lambda k, s: (s.counter.index, s.value), _change),
    BarArrive: Event(lambda k, s: (s.bar.index,), _come),
    BarSync: Event(lambda k, s: (s.bar.index,), _sync),
    ClusterSync: Event(lambda k, s: (), _cluster_sync),
    CounterWait: Event(lambda k, s: (s.counter.index, s.value), _counted),
    CpAsyncArrive: Event(lambda k, s: (s.bar.index,), _copied),
    CtaNumber: Event(lambda k, s: (s.number,), _number),
    CtaSync: Event(lambda k, s: (), _cta_sync),
    GroupPart: Event(lambda k, s: (s.whole,), _part),
    LdGlobalScalar: Event(lambda k, s: (s.src.entry or Const(0), *s.src.coords), _read),
    LdWord: Event(lambda k, s: (s.src.stage, *s.src.coords), _load),
    MBarrierArrive: Event(lambda k, s: (s.bar.index, *_given(s.cta)), _arrive),
    MBarrierExpectTx: Event(_announced, _announce),
    MBarrierWait: Event(lambda k, s: (s.bar.index, s.parity), _waited),
    Tcgen05Alloc: Event(lambda k, s: (s.dst.stage, *s.dst.coords), _allocate),
    Tcgen05Commit: Event(lambda k, s: (s.bar.index, *_given(s.multicast)), _copied),
    StWord: Event(lambda k, s: (s.dst.stage, *s.dst.coords, s.value, *_given(s.cta)), _store),
    TmaLoad: Event(_boxes, _land),
}
"""What changes or awaits something, or gives the value of a scalar that may decide about it."""


def _given(e: Expr | None) -> tuple[Expr, ...]:
    return () if e is None else (e,)
