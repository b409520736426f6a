"""Matrix products, of A in shared memory or in registers and B in shared memory: one tile-level
statement for a whole k slice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from lowering.ground.errors import InternalError
from lowering.ground.expr import TRUE, ZERO, Binary, Const, Expr
from lowering.ground.frozen import replaced
from lowering.ground.types import FragmentType
from lowering.kernel.nodes import (
    Frag,
    FragLoadGlobal,
    GmemRef,
    MmaTile,
    SmemRef,
)
from lowering.nest.cluster import constant
from lowering.nest.element import element_type
from lowering.nest.place import Place
from lowering.nest.refs import smem
from lowering.nest.stage import stage_of
from wsched.fusion import (
    IterDomain,
    IterType,
    MemoryType,
    MmaOp,
    ParallelType,
    Product,
    Role,
    TensorView,
)
from wsched.fusion.names import blocks_of

__all__ = ["exchanged", "mma", "operand", "product_of"]


def mma(place: Place) -> None:
    """``acc += A · Bᵀ`` over one step of the operands' ring.

    The instruction's A is the operand that has the rows of the fragment: where the loops of the box
    have N before M that is B, and the fragment is the transposed product.
    """
    t = place.tensor
    e, product, parts, depth = product_of(place)
    by_row, by_col = _scales(place, e, product, parts, depth)
    shared = [x for x in (e.a, e.b) if place.fusion.tensor(x).memory is MemoryType.Shared]
    place.consume(*shared)
    acc = place.registers.held[t.name].value
    first, second = (e.b, e.a) if exchanged(place, product) else (e.a, e.b)
    if second not in shared:
        wanted = f"the columns of the product as rows of the fragment, or {second} in shared memory"
        raise place.refuse(f"{t.name} = {e} with B, {second}, in registers", wanted)
    b, trans_b = operand(place, product, second)
    whole = acc.type.layout.columns
    if any(x.col % whole for x in parts):
        what = f"{parts[0].cols} of the {acc.type.cols} columns of {t.name} at a time"
        raise place.refuse(what, f"a multiple of {whole}, which fragments keep together")
    left, trans_a = _left(place, product, first, depth)
    zeros = _zeros(place, e, product, first, left)
    for n, x in enumerate(parts):
        a = left if isinstance(left, Frag) else left.along(0, x.k, trans_a)
        after = Frag(place.namer.new("acc_next" if n == len(parts) - 1 else "acc_part"), acc.type)
        col, cols = (x.col, x.cols) if x.cols < acc.type.cols else (0, None)
        again = TRUE if x.k else place.again
        place.emit(
            MmaTile(
                after, acc, a, b.along(x.col, x.k, trans_b), depth, again, trans_a, trans_b,
                col, cols, by_row, by_col, zeros,
            )
        )  # fmt: skip
        acc = after
    place.hold(acc)


def _scales(
    place: Place, e: MmaOp, product: Product, parts: Sequence[_Part], depth: int
) -> tuple[tuple[Frag, ...], tuple[Frag, ...]]:
    """The numbers that a step's product counts times, by rows of the fragment and by columns, of
    each block of K that it sums: loaded before the step is waited for, and waited for behind its
    product.

    Raises:
        UnsupportedError: a step has a part of a block and another one's, or a warpgroup's part of a
            tile has parts of several.
    """
    if e.scales is None:
        return (), ()
    t, tile = place.tensor, place.tile
    if len(parts) > 1 or (e.promotion % depth and depth % e.promotion):
        what = f"{depth} of K at a time, {len(parts)} times a step, of {t.name} = {e}"
        wanted = f"one product of a step over a divisor of {e.promotion} of K, or a multiple"
        raise place.refuse(what, wanted)
    sides = list(zip(e.scales, (product.rows, product.cols), strict=True))
    if exchanged(place, product):
        sides.reverse()
    found = list[list[Frag]]([[], []])
    blocks = [(n, *side) for n in range(-(-depth // e.promotion)) for side in enumerate(sides)]
    for n, side, (scale, d) in blocks:
        by_rows = side == 0
        if scale is None:
            continue
        size = tile.size(d)
        if scale.rows % size and scale.rows > 1:
            what = f"{size} of {d.label} of a warpgroup of {t.name} = {e}"
            raise place.refuse(what, f"a divisor of the {scale.rows} that a scale is for")
        k, at = _block(place.index(product.of(Role.K)[-1]), e.promotion) + n, place.index(d)
        several = scale.rows == 1
        rows, cols = (size, 1) if several and by_rows else (1, size) if several else (1, 1)
        dtype = element_type(place.fusion.tensor(scale.tensor).dtype)
        kind = FragmentType(dtype, rows, cols, layout=place.plan.target.mma.layout)
        value = Frag(place.namer.new("scale"), kind)
        if several:
            place.emit(_loaded(place, value, scale.tensor, k, at))
        else:
            place.emit(FragLoadGlobal(value, GmemRef(scale.tensor, (_block(at, scale.rows), k))))
        found[side].append(value)
    return tuple(found[0]), tuple(found[1])


def _loaded(place: Place, value: Frag, tensor: str, k: Expr, at: Expr) -> FragLoadGlobal:
    """The load of a number for each row, or column, from ``at`` on, of a block of K; the tensor has
    either of the two contiguous.
    """
    last = blocks_of(str(place.fusion.tensor(tensor).in_memory[-1].extent))
    coords = (k, at) if last is None else (at, k)
    by_rows = value.type.rows > 1
    return FragLoadGlobal(value, GmemRef(tensor, coords), trans=by_rows == (last is None))


def _zeros(
    place: Place, e: MmaOp, product: Product, name: str, a: SmemRef | Frag
) -> tuple[Frag, ...]:
    """What is taken from the rows of A, of each group of K of a step, which is loaded with its
    scales.

    Raises:
        UnsupportedError: A is read from shared memory; or B has zero points.
    """
    zeros = [x and x.zero for x in e.scales or ()]
    if not any(zeros):
        return ()
    zero, d = (zeros[0], product.rows) if name == e.a else (zeros[1], product.cols)
    if not zero or len([z for z in zeros if z]) > 1 or not isinstance(a, Frag):
        raise place.refuse(f"{place.tensor.name} = {e}", "zero points of A, in registers")
    first = _block(place.index(product.of(Role.K)[-1]), e.promotion)
    kind = replaced(a.type, dtype=element_type(place.fusion.tensor(zero).dtype), cols=1)
    found = list[Frag]()
    for n in range(-(-a.type.cols // e.promotion)):
        found.append(Frag(place.namer.new("zero"), kind))
        place.emit(_loaded(place, found[-1], zero, first + n, place.index(d)))
    return tuple(found)


def _block(at: Expr, size: int) -> Expr:
    """Which block an index is in, without divisions of what is a multiple of it: the proof follows
    as many groups of tiles as a kernel divides by.
    """
    match at:
        case Binary("+", Binary("*", _, Const(each)) as whole, rest) if each % size == 0:
            return _block(whole, size) + _block(rest, size)
        case Binary("*", step, Const(each)) if each % size == 0:
            return step * (each // size)
        case Binary("*", step, Const(each)) if size % each == 0:
            return step // (size // each)
    return at // size


@dataclass(frozen=True, slots=True)
class _Part:
    """Some of a tile's columns, and of its k slice as many as all parts have, from ``k`` on."""

    col: int
    cols: int
    k: int


def product_of(place: Place) -> tuple[MmaOp, Product, list[_Part], int]:
    """The product of a tensor, the statements of a k slice, and how much of K each is over.

    Raises:
        UnsupportedError: the target multiplies no such types, or the loops inside the slice are not
            those of statements.
    """
    t, e = place.tensor, place.expr
    if not isinstance(e, MmaOp):
        raise InternalError("lower", f"{t.name} = {e} as a matrix product")
    product = place.plan.product(t.name)
    family = place.plan.target.mma
    a, b, acc = (element_type(x.dtype) for x in (*map(place.fusion.tensor, (e.a, e.b)), t))
    if family.form(a, b, acc) is None:
        what = f"{t.name} = {e} of {a.value} by {b.value} into {acc.value}"
        raise place.refuse(what, "; ".join(family.types))
    parts = _parts_of(place, e, product)
    depth = prod(place.tile.size(d) for d in _summed(t)) // len({x.k for x in parts})
    return e, product, parts, depth


def _summed(t: TensorView) -> tuple[IterDomain, ...]:
    """The dimensions that a product sums over; where it is made in parts, those of a part."""
    return tuple(d for d in t.logical if d.iter_type is IterType.Reduction)


def exchanged(place: Place, product: Product) -> bool:
    """Whether the fragment has columns of the product as its rows."""
    return place.tile.order[-2] == product.cols


def operand(place: Place, product: Product, name: str) -> tuple[SmemRef, bool]:
    """Where this warpgroup's part of a stage begins; whether the stage has K as rows."""
    graph = place.graph
    stage = stage_of(place.fusion, graph, place.fusion.tensor(name))
    by_dim = stage.offsets(graph, place.found)
    if by_dim is None:
        wanted = f"loops of {place.tensor.name} that were split as those of {name}"
        raise place.refuse(f"{place.expr} of an unknown part of {name}", wanted)
    inner = place.plan.roles(product)[graph.group(stage.dims[-1])]
    return smem(name, (by_dim[d] for d in stage.dims)), inner is not Role.K


def _left(place: Place, product: Product, name: str, depth: int) -> tuple[SmemRef | Frag, bool]:
    """The operand with the rows of the fragment, where the slice begins; whether K is its rows."""
    if place.fusion.tensor(name).memory is MemoryType.Shared:
        return operand(place, product, name)
    rows = place.registers.held[place.tensor.name].value.type.rows
    return _in_registers(place, name, rows, depth), False


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


def _parts_of(place: Place, e: MmaOp, product: Product) -> list[_Part]:
    """The statements of a k slice, in the order of the loops inside it.

    One executes wgmmas along K, each over all rows of a warpgroup: those are the innermost loops.
    Those in front of them, up to the last over columns, go from statement to statement.
    """
    t, tile = place.tensor, place.tile
    rows, cols, summed = product.rows, product.cols, _summed(t)
    if exchanged(place, product):
        rows, cols = cols, rows
    family = place.plan.target.mma
    m, k = family.m, family.k(element_type(place.fusion.tensor(e.a).dtype))
    of = {d.id: dim for dim, found in zip(t.logical, tile.dims, strict=True) for d in found}
    inside = [(of[d.id], constant(d.extent, d.label), d) for d in t.loop if d.id in of]
    box = [(dim, n) for dim, n, d in inside if d.parallel is ParallelType.Mma]
    # Loops that run once are in any order.
    loops = [(dim, n) for dim, n, d in inside if d.parallel is not ParallelType.Mma and n > 1]
    last = max((p for p, (dim, _) in enumerate(loops, 1) if dim == cols), default=0)
    outer, inner = loops[:last], [dim for dim, _ in loops[last:]]
    width = tile.size(cols) // prod(n for dim, n in outer if dim == cols)
    legal = {d for d, _ in outer} <= {cols, *summed} and set(inner) <= {rows, *summed}
    if box != [(rows, m), (cols, width), (summed[-1], k)] or not legal or inner != sorted(
        inner, key=lambda d: d == rows
    ):  # fmt: skip
        text = ", ".join(f"{d.label} {d.extent} [{d.parallel}]" for *_, d in inside) or "no loop"
        wanted = f"[N / n, K / {k}, M / {m} | Mma: {m}, n, {k}]"
        raise place.refuse(f"{text} inside a k slice", wanted)
    depth = prod(tile.size(d) for d in summed) // prod(n for dim, n in outer if dim != cols)
    found = [_Part(0, width, 0)]
    steps = {True: width, False: depth}
    for dim, n in reversed(outer):
        step = steps[dim == cols]
        at = [(i * step, 0) if dim == cols else (0, i * step) for i in range(n)]
        found = [replace(x, col=x.col + c, k=x.k + k) for c, k in at for x in found]
        steps[dim == cols] *= n
    return found
