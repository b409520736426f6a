"""Inside a stage: every step is consumed once, by all that compute it together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from lowering.ground.expr import ONE
from wsched.fusion import IterDomain, IterType, ParallelType, PrimitiveCall
from wsched.schedule.graph import Group, TransformGraph
from wsched.schedule.primitives.parallelize import check_parallelize
from wsched.schedule.proof.relation import StepLoop
from wsched.schedule.proof.sides import CTA_INDEX, ROLES, Sides

__all__ = ["check_bystanders", "check_cta_loops", "on_other_ctas"]

_IN_ORDER = (ParallelType.Serial, ParallelType.Unroll)
_SERIAL = (*_IN_ORDER, ParallelType.Mma, ParallelType.Bulk)


def check_cta_loops(sides: Sides) -> None:
    """A CTA loads what it computes: loops of the loads on CTAs are compute's on the same ones.

    Raises:
        ScheduleError: ``load-cover``.
    """
    for d in on_other_ctas(sides):
        raise sides.refuse(
            "load-cover",
            f"loop {d.label} [{d.parallel}] of {sides.loads[0].name} is no loop of "
            f"{sides.compute.name} on the same CTAs",
            _on_their_ctas(sides, sides.graph.group(d)),
        )


def _on_their_ctas(sides: Sides, group: Group) -> tuple[str, ...]:
    """How what computes runs a loop on the loads' CTAs; what is summed over is on BIDz alone."""
    compute, axis = sides.compute, sides.axis_of(group)
    place = next((p for p, d in enumerate(compute.loop) if sides.graph.group(d) == group), None)
    if place is None or axis is None:
        return ()
    if not check_parallelize(compute, place, axis):
        return (str(PrimitiveCall("parallelize", (compute.name, place, axis))),)
    if compute.loop[place].iter_type is not IterType.Reduction:
        return ()
    return (f"parallelize {compute.loop[place].label} on BIDz on both sides",)


def on_other_ctas(sides: Sides) -> list[IterDomain]:
    """Loops of the loads, left of the stage, that are no serial ones and none of compute on the
    same CTAs.
    """
    graph, first = sides.graph, sides.loads[0]
    runs = {(graph.group(d), d.parallel) for d in sides.compute.loop if d.parallel in CTA_INDEX}
    return [
        d
        for d in first.loop[: first.slice_position]
        if d.parallel is not ParallelType.Serial and (graph.group(d), d.parallel) not in runs
    ]


def check_bystanders(
    sides: Sides, digits: Sequence[StepLoop], on_ctas: Callable[[IterDomain], bool]
) -> None:
    """Every loop of compute that takes no part in the load index is on the loads' CTAs, or inside
    a stage; there it is serial, inside all that step, or shared out to warpgroups. A box is taken
    at once, wherever its loops stand.

    Args:
        sides: of the edge.
        digits: compute's loops that take part in the load index.
        on_ctas: whether a loop of compute runs on CTAs as it has to.

    Raises:
        ScheduleError: ``load-cover``, ``role``.
    """
    graph, compute = sides.graph, sides.compute
    inside = [determined(graph, map(graph.group, t.loop[t.slice_position :])) for t in sides.loads]
    stepping = {s.domain.id: s for s in digits}
    last = max((p for p, d in enumerate(compute.loop) if _serial(stepping, d)), default=-1)
    for place, d in enumerate(compute.loop):
        group = graph.group(d)
        if d.id in stepping or on_ctas(d):
            continue
        name = f"loop {d.label} [{d.parallel}] of {compute.name}"
        if not all(group in found for found in inside):
            raise sides.refuse(
                "load-cover",
                f"{name} is neither in the load index {sides.load_loop} nor inside a stage: "
                f"each load step would be consumed {d.extent} times",
                _on_their_ctas(sides, group),
            )
        if d.parallel in _IN_ORDER and place < last and d.extent != ONE:
            step = compute.loop[last]
            raise sides.refuse(
                "load-cover",
                f"{name} lies inside a stage, but outside loop {step.label}, which steps through "
                f"stages: each load step would be wanted {d.extent} times",
                (f"reorder {compute.name} so that {d.label} is right of {step.label}",),
            )
        if d.parallel not in (*_SERIAL, *ROLES, *CTA_INDEX):
            raise sides.refuse(
                "role",
                f"{name} runs inside a stage, which warpgroups consume as a whole; what they share "
                "is dealt out on TIDy or TIDz",
            )


def _serial(stepping: dict[int, StepLoop], d: IterDomain) -> bool:
    """Whether one warp steps through stages in a loop."""
    return d.id in stepping and not stepping[d.id].role


def determined(graph: TransformGraph, known: Iterable[Group]) -> frozenset[Group]:
    """All groups whose index follows from those of ``known``; that of one iteration is known."""
    found = {*known, *(g for g in graph.groups if g.extent == ONE)}
    size = -1
    while size != len(found):
        size = len(found)
        for step in graph.steps:
            if step.dynamic:
                continue
            inputs, outputs = set(step.inputs), set(step.outputs)
            if inputs <= found or outputs <= found:
                found |= inputs | outputs
    return frozenset(found)
