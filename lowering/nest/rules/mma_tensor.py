"""Matrix products that are summed up in tensor memory: one tile-level statement for a k slice."""

from __future__ import annotations

from math import prod

from lowering.ground.errors import InternalError
from lowering.ground.expr import TRUE, ZERO
from lowering.kernel.nodes import MmaTensor, TmemRef
from lowering.nest.place import Place
from lowering.nest.rules.mma import exchanged, operand, parts_of
from wsched.fusion import MmaOp, Role

__all__ = ["mma_tensor"]


def mma_tensor(place: Place) -> None:
    """``acc += A · Bᵀ`` over one step of the operands' ring, into a step of the accumulator's."""
    t, e = place.tensor, place.expr
    if not isinstance(e, MmaOp):
        raise InternalError("lower", f"{t.name} = {e} as a matrix product")
    product = place.plan.product(t.name)
    parts = parts_of(place, e, product)
    depth = prod(place.tile.size(d) for d in product.of(Role.K)) // len({x.k for x in parts})
    if exchanged(place, product):
        wanted = "the rows of the product as lanes of tensor memory"
        raise place.refuse(f"{t.name} = {e} with columns as lanes", wanted)
    place.produce()
    place.consume(e.a, e.b)
    (a, trans_a), (b, trans_b) = (operand(place, product, x) for x in (e.a, e.b))
    acc = TmemRef(t.name, ZERO, (ZERO, ZERO))
    for x in parts:
        place.emit(
            MmaTensor(
                acc.moved(0, x.col),
                a.moved(x.k, 0) if trans_a else a.moved(0, x.k),
                b.moved(x.k, x.col) if trans_b else b.moved(x.col, x.k),
                place.tile.size(product.rows), x.cols, depth,
                TRUE if x.k else place.again, trans_a, trans_b,
            )
        )  # fmt: skip
