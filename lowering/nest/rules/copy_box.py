"""Loads by threads: a warpgroup's part of one stage of a circular buffer."""

from __future__ import annotations

from math import prod

from lowering.kernel.nodes import CopyTile
from lowering.nest.domains import repeats
from lowering.nest.entries import axis_of
from lowering.nest.place import Place
from lowering.nest.refs import smem
from lowering.nest.stage import stage_of
from wsched.fusion import ParallelType
from wsched.schedule.proof.loading import sharing

__all__ = ["copy_box"]


def copy_box(place: Place) -> None:
    """``Set`` from global into shared memory: what a TMA would load, from rows that begin anywhere.

    Elements behind the end of the tensor are zero, as TMA has them.
    """
    place.require_box(ParallelType.Bulk)
    place.load()
    t = place.tensor
    if t.in_place:
        _require_shared(place)
    stage = stage_of(place.fusion, place.graph, t)
    source = place.fusion.source(t.name)
    if axis_of(place.fusion, source.name):
        what = f"{t.name} = {place.expr} of tensors side by side"
        raise place.refuse(what, "loads of these by TMA")
    found = stage.tile.offsets(place.graph, place.found)
    if found is None or len(stage.dims) != 2:
        what = f"{t.name} = {place.expr} of a box in {len(stage.dims)} dimensions"
        raise place.refuse(what, "boxes of rows and columns")
    begin = dict(zip(stage.tile.order, found, strict=True))
    rows, cols = (place.tile.size(d) for d in stage.dims)
    if cols != stage.sizes[-1] or any(map(repeats, stage.dims)):
        what = f"{t.name} = {place.expr} with {cols} of {stage.sizes[-1]} columns to a warpgroup"
        raise place.refuse(what, "rows shared out to warpgroups")
    at = place.element(source.name, source.in_memory)
    place.emit(CopyTile(smem(t.name, (begin[d] for d in stage.dims)), at, rows, cols))


def _require_shared(place: Place) -> None:
    """Warpgroups that load for themselves copy a part of the box each.

    Raises:
        UnsupportedError: each of several would copy the same.
    """
    t, (_, relation) = place.tensor, place.rings[place.tensor.name]
    count = relation.warpgroups.count
    if count != prod(n for _, n in sharing(t)):
        what = f"{t.name} = {place.expr} in place, of which each of {count} warpgroups copies all,"
        raise place.refuse(what, f"rows of {t.name} shared out to them on TIDy or TIDz")
