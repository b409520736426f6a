"""Matrix products that are summed up in tensor memory: one tile-level statement for a k slice."""

from __future__ import annotations

from lowering.ground.expr import TRUE, ZERO
from lowering.kernel.nodes import MmaTensor, TmemRef
from lowering.nest.place import Place
from lowering.nest.rules.mma import exchanged, operand, product_of
from lowering.nest.shares import group_of

__all__ = ["mma_tensor"]


def mma_tensor(place: Place) -> None:
    """``acc += A · Bᵀ`` over one step of the operands' ring, into a step of the accumulator's."""
    t = place.tensor
    e, product, parts, depth = product_of(place)
    if e.scales is not None:
        wanted = "sums in registers"
        raise place.refuse(f"{t.name} = {e}, scaled inside of the sum, in tensor memory", wanted)
    if exchanged(place, product):
        wanted = "the rows of the product as lanes of tensor memory"
        raise place.refuse(f"{t.name} = {e} with columns as lanes", wanted)
    several = group_of(place.plan).several
    if several and not any(p.issued and t.name in p.tensors for p in place.plan.parts):
        what = f"{t.name} = {e} by a pair of CTAs beside what threads do"
        raise place.refuse(what, "products that are a part of their own: circular-buffered sums")
    if several and any(x.col for x in parts):
        what = f"{parts[0].cols} of the columns of {t.name} at a time by a pair of CTAs"
        raise place.refuse(what, "all columns of a tile at once: each CTA has a half of them")
    place.produce()
    place.consume(e.a, e.b)
    (a, trans_a), (b, trans_b) = (operand(place, product, x) for x in (e.a, e.b))
    acc = TmemRef(t.name, ZERO, (ZERO, ZERO))
    for x in parts:
        place.emit(
            MmaTensor(
                acc.moved(0, x.col),
                a.along(0, x.k, trans_a),
                b.along(x.col, x.k, trans_b),
                place.tile.size(product.rows), x.cols, depth,
                TRUE if x.k else place.again, trans_a, trans_b,
            )
        )  # fmt: skip
