"""Stores from registers into shared memory, and by TMA a box from there."""

from __future__ import annotations

from lowering.kernel.nodes import StMatrix, StoreTile, StShared
from lowering.nest.place import Place
from lowering.nest.refs import smem
from lowering.nest.rules.padding import padded
from lowering.nest.stage import stage_of
from wsched.fusion import LoadStoreOp, LoadStoreOpType, MemoryType, ParallelType, inputs_of

__all__ = ["store_box", "to_shared"]


def to_shared(place: Place) -> None:
    """``StMatrix`` of 16 bits or ``Set`` of 32 into shared memory: a stage of a ring that other
    warps read, or what TMA stores.
    """
    t, e = place.tensor, place.expr
    kind = LoadStoreOpType.StMatrix if t.dtype.bytes == 2 else LoadStoreOpType.Set
    if t.circular_buffer is not None and isinstance(e, LoadStoreOp) and e.op is kind:
        fill_stage(place, e)
    else:
        _stage_box(place, kind)


def fill_stage(place: Place, e: LoadStoreOp) -> None:
    """A fragment into the stage of its step."""
    place.require_box(ParallelType.Mma)
    t = place.tensor
    stage = stage_of(place.fusion, place.graph, t)
    at = stage.tile.offsets(place.graph, place.found)
    if at is None:
        supported = f"loops of {t.name} inside a stage that are those of its box"
        raise place.refuse(f"{t.name} = {e} into an unknown part of its stage", supported)
    if place.tile.transposed:
        what = f"{t.name} = {e} with columns of {e.input} as rows"
        raise place.refuse(what, f"columns of {t.name} innermost")
    value = padded(place, place.operand(e.input))
    place.produce()
    by_dim = dict(zip(stage.tile.order, at, strict=True))
    ref = smem(t.name, (by_dim[d] for d in stage.dims))
    place.emit(StMatrix(ref, value) if t.dtype.bytes == 2 else StShared(ref, value))


def _stage_box(place: Place, kind: LoadStoreOpType) -> None:
    """What TMA stores.

    The buffer is a pass's business (``chunk_epilogue``); what is staged is still in registers.
    """
    place.require_box(ParallelType.Mma, ParallelType.Bulk)
    t, e = place.tensor, place.expr
    stored = all(
        isinstance(use, LoadStoreOp)
        and use.op is LoadStoreOpType.CpAsyncBulkTensorTile
        and place.fusion.tensor(use.output).memory is MemoryType.Global
        for use in place.fusion.uses(t.name)
    )
    if not isinstance(e, LoadStoreOp) or e.op is not kind or not stored:
        supported = "StMatrix (16 bits) or Set (32 bits) of what TMA stores"
        raise place.refuse(f"{t.name} = {e}", supported)
    place.hold(place.operand(e.input))


def store_box(place: Place) -> None:
    """``CpAsyncBulkTensorTile`` from shared into global memory: all that a warpgroup staged."""
    place.require_box(ParallelType.Bulk)
    (name,) = inputs_of(place.expr)
    if place.tensor.name in place.fusion.added:
        what = f"{place.tensor.name} = {place.expr} of rows that are added to others"
        raise place.refuse(what, "Set from registers")
    held = place.registers.held.get(name)
    if held is not None and held.tile.size_by_axis != place.tile.size_by_axis:
        box, staged = (" x ".join(map(str, x.sizes)) for x in (place.tile, held.tile))
        what = f"{place.tensor.name} = {place.expr} of {box} where a warpgroup has staged {staged}"
        raise place.refuse(what, "boxes of what one warpgroup stages at once")
    value = place.operand(name, any_order=True)
    at = place.element(place.tensor.name, place.tensor.stored)
    trans = held is not None and held.tile.transposed
    place.emit(StoreTile(at, value, trans))
