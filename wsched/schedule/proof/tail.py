"""The end of the load loop: one predicate as the bound of both sides.

A split that does not divide deals out shares that reach past the end: the last tiles of a
persistent loop, the last tile of an odd number in ping-pong. A predicate on one side only would
let the sides take different numbers of steps and break the parity of their barriers. So the index
that must stay in range is required to grow with the load index; then the load loop's bound and the
bound of compute's tile loop follow from the same inequality.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import Const, Expr, Var, as_expr, ceildiv, free_vars, maximum, minimum
from lowering.ground.poly import Poly, linear_in, poly
from wsched.fusion import Split
from wsched.schedule.proof.graph import Group, TransformGraph
from wsched.schedule.proof.relation import StepLoop, Tail

__all__ = ["find_tail", "guarded"]

Refuse = Callable[[str, str, tuple[str, ...]], ScheduleError]


def find_tail(
    graph: TransformGraph,
    indices: Mapping[Group, Expr],
    loops: Iterable[Var],
    radix: Sequence[StepLoop],
    refuse: Refuse,
) -> Tail | None:
    """The predicate that bounds the load loop, if shares are rounded up.

    Args:
        graph: the transform graph.
        indices: index of each group in compute's loop variables.
        loops: compute's loop variables.
        radix: the step loops, fastest first.
        refuse: makes the error from rule and reason.
    """
    stepping = [s.var for s in radix]
    others = frozenset(loops) - frozenset(stepping)
    found: list[Tail] = []
    ends = guarded(graph, radix)
    for group in ends:
        linear = linear_in(indices[group], stepping) if group in indices else None
        moves = linear is not None and any(w.terms for w in linear[0].values())
        if linear is None or not moves or free_vars(linear[1].expr()) & others:
            raise refuse(
                "load-bound",
                f"{group.label} < {group.extent} does not follow from the load index",
                (),
            )
        found.append(_bound(graph, group, *linear, radix, refuse))
    if len(found) > 1:
        names = " and ".join(g.label for g in ends)
        raise refuse("load-bound", f"{names} end early independently of each other", ())
    return found[0] if found else None


def guarded(graph: TransformGraph, radix: Sequence[StepLoop]) -> list[Group]:
    """Groups whose index must be kept in range: inputs of splits with a tail above step loops.

    Two kinds need no predicate. Past the end of a single dimension of a tensor the TMA reads zeros
    and writes nothing. And ``outer * factor + inner < extent`` implies ``outer < ceildiv(extent,
    factor)``, so it covers the outer part of a split as well.
    """
    pending = [graph.group(s.domain) for s in radix]
    above: dict[Group, None] = {}
    while pending:
        step = graph.producer(pending.pop(0))
        if step is None:
            continue
        pending += step.inputs
        if isinstance(step.transform, Split) and not _divides(step.transform):
            above[step.inputs[0]] = None
    ends = [g for g in above if len(_roots(graph, g)) > 1]
    implied = {
        step.outputs[0]
        for step in graph.steps
        if isinstance(step.transform, Split) and step.inputs[0] in ends
    }
    return [g for g in ends if g not in implied]


def _roots(graph: TransformGraph, group: Group) -> frozenset[Group]:
    """Logical dimensions that a group is made from."""
    step = graph.producer(group)
    if step is None:
        return frozenset((group,))
    return frozenset().union(*(_roots(graph, g) for g in step.inputs))


def _divides(t: Split) -> bool:
    """Whether a split is known to leave no tail."""
    extent, factor = t.input.extent, t.factor
    if not isinstance(factor, Const):
        return False
    return factor.value == 1 or (isinstance(extent, Const) and extent.value % factor.value == 0)


def _bound(
    graph: TransformGraph,
    group: Group,
    weights: Mapping[Var, Poly],
    rest: Poly,
    radix: Sequence[StepLoop],
    refuse: Refuse,
) -> Tail:
    """Both sides' bounds from ``index = sum(weight * loop) + rest < group.extent``.

    With ``u`` load steps for each ``w`` of the index, ``index = m // u * w + rest`` for load index
    m, so the load loop ends at ``ceildiv(extent - rest, w) * u``. Where the loops are the inner
    part of the split (each CTA has neighbouring items), they also end with their own extents.
    """
    below = [s.domain.label for s in radix if not weights[s.var].terms]
    first = min(p for p, s in enumerate(radix) if weights[s.var].terms)
    top = radix[first:]
    u, w = poly(top[0].coefficient), weights[top[0].var]
    if any(weights[s.var] * u != w * poly(s.coefficient) for s in top):
        raise refuse(
            "load-bound",
            f"{group.label} < {group.extent} would cut load steps out of the middle of the load "
            "loop, not off its end",
            tuple(f"merge the load loops with {label} innermost" for label in below),
        )
    serial = [s for s in top if not s.role]
    if len(serial) > 1:
        names = " and ".join(s.domain.label for s in serial)
        why = f"{group.label} < {group.extent} ends two loops early: {names}"
        raise refuse("load-bound", why, ())
    index, share = rest.expr(), rest
    for s in top:
        index = index + weights[s.var].expr() * s.var
        share = share + (weights[s.var] * poly(s.var) if s.role else Poly(()))
    items = ceildiv(_left(group, rest), w.expr())
    shares = ceildiv(_left(group, share), weights[serial[0].var].expr()) if serial else None
    if _is_inner_part(graph, group, top):
        items = minimum(items, prod(s.domain.extent for s in top))
        shares = None if shares is None else minimum(shares, serial[0].domain.extent)
    load_stop = items * u.expr()
    item, count = as_expr(0), as_expr(1)
    for s in top:
        item, count = item + count * s.var, count * s.domain.extent
    dynamic = any(
        isinstance(s.transform, Split) and s.transform.dynamic and s.inputs[0] == group
        for s in graph.steps
    )
    serial_var = serial[0].var if serial else None
    return Tail(index, group.extent, load_stop, serial_var, shares, item, u.expr(), dynamic)


def _is_inner_part(graph: TransformGraph, group: Group, loops: Sequence[StepLoop]) -> bool:
    """Whether loops come from the inner part of the split of ``group``."""
    inner = [s.outputs[1] for s in graph.steps if s.inputs[0] == group and len(s.outputs) == 2]
    return any(_is_above(graph, g, graph.group(s.domain)) for g in inner for s in loops)


def _is_above(graph: TransformGraph, upper: Group, group: Group) -> bool:
    """Whether ``group`` is ``upper`` or made from it."""
    step = graph.producer(group)
    return group == upper or (
        step is not None and any(_is_above(graph, upper, g) for g in step.inputs)
    )


def _left(group: Group, start: Poly) -> Expr:
    """Items of a group from ``start`` on, none if it starts past the end."""
    return maximum(group.extent - start.expr(), 0) if start.terms else group.extent
