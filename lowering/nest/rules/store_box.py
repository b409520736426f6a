"""Stores by TMA: registers into a buffer of the epilogue's, and from there a box."""

from __future__ import annotations

from lowering.kernel.nodes import StoreTile
from lowering.nest.place import Place
from lowering.nest.refs import gmem
from wsched.fusion import LoadStoreOp, LoadStoreOpType, MemoryType, ParallelType, inputs_of

__all__ = ["stage_box", "store_box"]


def stage_box(place: Place) -> None:
    """``StMatrix`` of 16 bits or ``Set`` of 32 into shared memory, from where TMA stores it.

    The buffer is a pass's business (``chunk_epilogue``); what is staged is still in registers.
    """
    place.require_box(ParallelType.Mma, ParallelType.Bulk)
    t, e = place.tensor, place.expr
    kind = LoadStoreOpType.StMatrix if t.dtype.bytes == 2 else LoadStoreOpType.Set
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
    held = place.registers.held.get(name)
    if held is not None and held.tile.size_by_axis != place.tile.size_by_axis:
        box, staged = (" x ".join(map(str, x.sizes)) for x in (place.tile, held.tile))
        what = f"{place.tensor.name} = {place.expr} of {box} where a warpgroup has staged {staged}"
        raise place.refuse(what, "boxes of what one warpgroup stages at once")
    value = place.operand(name, any_order=True)
    at = gmem(place.tensor.name, place.coordinates(place.tensor.stored))
    trans = held is not None and held.tile.transposed
    place.emit(StoreTile(at, value, trans))
