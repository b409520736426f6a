"""Inside a tile: boxes and fragments end where the tile ends, and lie close together.

One TMA or one wgmma runs a whole box. Where a split of the tile leaves a tail, the last box would
reach into the next tile, so splits inside a tile divide; only behind the end of a dimension of a
tensor there is nothing to do harm. And what a box holds of a dimension must be neighbours in it.
"""

from __future__ import annotations

from collections.abc import Iterable

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import ONE
from wsched.fusion import (
    BOX,
    Fusion,
    IterDomain,
    IterType,
    Split,
    TensorView,
    nest_text,
)
from wsched.schedule.graph import Group, TransformGraph, divides
from wsched.schedule.proof.relation import LoadRelation
from wsched.schedule.proof.sides import CTA_INDEX
from wsched.schedule.proof.splits import ends_with_tensor, wrote

__all__ = ["check_boxes"]


def check_boxes(fusion: Fusion, graph: TransformGraph, relations: tuple[LoadRelation, ...]) -> None:
    """Every tensor's loops inside a tile cover it exactly, box by box.

    Raises:
        ScheduleError: ``box``.
    """
    digits = {t: {graph.group(s.domain) for s in r.digits} for r in relations for t in r.readers}
    tile = {graph.group(s.domain) for r in relations for s in r.digits[: r.outside]}
    for t in fusion.tensors:
        if not t.transforms:
            continue
        if t.circular_buffer is not None:
            inside = list(t.loop[t.slice_position :])
        else:
            mine = digits.get(t.name, set())
            inside = [
                d
                for d in t.loop
                if d.parallel not in CTA_INDEX and graph.group(d) not in mine | tile
            ]
        _check_tails(fusion, graph, t, [d for d in inside if d.extent != ONE])
        _check_neighbours(graph, t)


def _check_tails(
    fusion: Fusion, graph: TransformGraph, t: TensorView, inside: Iterable[IterDomain]
) -> None:
    for d in inside:
        pending = [graph.group(d)]
        while pending:
            step = graph.producer(pending.pop())
            if step is None:
                continue
            pending += step.inputs
            if not isinstance(step.transform, Split) or divides(step.transform):
                continue
            whole = step.inputs[0]
            if not ends_with_tensor(graph, whole):
                raise ScheduleError(
                    "box",
                    wrote(fusion, t, step.transform),
                    f"{whole.label} of {t.name}, {whole.extent}, is split by "
                    f"{step.transform.factor}, which is not known to divide it: the last "
                    f"{d.label} would reach into the next {whole.label}",
                    (),
                    nest_text(t),
                )


def _check_neighbours(graph: TransformGraph, t: TensorView) -> None:
    boxed = _boxed(graph, t)
    for d in t.loop:
        if d.parallel not in BOX or d.iter_type is IterType.Broadcast or d.extent == ONE:
            continue
        if not _fastest(graph, graph.group(d), boxed):
            raise ScheduleError(
                "box",
                f"{d.label} [{d.parallel}]",
                f"indices of {d.label} of {t.name} are no neighbours in a dimension of it, and one "
                "box holds them all",
                (),
                nest_text(t),
            )


def _boxed(graph: TransformGraph, t: TensorView) -> frozenset[Group]:
    """Groups that a box holds all indices of: its loops, and what these are made of or make."""
    boxed = {graph.group(d) for d in t.loop if d.parallel in BOX}
    for s in reversed(t.transforms):
        made = {graph.group(d) for d in s.outputs if d.extent != ONE}
        if made <= boxed:
            boxed |= {graph.group(d) for d in s.inputs}
    return frozenset(boxed)


def _fastest(graph: TransformGraph, g: Group, boxed: frozenset[Group]) -> bool:
    """Whether neighbours in ``g`` are neighbours in a dimension, or all between them is boxed."""
    step = graph.producer(g)
    if step is None:
        return True
    if not isinstance(step.transform, Split):
        return all(_fastest(graph, part, boxed) for part in step.inputs if part.extent != ONE)
    _, inner = step.outputs
    return (g == inner or inner in boxed or inner.extent == ONE) and _fastest(
        graph, step.inputs[0], boxed
    )
