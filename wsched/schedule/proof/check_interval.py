"""Stream-K: what both sides have to agree on beside the load index, to run one CTA's share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from lowering.ground.expr import Const, Expr, Special
from wsched.fusion import IterType, ParallelType
from wsched.schedule.primitives.factor import factor_reasons
from wsched.schedule.proof.counting import Counting, countings, together
from wsched.schedule.proof.graph import Group
from wsched.schedule.proof.interval import DealtLoop, Interval
from wsched.schedule.proof.relation import LoadLoop
from wsched.schedule.proof.sides import Sides
from wsched.schedule.proof.splits import dimensions

__all__ = ["check_places", "find_interval"]


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
    place = graph.indices({graph.group(cta): Special("ctaid.x")})
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
            its sum.
    """
    graph, compute = sides.graph, sides.compute
    summed = {graph.group(d) for d in compute.logical if d.iter_type is IterType.Reduction}

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
            f"{', '.join(g.label for g in groups)}, and not tiles and then what {compute.name} "
            "sums over",
            ("merge tiles and k",),
        )
    stops = {n.group: n.stop for n in nest}
    counted = countings(graph, dealt.merged)
    loops = [_ending(g, c, stops) for g, c in counted]
    at = len(loops) - of_tile([g for g, _ in counted])
    return Interval(dealt, together(loops[:at]), together(loops[at:]))


def _ending(g: Group, counting: Counting, stops: dict[Group, Expr]) -> Counting:
    """How loads count a group, which ends with a loop of the nest."""
    return replace(counting, steps=stops.get(g, counting.steps))
