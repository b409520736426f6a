"""Loads by TMA: one stage of a circular buffer."""

from __future__ import annotations

from math import prod

from lowering.ground.expr import ZERO, Const
from lowering.kernel.nodes import LoadTile
from lowering.nest.cluster import constant
from lowering.nest.entries import axis_of
from lowering.nest.place import Place
from lowering.nest.refs import smem
from lowering.nest.shares import share_of
from lowering.nest.stage import stage_of
from wsched.fusion import ParallelType

__all__ = ["load_box"]


def load_box(place: Place) -> None:
    """``CpAsyncBulkTensorTile`` from global into shared memory.

    Where the box is of a list of tensors and has several loops along their axis, each index of the
    outer ones is a piece that may be of another entry.
    """
    place.require_box(ParallelType.Bulk)
    place.load()
    t = place.tensor
    stage = stage_of(place.fusion, place.graph, t)
    source = place.fusion.source(t.name)
    axis = axis_of(place.fusion, source.name)
    dims = [d for d in stage.dims if str(d.extent) == axis]
    sizes = [constant(x.extent, x.label) for d in dims for x in stage.tile.dims[t.logical.index(d)]]
    share = share_of(place.plan, t)
    if len(sizes) < 2:
        begin = (ZERO for _ in stage.dims)
        whole = place.element(source.name, source.in_memory)
        place.emit(LoadTile(smem(t.name, begin), share.own(place.plan, stage, whole)))
        return
    if share.dim is not None:
        what = f"{t.name} of a list of tensors, of which each CTA of a pair holds a part"
        raise place.refuse(what, "one tensor")
    at, size = stage.dims.index(dims[0]), sizes[-1]
    rows, cols = (size if p == at else n for p, n in list(enumerate(stage.sizes))[-2:])
    for piece in range(0, prod(sizes), size):
        begin = (Const(piece if p == at else 0) for p in range(len(stage.dims)))
        src = place.element(source.name, source.in_memory, piece)
        place.emit(LoadTile(smem(t.name, begin), src, rows, cols))
