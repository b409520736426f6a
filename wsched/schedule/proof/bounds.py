"""Where loops end: both sides run what exists, and nothing else.

A split that does not divide makes iterations that do not exist (see ``splits``). Such a predicate
must bound the loops of both sides: on one side only it would let them take different numbers of
steps and break the parity of their barriers. It is

- nothing to do where both sides may run on, behind the end of a dimension of a tensor;
- no bound of the load loop where that counts the group itself, which compute splits further: the
  load loop ends with the group, compute's loops are kept in range;
- else a bound of one loop of the load nest, the same for all indices of the loops outside it, so
  that load steps stay consecutive, and of those of compute's loops that make up its index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import ONE, ZERO, Expr, Var, ceildiv, maximum, minimum, select
from lowering.ground.poly import Poly, linear_in, poly
from wsched.fusion import Split, TensorView
from wsched.schedule.graph import Group, TransformGraph, divides
from wsched.schedule.proof.orders import Misordered
from wsched.schedule.proof.splits import ends_with_tensor, is_outer_of

__all__ = ["Guard", "guards_above", "guards_below", "load_stops"]

Refuse = Callable[[str, str, tuple[str, ...]], ScheduleError]


@dataclass(frozen=True, slots=True)
class Guard:
    """``sum(weights[g] * index of g) + rest < group.extent``.

    Args:
        group: the input of a split with a tail.
        weights: by the groups that its index rises with.
        rest: the part of the index that is the CTA's.
    """

    group: Group
    weights: Mapping[Group, Poly]
    rest: Poly

    def left(self, before: Poly) -> Expr:
        """Number of indices from ``before`` on, none if that lies past the end."""
        extent = self.group.extent
        return maximum(extent - before.expr(), 0) if before.terms else extent


def guards_above(
    graph: TransformGraph,
    load: TensorView,
    counted: Sequence[Group],
    ctas: Mapping[Group, Expr],
    refuse: Refuse,
) -> tuple[Guard, ...]:
    """The guards of groups that the load loop counts in parts, the others being on CTAs.

    Args:
        graph: the transform graph.
        load: a tensor of the load side.
        counted: the groups that the load loop counts.
        ctas: index of the groups that run on CTAs.
        refuse: makes the error from rule, reason and alternatives.

    Raises:
        ScheduleError: ``load-bound``, where an index is not linear in those of the groups.
    """
    names = {g: Var(f"g{g.id}") for g in counted}
    inside = {graph.group(d): ZERO for d in load.loop[load.slice_position :]}
    inside |= {g: ZERO for g in graph.known(load) if g.extent == ONE}
    known: dict[Group, Expr] = {**inside, **ctas, **names}
    made = {graph.group(t.input): t for t in load.transforms if isinstance(t, Split)}
    padded = {graph.padded(g): g for g in graph.known(load)}

    def index(g: Group) -> Expr | None:
        if g in known or g not in made:
            return known.get(g)
        if g in padded and (e := index(padded[g])) is not None:
            return e
        outer, inner = (index(graph.group(d)) for d in made[g].outputs)
        return None if outer is None or inner is None else outer * made[g].inner.extent + inner

    found = []
    for g in _ends(graph, (*counted, *ctas)):
        e, t = index(g), made[g]
        linear = None if e is None else linear_in(e, names.values())
        if linear is None:
            why = f"{g.label} < {g.extent} does not follow from the load index"
            raise refuse("load-bound", why, ())
        if t.inner_split and graph.group(t.outer) in names and index(graph.group(t.inner)) == ZERO:
            continue  # a whole box: the outer part alone is in range, so this is
        weights = {c: linear[0][v] for c, v in names.items() if linear[0][v].terms}
        found.append(Guard(g, weights, linear[1]))
    return tuple(found)


def _ends(graph: TransformGraph, parts: Sequence[Group]) -> list[Group]:
    """Inputs of splits with a tail above ``parts``, behind whose end no side may run; and what is
    dealt out at run time, of which no CTA knows how much it gets.
    """
    pending = list(parts)
    above: dict[Group, Split] = {}
    while pending:
        step = graph.producer(pending.pop(0))
        if step is None:
            continue
        pending += step.inputs
        if isinstance(step.transform, Split):
            above[step.inputs[0]] = step.transform
    ends = [g for g, t in above.items() if t.dynamic or _ends_alone(graph, g, t)]
    return [g for g in ends if not any(g != o and is_outer_of(graph, g, o) for o in ends)]


def _ends_alone(graph: TransformGraph, g: Group, t: Split) -> bool:
    """Whether something must stop what splits ``g`` at its end."""
    return not divides(t) and not ends_with_tensor(graph, g)


def guards_below(
    graph: TransformGraph, tails: Sequence[Group], above: Sequence[Guard]
) -> tuple[Guard, ...]:
    """The guards of what the load loop counts and compute splits, where no other one implies it."""
    return tuple(
        Guard(z, {z: poly(ONE)}, Poly(()))
        for z in tails
        if not any(is_outer_of(graph, z, g.group) for g in above)
    )


def load_stops(
    graph: TransformGraph, counted: Sequence[Group], guards: Sequence[Guard]
) -> tuple[Expr, ...]:
    """Number of iterations of each loop of the load nest.

    Args:
        graph: the transform graph.
        counted: what the loops count, slowest first.
        guards: those above them.

    Raises:
        Misordered: ``load-bound``, where a loop would end at another index for each of one
            outside it.
    """
    stops = [g.extent for g in counted]
    for guard in guards:
        places = [p for p, g in enumerate(counted) if g in guard.weights]
        if len(places) > 1:
            raise Misordered(
                "load-bound",
                f"{guard.group.label} < {guard.group.extent} would cut load steps out of the "
                "middle of the load loop, not off its end",
            )
        if not places:
            enters = guard.rest.expr() < guard.group.extent
            stops[0] = select(enters, stops[0], ZERO)
            continue
        (at,) = places
        count = ceildiv(guard.left(guard.rest), guard.weights[counted[at]].expr())
        whole = stops[at] == counted[at].extent
        implied = whole and is_outer_of(graph, counted[at], guard.group)
        stops[at] = count if implied else minimum(count, stops[at])
    return tuple(stops)
