"""Reads of what a load warp brought into shared memory, into registers."""

from __future__ import annotations

from lowering.ground.types import FragmentType
from lowering.kernel.nodes import Frag, LdMatrix, LdShared
from lowering.nest.place import Place
from lowering.nest.refs import smem
from lowering.nest.stage import stage_of
from wsched.fusion import LoadStoreOp, LoadStoreOpType, ParallelType, inputs_of

__all__ = ["from_shared"]


def from_shared(place: Place) -> None:
    """``LdMatrix`` of 16 bits or ``Set`` of 8 or 32: this warpgroup's part of a load step."""
    place.require_box(ParallelType.Mma)
    (name,), e, t = inputs_of(place.expr), place.expr, place.tensor
    kind = LoadStoreOpType.LdMatrix if t.dtype.element.bits == 16 else LoadStoreOpType.Set
    if name not in place.rings or not isinstance(e, LoadStoreOp) or e.op is not kind:
        supported = (
            "LdMatrix (16 bits) or Set (8 or 32 bits) of what TMA loads into a circular buffer"
        )
        raise place.refuse(f"{t.name} = {e}", supported)
    stage = stage_of(place.fusion, place.graph, place.fusion.tensor(name))
    by_dim = stage.offsets(place.graph, place.found)
    if by_dim is None:
        raise place.refuse(
            f"{t.name} = {e} of an unknown part of {name}",
            f"loops of {t.name} that were split as those of {name}",
        )
    order = [stage.tile.tensor.stored.index(d) for d in stage.dims]
    if order != sorted(order):
        raise place.refuse(f"{t.name} = {e} of {name}, stored by columns", "tiles stored by rows")
    if place.tile.transposed:
        what = f"{t.name} = {e} with rows that are columns of {name}"
        raise place.refuse(what, f"columns of {t.name} innermost, or {t.name} from global memory")
    place.consume(name)
    sizes = place.tile.size_by_axis
    *_, rows, cols = (sizes[axis] for axis in order)
    held = FragmentType(place.dtype, rows, cols, layout=place.plan.target.mma.layout)
    out = Frag(place.namer.new(t.name.lower()), held)
    load = LdMatrix if kind is LoadStoreOpType.LdMatrix else LdShared
    place.emit(load(out, smem(name, (by_dim[d] for d in stage.dims))))
    place.hold(out)
