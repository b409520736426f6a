"""The bounds of compute's loops: what exists, for each role on its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import Expr, as_expr, ceildiv, minimum
from lowering.ground.poly import Poly, poly
from wsched.schedule.proof.bounds import Guard
from wsched.schedule.proof.digits import Digit
from wsched.schedule.proof.graph import Group, TransformGraph
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
) -> tuple[Tail, Guard] | None:
    """The one predicate that ends all loops, with its guard: only the outermost ones end early."""
    ending = above or [g for g in below if g.group == nest[0].group]
    trimmed = [d for d in digits if d.loop.trimmed]
    first = next((d for d in digits if not d.loop.role), None)
    inner = any(n.stop != n.group.extent for n in nest[1:])
    if len(ending) != 1 or trimmed != [first] or inner or first is None:
        return None
    guard, top = ending[0], nest[0].group
    index, item = guard.rest.expr(), as_expr(0)
    for d in reversed(digits):
        if (w := d.weight(guard)).terms:
            index = index + w.expr() * d.loop.var
        if top in d.digit.weights:
            item = item + d.digit.weights[top].expr() * d.loop.var
    tail = Tail(
        index,
        guard.group.extent,
        nest[0].stop,
        first.loop.var,
        first.loop.stop,
        item,
        nest[0].weight,
    )
    return tail, guard
