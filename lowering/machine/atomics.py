"""Atomics on counters in global memory, of all CTAs in any order."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lowering.kernel.nodes import Atom, CounterRef, CounterWait
from lowering.machine.errors import FaultError
from lowering.machine.program import Program, Run
from lowering.machine.scalars import bind
from lowering.machine.scheduler import Blocked
from lowering.machine.state import Warp
from lowering.machine.workspace import Counters

__all__ = ["atom", "counter_wait"]

_MODULUS = 1 << 32

_OPS: dict[str, Callable[[int, int], int]] = {
    "add": lambda old, value: old + value,
    "exch": lambda old, value: value,
    "inc": lambda old, value: 0 if old % _MODULUS >= value % _MODULUS else old + 1,
    "max": max,
    "min": min,
}


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
            told = warp.known.released(warp.elected)
            counters.known[at] = counters.known.get(at, 0) | told
        if order.startswith("acq"):
            warp.known.learn(counters.known.get(at, 0), warp.elected)
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
        warp.known.learn(counters.known.get(at, 0), warp.elected)

    return run


def _find(ref: CounterRef, program: Program) -> Callable[[Warp], tuple[Counters, int]]:
    index, name = program.scalar(ref.index), ref.array

    def find(warp: Warp) -> tuple[Counters, int]:
        counters, at = warp.cta.cluster.counters[name], index(warp.env)
        if not 0 <= at < counters.words.size:
            raise FaultError(f"{name}[{at}] lies outside {name}[{counters.words.size}]")
        return counters, at

    return find
