"""Counters in global memory, through which CTAs of one grid speak to each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lowering.ground.expr import Expr, Var
from lowering.kernel.operands import CounterRef, Stmt
from lowering.kernel.traits import Memory, Threads, Traits

__all__ = ["ATOMS", "ATOM_ORDERS", "Atom", "CounterWait"]

ATOMS = ("add", "exch", "inc", "max", "min")
"""PTX's operations. ``inc`` takes the value as a limit: ``old + 1``, but 0 from the limit on."""

ATOM_ORDERS = ("relaxed.gpu", "acquire.gpu", "release.gpu", "acq_rel.gpu")


@dataclass(frozen=True, slots=True)
class Atom(Stmt):
    """``atom.order.global.op``: one thread, ``out`` is what the counter held before.

    ``op`` is one of ``ATOMS``; ``order`` is PTX's semantics and scope, one of ``ATOM_ORDERS``. A
    release makes visible what the executing thread wrote, and what others wrote before a barrier
    that it met them in; whoever acquires at the same counter sees it. Neither reaches the async
    proxy.
    """

    OP: ClassVar[str] = "atom"
    TRAITS: ClassVar[Traits] = Traits(
        threads=Threads.ONE,
        reads=Memory.GLOBAL,
        writes=Memory.GLOBAL,
        synchronizes=True,
        since="synchronize_partials",
    )
    out: Var
    op: str
    counter: CounterRef
    value: Expr
    order: str = "relaxed.gpu"


@dataclass(frozen=True, slots=True)
class CounterWait(Stmt):
    """``ld.acquire.gpu`` until the counter is at least ``value``; every executing thread waits.

    The CTA that raises it has to run, or to have run: grids that wait fit the device at once, or
    wait only for CTAs with smaller numbers, which they took as they started (``cta.number``).
    """

    OP: ClassVar[str] = "counter.wait"
    TRAITS: ClassVar[Traits] = Traits(
        reads=Memory.GLOBAL,
        synchronizes=True,
        since="synchronize_partials",
    )
    counter: CounterRef
    value: Expr
