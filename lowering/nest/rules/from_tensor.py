"""Reads of what an mma has summed up in tensor memory, into registers."""

from __future__ import annotations

from math import prod

from lowering.ground.expr import ONE, ZERO, Expr
from lowering.kernel.nodes import LdTensor, TmemRef
from lowering.nest.counter import counters
from lowering.nest.place import Place
from lowering.nest.stage import stage_of
from wsched.fusion import ParallelType, inputs_of

__all__ = ["from_tensor"]


def from_tensor(place: Place) -> None:
    """``LdTMem``: this warpgroup's part of an accumulator, whole lanes of it."""
    place.require_box(ParallelType.Mma)
    (name,), t = inputs_of(place.expr), place.tensor
    stage = stage_of(place.fusion, place.graph, place.fusion.tensor(name))
    by_dim = stage.offsets(place.graph, place.found)
    if name not in place.rings or by_dim is None:
        raise place.refuse(
            f"{t.name} = {place.expr} of an unknown part of {name}",
            f"loops of {t.name} that were split as those of {name}",
        )
    if place.tile.transposed:
        what = f"{t.name} = {place.expr} with rows that are columns of {name}"
        raise place.refuse(what, f"columns of {t.name} innermost")
    place.consume(name)
    out = place.new(place.dtype)
    src = TmemRef(name, ZERO, tuple(by_dim[d] for d in stage.dims))
    place.emit(LdTensor(out, src, _steps(place)))
    place.hold(out)


def _steps(place: Place) -> Expr:
    """Load steps of a tile's sum."""
    inside = (c for c in counters(place.plan.operands, place.graph) if not c.outside)
    return place.work.shared.apply(prod((c.loop.stop for c in inside), start=ONE))
