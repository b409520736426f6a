"""The bounds of compute's loops: what exists, for each role on its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import Expr, as_expr, ceildiv, minimum
from lowering.ground.poly import Poly, poly
from wsched.schedule.graph import Group, TransformGraph
from wsched.schedule.proof.bounds import Guard
from wsched.schedule.proof.digits import Digit
from wsched.schedule.proof.relation import LoadLoop, StepLoop
from wsched.schedule.proof.splits import is_outer_of
from wsched.schedule.proof.work import Tail

__all__ = ["Trimmed", "find_tail", "trim"]

Refuse = Callable[[str, str, tuple[str, ...]], ScheduleError]


@dataclass(frozen=True, slots=True)
class Trimmed:
    """A digit of the load index with the loop that it is.

    Args:
        digit: what it counts.
        loop: the loop of compute, and its bound.
    """

    digit: Digit
    loop: StepLoop

    def weight(self, guard: Guard) -> Poly:
        """By how much the index of a guard rises from one of its iterations to the next."""
        total = Poly(())
        for g, w in guard.weights.items():
            if g in self.digit.weights:
                total = total + w * self.digit.weights[g]
        return total


def trim(
    graph: TransformGraph,
    digits: Sequence[Trimmed],
    guards: Sequence[Guard],
    lost: frozenset[Group],
    refuse: Refuse,
) -> tuple[tuple[Trimmed, ...], Expr | None]:
    """The digits with their bounds, and what must hold for a role to enter its loops at all.

    A role's index is known first, then those of the serial loops from the slowest on; each is
    bounded by what is in range with the faster ones at 0.

    Args:
        graph: the transform graph.
        digits: slowest first, each with its extent for a bound.
        guards: all that must hold.
        lost: groups without an index that is linear in the digits.
        refuse: makes the error from rule, reason and alternatives.
    """
    found = list(digits)
    entry: Expr | None = None
    for guard in guards:
        if lost & guard.weights.keys():
            why = f"{guard.group.label} < {guard.group.extent} does not follow from the load index"
            raise refuse("load-bound", why, ())
        moving = [(p, w) for p, d in enumerate(digits) if (w := d.weight(guard)).terms]
        before = guard.rest
        for p, w in moving:
            if digits[p].loop.role:
                before = before + w * poly(digits[p].loop.var)
        serial = [(p, w) for p, w in moving if not digits[p].loop.role]
        if not serial:
            enters = before.expr() < guard.group.extent
            entry = enters if entry is None else entry.logical_and(enters)
        for p, w in serial:
            count = ceildiv(guard.left(before), w.expr())
            found[p] = _bounded(graph, found[p], guard, count)
            before = before + w * poly(digits[p].loop.var)
    return tuple(found), entry


def _bounded(graph: TransformGraph, d: Trimmed, guard: Guard, count: Expr) -> Trimmed:
    """With one more bound; the extent is none where the guard implies it."""
    implied = not d.loop.trimmed and is_outer_of(graph, d.digit.group, guard.group)
    stop = count if implied else minimum(count, d.loop.stop)
    return replace(d, loop=replace(d.loop, stop=stop))


def find_tail(
    nest: Sequence[LoadLoop],
    digits: Sequence[Trimmed],
    above: Sequence[Guard],
    below: Sequence[Guard],
) -> Tail | None:
    """The predicate that ends the outermost load loop; None where no single one does, or there is
    no loop.

    Every guard bounds one loop of the load nest, at a number that is the same at all indices of
    the loops outside it (``bounds``). So one on the outermost loop cuts load steps off the end
    alone, whatever the others leave out of each of its iterations.

    Args:
        nest: the load loop as loops of its own.
        digits: compute's loops that take part in the load index, with their bounds.
        above: what ends loops of both sides.
        below: what else ends compute's: the load loop's own end, where it counts what they split.
    """
    if not nest:
        return None  # one step
    top = nest[0].group
    ending = [g for g in above if top in g.weights or not g.weights]
    ending = ending or [g for g in below if top in g.weights]
    if len(ending) != 1 or ending[0].weights.keys() != {top}:
        return None
    guard = ending[0]
    moving = [d for d in digits if d.weight(guard).terms]
    index, item = guard.rest.expr(), as_expr(0)
    for d in reversed(moving):
        index = index + d.weight(guard).expr() * d.loop.var
        item = item + d.digit.weights[top].expr() * d.loop.var
    ended = frozenset(d.loop.var for d in moving if d.loop.trimmed)
    shared = bool(guard.rest.terms)
    return Tail(index, guard.group.extent, nest[0].stop, ended, shared, item, nest[0].weight)
