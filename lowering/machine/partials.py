"""Partial results on the machine: who may read a slot, and what it holds.

What a thread stores in global memory another one may read only if a chain of barriers and of a
release and an acquire at one counter leads from the store to the load. Every warp carries the
stores that it knows of: barriers share them, a release leaves them at the counter, an acquire takes
them from there.
"""

from __future__ import annotations

from collections.abc import Callable

from lowering.kernel.nodes import FragAddPartial, FragStorePartial, PartialRef
from lowering.machine.errors import FaultError
from lowering.machine.program import Program, Run
from lowering.machine.state import Warp
from lowering.machine.workspace import Slots

__all__ = ["frag_add_partial", "frag_store_partial"]


def _at(ref: PartialRef, program: Program) -> Callable[[Warp], tuple[Slots, int]]:
    """The slots that a whole warp works on, and which of them."""
    index, name = program.scalar(ref.index), ref.array

    def at(warp: Warp) -> tuple[Slots, int]:
        warp.touches_global()
        return warp.cta.cluster.slots[name], index(warp.env)

    return at


def frag_store_partial(stmt: FragStorePartial, program: Program) -> Run:
    """``frag.store_partial``."""
    place, name = _at(stmt.dst, program), stmt.dst.array

    def run(warp: Warp) -> None:
        slots, at = place(warp)
        number = warp.event()
        slots.stored[slots.key(at, warp)] = number, warp.read(stmt.value).copy()
        warp.known.did(1 << number, warp.elected)
        warp.record(stmt.OP, name, at)

    return run


def frag_add_partial(stmt: FragAddPartial, program: Program) -> Run:
    """``frag.add_partial``."""
    place, name = _at(stmt.src, program), stmt.src.array

    def run(warp: Warp) -> None:
        slots, at = place(warp)
        stored = slots.stored.get(slots.key(at, warp))
        if stored is None:
            raise FaultError(f"{name}[{at}] is read, but nobody has stored there")
        number, data = stored
        if not warp.known.before(warp.elected) >> number & 1:
            raise FaultError(f"{name}[{at}] is read, but nothing orders the load behind the store")
        total = warp.read(stmt.acc)
        registers = warp.take(stmt.acc)
        registers.data = total + data
        warp.define(stmt.out, registers)
        warp.record(stmt.OP, name, at)

    return run
