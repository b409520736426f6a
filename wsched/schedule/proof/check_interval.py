"""Stream-K: what both sides have to agree on beside the load index, to run one CTA's share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import Const, Special
from lowering.ground.poly import poly
from wsched.fusion import IterType, ParallelType, TensorView
from wsched.schedule.proof.graph import TransformGraph
from wsched.schedule.proof.interval import Interval
from wsched.schedule.proof.relation import StepLoop
from wsched.schedule.proof.tail import guarded

__all__ = ["check_interval"]

Refuse = Callable[[str, str, tuple[str, ...]], ScheduleError]

_ON_CTAS = (ParallelType.BIDx, ParallelType.BIDy, ParallelType.BIDz)


def check_interval(
    graph: TransformGraph,
    interval: Interval,
    load: TensorView,
    compute: TensorView,
    radix: Sequence[StepLoop],
    refuse: Refuse,
) -> None:
    """Both sides run the interval: the same tiles, in the same CTAs, by groups in turn.

    Args:
        graph: the transform graph.
        interval: of the load loop.
        load: the first load tensor.
        compute: who consumes it.
        radix: compute's step loops, fastest first.
        refuse: makes the error from rule and reason.

    Raises:
        ScheduleError: ``load-cover``, ``load-bound`` or ``role``.
    """
    shares = Special("nctaid.x") // interval.size
    if interval.shares != shares:
        raise refuse(
            "load-cover",
            f"the load steps of all tiles are dealt out in {interval.shares} shares, and not one "
            "to each cluster of the grid",
            (f"split by {shares}, inner_split=False",),
        )
    inner = [s.domain.extent for s in radix if s.domain.iter_type is IterType.Reduction]
    if poly(prod(inner, start=Const(1))) != poly(interval.inner):
        raise refuse(
            "load-cover",
            f"the load steps of all tiles are dealt out to CTAs, but those of a tile are "
            f"{interval.k.label}, over which {compute.name} does not sum",
            ("merge tiles and k",),
        )
    _check_places(graph, interval, load, compute, refuse)
    for group in guarded(graph, radix):
        if group != interval.tile:
            why = f"{group.label} < {group.extent} does not end with the last share"
            raise refuse("load-bound", why, ())
    for s in radix:
        if s.role and poly(s.coefficient) != poly(interval.inner):
            raise refuse(
                "role",
                f"loop {s.domain.label} [{s.domain.parallel}] of {compute.name} deals out every "
                f"{s.coefficient} load steps, but where a CTA begins within a tile warpgroups can "
                "only take turns tile by tile",
                (),
            )


def _check_places(
    graph: TransformGraph,
    interval: Interval,
    load: TensorView,
    compute: TensorView,
    refuse: Refuse,
) -> None:
    """Loops on CTAs: the share and the place in the cluster for loads, the place for compute."""
    cta = load.axis_on(ParallelType.BIDx)
    assert cta is not None
    for d in load.loop[: load.slice_position]:
        if d is not cta and d.parallel is not ParallelType.Serial:
            raise refuse(
                "load-cover",
                f"loop {d.label} [{d.parallel}] of {load.name} is beside {cta.label} [BIDx], which "
                "the load steps of all tiles are dealt out to",
                (),
            )
    place = graph.indices({graph.group(cta): Special("ctaid.x")})
    for d in compute.loop:
        if d.parallel in _ON_CTAS and (
            graph.group(d) not in place
            or (d.parallel, d.extent) != (ParallelType.BIDx, Const(interval.size))
        ):
            raise refuse(
                "load-cover",
                f"loop {d.label} [{d.parallel}] of {compute.name} is not the place in the cluster: "
                f"its CTAs take their shares of the load steps from {load.name}",
                (),
            )
