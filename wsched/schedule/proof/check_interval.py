"""Stream-K: what both sides have to agree on beside the load index, to run one CTA's share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from lowering.ground.expr import Const, Expr, Special
from wsched.fusion import IterType, ParallelType
from wsched.schedule.graph import Group
from wsched.schedule.primitives.factor import factor_reasons
from wsched.schedule.proof.counting import Counting, countings, together
from wsched.schedule.proof.indices import indices
from wsched.schedule.proof.interval import DealtLoop, Interval
from wsched.schedule.proof.relation import LoadLoop, LoadRelation
from wsched.schedule.proof.sides import Sides
from wsched.schedule.proof.splits import dimensions
from wsched.schedule.proof.work import OfInterval

__all__ = ["check_places", "check_shares", "find_interval"]


def check_places(sides: Sides, dealt: DealtLoop) -> None:
    """Along x the loads have the share and the place in the cluster, and what computes the place.

    Other loops of the loads beside their steps are those of what computes: the digits of the steps
    and what is inside a stage are not all of it (``bystanders``).

    Args:
        sides: of the edge.
        dealt: the load loop, which CTAs along x have a share of.

    Raises:
        ScheduleError: ``load-cover``.
    """
    graph, load, compute = sides.graph, sides.loads[0], sides.compute
    cta = load.axis_on(ParallelType.BIDx)
    assert cta is not None
    if factor_reasons(sides.fusion, dealt.shares):
        shares = Special("nctaid.x") if dealt.size == 1 else Special("nctaid.x") // dealt.size
        raise sides.refuse(
            "load-cover",
            f"the load steps of all tiles are dealt out in {dealt.shares} shares: there are none "
            "where the sum is empty, but its tiles are computed all the same",
            (f"split by {shares}, inner_split=False",),
        )
    place = indices(graph, {graph.group(cta): Special("ctaid.x")})
    for d in compute.loop:
        if d.parallel is ParallelType.BIDx and (
            graph.group(d) not in place or d.extent != Const(dealt.size)
        ):
            raise sides.refuse(
                "load-cover",
                f"loop {d.label} [{d.parallel}] of {compute.name} is not the place in the cluster: "
                f"its CTAs take their shares of the load steps from {load.name}",
            )


def find_interval(sides: Sides, dealt: DealtLoop, nest: Sequence[LoadLoop]) -> Interval:
    """The interval of a CTA: a share of what the loads count, of which both sides run what exists.

    Args:
        sides: of the edge.
        dealt: the load loop that is dealt out.
        nest: the same loop as loops of its own.

    Raises:
        ScheduleError: ``load-cover``, where it does not count tiles, and for each of them steps of
            a sum.
    """
    graph = sides.graph
    sums = [t for t in sides.fusion.tensors if t.sums]
    summed = {graph.group(d) for t in sums for d in t.logical if d.iter_type is IterType.Reduction}

    def of_tile(groups: Sequence[Group]) -> int:
        """How many of these loops are steps of a tile: the innermost ones."""
        return len(list(takewhile(lambda g: dimensions(graph, g) <= summed, reversed(groups))))

    groups = [n.group for n in nest]
    steps = of_tile(groups)
    tiles = groups[: len(groups) - steps]
    if not steps or any(dimensions(graph, g) & summed for g in tiles):
        raise sides.refuse(
            "load-cover",
            f"the load steps of all tiles are dealt out to CTAs, but they count "
            f"{', '.join(g.label for g in groups)}, and not tiles and then what "
            f"{' and '.join(t.name for t in sums)} sums over",
            ("merge tiles and k",),
        )
    stops = {n.group: n.stop for n in nest}
    counted = countings(graph, dealt.merged)
    loops = [_ending(g, c, stops) for g, c in counted]
    at = len(loops) - of_tile([g for g, _ in counted])
    return Interval(dealt, together(loops[:at]), together(loops[at:]))


def check_shares(edges: Sequence[tuple[Sides, LoadRelation]]) -> None:
    """Where a CTA has a share of the load steps, it is the same one of all that is loaded.

    Args:
        edges: with what was proved of each, the operands' first.

    Raises:
        ScheduleError: ``load-bound``.
    """
    first, others = edges[0][1], edges[1:]
    for sides, relation in others:
        loaded = sides.loads[0] in sides.fusion.loads
        if loaded and _interval(relation) != _interval(first):
            raise sides.refuse(
                "load-bound",
                f"a CTA has not the same share of the load steps of {', '.join(relation.loads)} "
                f"and of {', '.join(first.loads)}",
                ("split both sides by the same factors",),
            )


def _interval(relation: LoadRelation) -> Interval | None:
    return relation.work.interval if isinstance(relation.work, OfInterval) else None


def _ending(g: Group, counting: Counting, stops: dict[Group, Expr]) -> Counting:
    """How loads count a group, which ends with a loop of the nest."""
    return replace(counting, steps=stops.get(g, counting.steps))
