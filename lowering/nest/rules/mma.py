"""Matrix products, of A in shared memory or in registers and B in shared memory: one tile-level
statement for a whole k slice.
"""

from __future__ import annotations

from math import prod

from lowering.ground.errors import InternalError
from lowering.ground.expr import ZERO
from lowering.kernel.nodes import Frag, MmaTile, SmemRef
from lowering.nest.cluster import constant
from lowering.nest.element import element_type
from lowering.nest.place import Place
from lowering.nest.refs import smem
from lowering.nest.stage import stage_of
from wsched.fusion import MemoryType, MmaOp, ParallelType, Product, Role

__all__ = ["mma"]


def mma(place: Place) -> None:
    """``acc += A · Bᵀ`` over one step of the operands' ring.

    The instruction's A is the operand that has the rows of the fragment: where the loops of the box
    have N before M that is B, and the fragment is the transposed product.
    """
    t, e = place.tensor, place.expr
    if not isinstance(e, MmaOp):
        raise InternalError("lower", f"{t.name} = {e} as a matrix product")
    _require_shape(place, e)
    acc = place.registers.held[t.name].value
    product = place.plan.product(t.name)
    depth = prod(place.tile.size(d) for d in product.of(Role.K))
    shared = [x for x in (e.a, e.b) if place.fusion.tensor(x).memory is MemoryType.Shared]
    place.consume(*shared)
    first, second = (e.b, e.a) if _exchanged(place, product) else (e.a, e.b)
    a: SmemRef | Frag
    if first in shared:
        a, trans_a = _operand(place, product, first)
    else:
        a, trans_a = _in_registers(place, first, acc.type.rows, depth), False
    b, trans_b = _operand(place, product, second)
    after = Frag(place.namer.new("acc_next"), acc.type)
    place.emit(MmaTile(after, acc, a, b, depth, place.again, trans_a, trans_b))
    place.hold(after)


def _exchanged(place: Place, product: Product) -> bool:
    """Whether the fragment has columns of the product as its rows."""
    return place.tile.order[-2] == product.cols


def _operand(place: Place, product: Product, name: str) -> tuple[SmemRef, bool]:
    """Where this warpgroup's part of a stage begins; whether the stage has K as rows."""
    graph = place.graph
    stage = stage_of(place.fusion, graph, place.fusion.tensor(name))
    at = stage.tile.offsets(graph, place.found)
    if at is None:
        wanted = f"loops of {place.tensor.name} that were split as those of {name}"
        raise place.refuse(f"{place.expr} of an unknown part of {name}", wanted)
    by_dim = dict(zip(stage.tile.order, at, strict=True))
    inner = place.plan.roles(product)[graph.group(stage.dims[-1])]
    return smem(name, (by_dim[d] for d in stage.dims)), inner is not Role.K


def _in_registers(place: Place, name: str, rows: int, depth: int) -> Frag:
    """A that this step has made: all of its rows and of the k slice."""
    held = place.registers.held.get(name)
    at = None if held is None else held.tile.offsets(place.graph, place.found)
    if held is not None and at is not None and set(at) == {ZERO}:
        kind = held.value.type
        if (kind.rows, kind.cols) == (rows, depth):
            return held.value
    what = f"{place.tensor.name} = {place.expr} of a part of {name}, or of other steps"
    raise place.refuse(what, f"{name} of {rows} x {depth}, made in the loop over k")


def _require_shape(place: Place, e: MmaOp) -> None:
    """The loops inside a k slice are those that the statement executes, in their order: wgmmas
    along K, each over all rows of a warpgroup.
    """
    t, tile, product = place.tensor, place.tile, place.plan.product(place.tensor.name)
    rows, cols, summed = product.rows, product.cols, product.of(Role.K)
    if _exchanged(place, product):
        rows, cols = cols, rows
    family = place.plan.target.mma
    m, k = family.m, family.k(element_type(place.fusion.tensor(e.a).dtype))
    of = {d.id: dim for dim, found in zip(t.logical, tile.dims, strict=True) for d in found}
    inside = [d for d in t.loop if d.id in of]
    box = [(of[d.id], constant(d.extent, d.label)) for d in inside
           if d.parallel is ParallelType.Mma]  # fmt: skip
    wanted = [(rows, m), (cols, tile.size(cols)), (summed[-1], k)]
    # Loops that run once are in any order.
    loops = [of[d.id] for d in inside if d.parallel is not ParallelType.Mma
             and constant(d.extent, d.label) > 1]  # fmt: skip
    in_order = sorted(loops, key=lambda d: d == rows)
    if box != wanted or loops != in_order or not set(loops) <= {rows, *summed}:
        text = ", ".join(f"{d.label} {d.extent} [{d.parallel}]" for d in inside) or "no loop"
        raise place.refuse(f"{text} inside a k slice", f"[K / {k}, M / {m} | Mma: {m}, N, {k}]")
