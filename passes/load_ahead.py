"""Loads that the warps that compute issue themselves, some steps ahead: one section's nest.

The nest is not flattened: which of its iterations a step is, some steps ahead of the one that is
consumed, is a counter with a digit for each loop. The loops of the compute side carry it, and it is
one further with each step, so that nothing has to be divided.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from math import prod

from lowering.ground.errors import InternalError
from lowering.ground.expr import (
    ONE,
    ZERO,
    Const,
    Expr,
    ScalarType,
    Var,
    free_vars,
    minimum,
    select,
)
from lowering.ground.poly import poly
from lowering.kernel.kernel import Kernel, Ring
from lowering.kernel.nodes import (
    Body,
    Carry,
    Consume,
    Elect,
    Event,
    For,
    If,
    Let,
    OnWarp,
    Produce,
    Section,
    Stmt,
)
from lowering.kernel.visit import Names, defined_in, map_bodies, rename, walk

__all__ = ["Counter", "LoadAhead"]

Counter = tuple[Expr, ...]
"""Index of each loop of a load nest at the next step to be filled, slowest first."""


@dataclass(frozen=True, slots=True)
class LoadAhead:
    """A section that fills a ring: loops one in another that count its steps, bindings in each."""

    ring: Ring
    lets: Body
    loops: tuple[For, ...]
    names: Names

    @staticmethod
    def of(kernel: Kernel, section: Section, names: Names) -> LoadAhead:
        """Refuses other forms, and rings that nobody is to load ahead."""
        lets, inner = _opening(section.body)
        loops: list[For] = []
        while inner and isinstance(inner[0], For):
            if len(inner) > 1 or inner[0].start != ZERO or inner[0].carries:
                raise _unlike("the load section is not one nest of loops that count from 0")
            loops.append(inner[0])
            _, inner = _opening(inner[0].body)
        produced = [s for s in walk(inner) if isinstance(s, Produce)]
        if not loops or len(produced) != 1 or any(isinstance(s, For) for s in walk(inner)):
            raise _unlike("a load nest's trips are not steps of one ring")
        load = LoadAhead(kernel.ring(produced[0].ring), lets, tuple(loops), names)
        number = load._number
        if poly(produced[0].step) != poly(number) or not load.ring.prefetch:
            why = f"{load.ring.name} has prefetch {load.ring.prefetch}, its nest's trip is "
            raise _unlike(f"{why}{produced[0].step}, not {number}")
        inside = defined_in(loops)
        for loop in loops:
            if {v.name for v in free_vars(loop.stop)} & inside:
                raise _unlike(f"loop {loop.var.name} ends at {loop.stop}, known only inside")
        return load

    @property
    def _number(self) -> Expr:
        """Which step a trip is."""
        number: Expr = ZERO
        for loop in self.loops:
            number = number * loop.stop + loop.var
        return number

    @property
    def begin(self) -> Counter:
        """The counter of the first step; none where the step itself is the only index."""
        return (ZERO,) * len(self.loops) if len(self.loops) > 1 else ()

    @property
    def _first_tile(self) -> Event | None:
        """What steps are that are loaded in front of the loops: of the first tile."""
        told = (loop.event for loop in self.loops if loop.event is not None)
        return next((replace(event, tile=ZERO) for event in told), None)

    def head(self) -> tuple[Body, Counter]:
        """The first steps, and the counter behind them."""
        stop = minimum(self.ring.prefetch, prod((loop.stop for loop in self.loops), start=ONE))
        if not self.begin:
            (loop,) = self.loops
            body = self.fill(loop.var, (loop.var,), first=True)
            whole = For(loop.var, ZERO, stop, body, event=self._first_tile)
            return (OnWarp(0, (whole,)),), ()
        m = Var(self.names.new("first"))
        at = self.fresh()
        lets, following = self.advance(at)
        fill = OnWarp(0, self.fill(m, at, first=True))
        loop = For(m, ZERO, stop, (fill, *lets), event=self._first_tile)
        return self.carried(loop, self.begin, at, following)

    def fresh(self) -> tuple[Var, ...]:
        """Variables for a counter."""
        return tuple(Var(self.names.new(f"{loop.var.name}_ahead")) for loop in self.loops)

    def carried(
        self, loop: For, before: Counter, at: tuple[Var, ...], following: Counter
    ) -> tuple[Body, Counter]:
        """``loop`` with a counter that it carries as ``at``, and the counter behind it."""
        behind = self.fresh()
        carries = tuple(Carry(*c) for c in zip(at, before, behind, strict=True))
        carries, yields = (*loop.carries, *carries), (*loop.yields, *following)
        return (replace(loop, carries=carries, yields=yields),), behind

    def advance(self, at: Counter) -> tuple[Body, Counter]:
        """The counter one step later: each digit that reaches its end begins again."""
        lets: list[Stmt] = []
        out: list[Expr] = []
        carry: Expr = ONE
        for loop, digit in reversed([*zip(self.loops, at, strict=True)][1:]):
            following = Var(self.names.new("next"))
            wraps = Var(self.names.new("wraps"), ScalarType.PRED)
            lets += Let(following, digit + carry), Let(wraps, loop.stop <= following)
            out.insert(0, select(wraps, ZERO, following))
            carry = select(wraps, 1, 0)
        return tuple(lets), (at[0] + carry, *out)

    def fill(self, step: Expr, at: Counter, *, first: bool = False) -> Body:
        """The nest's body for a step: bindings, then everything else under one ``elect``.

        Args:
            step: which one.
            at: the index of each loop.
            first: whether the bindings keep their names.
        """
        table: dict[Var, Expr] = {}
        out: list[Stmt] = []
        inner: Body = ()
        for loop, digit in zip(self.loops, at, strict=True):
            table[loop.var] = digit
            lets, inner = _opening(loop.body)
            for let in lets:
                (new,) = rename((let,), table)
                assert isinstance(new, Let)
                fresh = new.var if first else Var(self.names.new(new.var.name), new.var.type)
                table[new.var] = fresh
                out.append(replace(new, var=fresh))
        copies = (
            replace(s, step=step) if isinstance(s, Produce) else s for s in rename(inner, table)
        )
        return (*out, Elect(tuple(copies)))

    def ahead(self, body: Body, at: Counter | None) -> tuple[Body, Counter | None]:
        """``body`` with the fill of step ``m + prefetch`` before each ``consume`` of step ``m``.

        Args:
            body: a statement list.
            at: the counter in front of it, None where it is not known.

        Returns:
            The list, and the counter behind it.
        """
        out: list[Stmt] = []
        for stmt in body:
            if not any(isinstance(s, Consume) and s.ring == self.ring.name for s in walk((stmt,))):
                out.append(stmt)
                continue
            if at is None:
                raise _unlike(f"steps of {self.ring.name} are consumed behind a branch that is one")
            if isinstance(stmt, Consume):
                step = stmt.step + Const(self.ring.prefetch)
                index = at or (step,)
                more = If(index[0] < self.loops[0].stop, self.fill(step, index))
                out += OnWarp(0, (more,)), stmt
                if at:
                    lets, at = self.advance(at)
                    out += lets
            elif at and isinstance(stmt, For):
                inside = self.fresh()
                new, following = self.ahead(stmt.body, inside)
                if following is None:
                    raise _unlike(f"steps of {self.ring.name} are consumed in a branch in a loop")
                stmts, at = self.carried(replace(stmt, body=new), at, inside, following)
                out += stmts
            else:
                out.append(map_bodies(stmt, partial(self._within, at=at)))
                at = None if at else ()
        return tuple(out), at

    def _within(self, body: Body, at: Counter) -> Body:
        return self.ahead(body, at)[0]


def _opening(body: Body) -> tuple[tuple[Let, ...], Body]:
    """The bindings at the beginning of a list, and what is behind them."""
    lets = tuple(takewhile(lambda s: isinstance(s, Let), body))
    return tuple(s for s in lets if isinstance(s, Let)), body[len(lets) :]


def _unlike(why: str) -> InternalError:
    return InternalError("interleave_loads", why)
