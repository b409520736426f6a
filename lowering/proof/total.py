"""How many steps a program takes, in closed form, and whether those it leaves out are the last.

A *run* is an outermost loop, or a wait in none. Its steps are counted where each loop's bounds are
known in front of all: a nest of loops is a number of trips. Where the only wait of a nest stands in
a condition ``c + i < b`` on the trip's number ``i``, the trips that take a step are the first
``b - c`` of them. So a program of which the last run alone has such a condition takes the steps 0,
1, 2, ..., and those that it leaves out are behind them all: that is what loads ahead do.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowering.ground.expr import ONE, Binary, Expr, Var, free_vars, maximum, minimum
from lowering.ground.poly import Poly, poly
from lowering.kernel.control import For
from lowering.kernel.sync import MBarrierWait
from lowering.kernel.visit import walk
from lowering.proof.agent import Agent
from lowering.proof.linear import Facts
from lowering.proof.shape import Shape
from lowering.proof.state import Walked

__all__ = ["taken", "times"]

_NONE, _ONE = Poly(()), poly(ONE)


@dataclass(frozen=True, slots=True)
class _Run:
    """A part of a program: how many steps it takes, and whether its last trips may take none."""

    steps: Poly
    partial: bool = False


def taken(agent: Agent, array: str, shape: Shape, way: Walked, facts: Facts) -> Poly | None:
    """How many steps an agent waits for at an array, from 0 on without a gap; None if not known.

    ``shape`` is its program as those waits see it; ``way``, what came of its walk, says where it
    leaves steps out.
    """
    runs = _runs(shape, facts)
    late = [steps for (_, a), steps in way.begins.items() if a == array]
    gaps = {loop for loop, a in (*way.begins, *way.idle) if a == array}
    if not runs or any(r.partial for r in runs[:-1]) or any(a == array for _, a in way.skips):
        return None
    if not gaps <= _last(agent, array):
        return None
    if any(a == array for _, a in way.idle) and not runs[-1].partial:
        return None
    some = (runs[-1].steps - _ONE,)
    begun = facts + some
    if not all(begun.equal(steps, products=True) for steps in late):
        return None
    return sum((r.steps for r in runs), _NONE)


def times(shape: Shape, inner: Shape, facts: Facts) -> Poly | None:
    """How often a program comes to a part of it, ``inner``, which loops alone stand around; None if
    it has another form, or how often is not known.
    """
    total = _ONE
    while shape != inner:
        match shape:
            case (("loop", *_, tuple() as body),):
                (loop,) = shape
                count = _trips(loop, facts) if isinstance(loop, tuple) else None
                if count is None or _inside(count):
                    return None
                total, shape = total * count, body
            case _:
                return None
    return total


def _last(agent: Agent, array: str) -> set[str]:
    """The last outermost loop with waits at an array, and the loops in it."""
    found = set[str]()
    for stmt in agent.body:
        inside = list(walk((stmt,)))
        if any(isinstance(s, MBarrierWait) and s.bar.array == array for s in inside):
            found = {s.var.name for s in inside if isinstance(s, For)}
    return found


def _runs(shape: Shape, facts: Facts) -> list[_Run] | None:
    """The runs of a program; None where a count has no closed form here."""
    found = [_Run(_ONE) if part == "wait" else _nest(part, facts) for part in shape]
    known = [r for r in found if r is not None]
    return known if len(known) == len(found) else None


def _nest(part: object, facts: Facts) -> _Run | None:
    """A loop, and those in it as long as there is nothing else, down to waits, perhaps in a
    condition.
    """
    trips, body = list[Poly](), (part,)
    while len(body) == 1 and isinstance(body[0], tuple) and body[0][0] == "loop":
        count, inner = _trips(body[0], facts), body[0][-1]
        if count is None or not isinstance(inner, tuple) or _inside(count):
            return None
        trips.append(count)
        body = inner
    total, left = _ONE, _NONE
    for n, count in reversed([*enumerate(trips)]):
        left = left + total * poly(Var(f"%{n}"))
        total = total * count
    match body:
        case (("if", Binary("<", a, b), ("wait",), ()),):
            left = left + poly(b) - poly(a)
            steps = minimum(total.expr(), maximum(left.expr(), 0))
            return None if _inside(left) else _Run(poly(steps), partial=True)
    runs = _runs(body, facts) if trips else None
    if runs is None or any(r.partial or _inside(r.steps) for r in runs):
        return None
    return _Run(sum((r.steps for r in runs), _NONE) * total)


def _trips(loop: Shape, facts: Facts) -> Poly | None:
    """How often a loop runs that counts by ones."""
    match loop:
        case ("loop", Expr() as start, Expr() as stop, step, *_) if step == ONE:
            span = poly(stop) - poly(start)
            return span if facts.follows(span) else poly(maximum(span.expr(), 0))
    return None


def _inside(count: Poly) -> bool:
    """Whether a number depends on the trip of a loop, or on what one carries."""
    names = {v.name for monomial, _ in count.terms for a in monomial for v in free_vars(a)}
    return any(n.startswith("%") for n in names)
