"""Counters in global memory on the machine: atomics of all CTAs, in any order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from lowering.ground.errors import InternalError
from lowering.kernel.kernel import CounterArray
from lowering.kernel.nodes import Atom, CounterRef, CounterWait
from lowering.machine.errors import FaultError, MachineError
from lowering.machine.fragment import Array
from lowering.machine.program import Program, Run
from lowering.machine.scalars import bind
from lowering.machine.scheduler import Blocked, Resource
from lowering.machine.state import Warp

__all__ = ["Counters", "atom", "counter_wait", "counters_of"]

_MODULUS = 1 << 32

_OPS: dict[str, Callable[[int, int], int]] = {
    "add": lambda old, value: old + value,
    "exch": lambda old, value: value,
    "inc": lambda old, value: 0 if old % _MODULUS >= value % _MODULUS else old + 1,
    "max": max,
    "min": min,
}


@dataclass(slots=True, eq=False)
class Counters(Resource):
    """An array of counters; whoever changes one wakes all that wait for one.

    ``known`` are the stores to global memory that were released at each.
    """

    name: str
    words: Array
    known: dict[int, set[tuple[str, int]]] = field(default_factory=dict)

    def check_left(self, kernel: str) -> None:
        """Raise MachineError unless the grid leaves zeros, which the next one relies on."""
        left = np.flatnonzero(self.words)
        if left.size:
            at = int(left[0])
            why = f"the grid leaves {self.name}[{at}] = {self.words[at]}, not 0"
            raise MachineError(kernel, why, "")


def counters_of(declared: CounterArray, count: int, array: Array | None) -> Counters:
    """The counters behind a declaration; new ones where the run is given none.

    Raises:
        InternalError: ``array`` is not int32 of ``count`` words.
    """
    array = np.zeros(count, np.int32) if array is None else array
    if array.shape != (count,) or array.dtype != np.int32:
        found = f"{array.dtype.name} {list(array.shape)}"
        raise InternalError("machine", f"{declared.name} is {found}, not int32 [{count}]")
    return Counters(declared.name, array)


def atom(stmt: Atom, program: Program) -> Run:
    """``atom``, by one thread; other warps may come first."""
    find, value, op = _find(stmt.counter, program), program.scalar(stmt.value), _OPS[stmt.op]
    order = stmt.order

    def run(warp: Warp) -> Iterator[Blocked | None]:
        if not warp.elected:
            raise FaultError("atom is executed by 32 threads, not by one")
        warp.touches_global()
        counters, at = find(warp)
        yield None
        old = int(counters.words[at])
        new = op(old, value(warp.env)) % _MODULUS
        counters.words[at] = new - _MODULUS if new >> 31 else new
        bind(warp.env, stmt.out, old)
        if order.startswith(("release", "acq_rel")):
            counters.known.setdefault(at, set()).update(warp.knows)
        if order.startswith("acq"):
            warp.knows |= counters.known.get(at, set())
        warp.record(stmt.OP, counters.name, at)
        counters.wake(warp.scheduler)

    return run


def counter_wait(stmt: CounterWait, program: Program) -> Run:
    """``counter.wait``."""
    find, value = _find(stmt.counter, program), program.scalar(stmt.value)

    def run(warp: Warp) -> Iterator[Blocked | None]:
        warp.touches_global()
        counters, at = find(warp)
        least = value(warp.env)
        warp.record(stmt.OP, counters.name, at)
        yield None
        while counters.words[at] < least:
            yield Blocked(
                counters, lambda: f"{counters.name}[{at}] is {counters.words[at]}, not yet {least}"
            )
        warp.knows |= counters.known.get(at, set())

    return run


def _find(ref: CounterRef, program: Program) -> Callable[[Warp], tuple[Counters, int]]:
    index, name = program.scalar(ref.index), ref.array

    def find(warp: Warp) -> tuple[Counters, int]:
        counters, at = warp.cta.cluster.words[name], index(warp.env)
        if not 0 <= at < counters.words.size:
            raise FaultError(f"{name}[{at}] lies outside {name}[{counters.words.size}]")
        return counters, at

    return find
