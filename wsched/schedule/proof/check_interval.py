"""Stream-K: what both sides have to agree on beside the load index, to run one CTA's share."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from lowering.ground.expr import ONE, Const, Special
from lowering.ground.poly import poly
from wsched.fusion import IterType, ParallelType
from wsched.schedule.proof.graph import Group
from wsched.schedule.proof.interval import Interval
from wsched.schedule.proof.relation import StepLoop
from wsched.schedule.proof.sides import CTA_INDEX, Sides
from wsched.schedule.proof.splits import dimensions

__all__ = ["check_interval"]


def check_interval(
    sides: Sides, interval: Interval, digits: Sequence[StepLoop], tails: Sequence[Group]
) -> None:
    """Both sides run the interval: the same tiles, in the same CTAs, by groups in turn.

    Args:
        sides: of the edge.
        interval: of the load loop.
        digits: compute's loops that take part in the load index.
        tails: groups that either side splits with a tail.

    Raises:
        ScheduleError: ``load-cover``, ``load-bound`` or ``role``.
    """
    compute = sides.compute
    shares = Special("nctaid.x") // interval.size
    if interval.shares != shares:
        raise sides.refuse(
            "load-cover",
            f"the load steps of all tiles are dealt out in {interval.shares} shares, and not one "
            "to each cluster of the grid",
            (f"split by {shares}, inner_split=False",),
        )
    _check_places(sides, interval)
    summed = {sides.graph.group(d) for d in compute.logical if d.iter_type is IterType.Reduction}
    of_sum = [g for g in tails if dimensions(sides.graph, g) <= summed]
    _check_tails(sides, interval, of_sum)
    inner = [s.domain.extent for s in digits if s.domain.iter_type is IterType.Reduction]
    if poly(prod(inner, start=ONE)) != poly(interval.inner):
        raise sides.refuse(
            "load-cover",
            f"the load steps of all tiles are dealt out to CTAs, but those of a tile are "
            f"{interval.k.label}, over which {compute.name} does not sum",
            ("merge tiles and k",),
        )
    _check_tails(sides, interval, tails)
    for s in digits:
        if s.role and poly(s.coefficient) != poly(interval.inner):
            raise sides.refuse(
                "role",
                f"loop {s.domain.label} [{s.domain.parallel}] of {compute.name} deals out every "
                f"{s.coefficient} load steps, but where a CTA begins within a tile warpgroups can "
                "only take turns tile by tile",
            )


def _check_tails(sides: Sides, interval: Interval, tails: Sequence[Group]) -> None:
    """What is rounded up ends with the tiles: shares have as many steps, also of what is not."""
    for group in tails:
        if group != interval.tile:
            why = f"{group.label} < {group.extent} does not end with the last share"
            raise sides.refuse("load-bound", why)


def _check_places(sides: Sides, interval: Interval) -> None:
    """Loops on CTAs: the share and the place in the cluster for loads, the place for compute."""
    graph, load, compute = sides.graph, sides.loads[0], sides.compute
    cta = load.axis_on(ParallelType.BIDx)
    assert cta is not None
    for d in load.loop[: load.slice_position]:
        if d is not cta and d.parallel is not ParallelType.Serial:
            raise sides.refuse(
                "load-cover",
                f"loop {d.label} [{d.parallel}] of {load.name} is beside {cta.label} [BIDx], which "
                "the load steps of all tiles are dealt out to",
            )
    place = graph.indices({graph.group(cta): Special("ctaid.x")})
    for d in compute.loop:
        if d.parallel in CTA_INDEX and (
            graph.group(d) not in place
            or (d.parallel, d.extent) != (ParallelType.BIDx, Const(interval.size))
        ):
            raise sides.refuse(
                "load-cover",
                f"loop {d.label} [{d.parallel}] of {compute.name} is not the place in the cluster: "
                f"its CTAs take their shares of the load steps from {load.name}",
            )
