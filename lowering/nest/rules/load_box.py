"""Loads by TMA: one stage of a circular buffer."""

from __future__ import annotations

from lowering.ground.expr import ZERO
from lowering.kernel.nodes import LoadTile
from lowering.nest.place import Place
from lowering.nest.refs import gmem, smem
from lowering.nest.stage import stage_of
from wsched.fusion import ParallelType

__all__ = ["load_box"]


def load_box(place: Place) -> None:
    """``CpAsyncBulkTensorTile`` from global into shared memory."""
    place.require_box(ParallelType.Bulk)
    t = place.tensor
    stage = stage_of(place.fusion, place.graph, t)
    source = place.fusion.source(t.name)
    at = place.coordinates(source.in_memory)
    begin = (ZERO for _ in stage.dims)
    place.emit(LoadTile(smem(t.name, begin), gmem(source.name, at)))
