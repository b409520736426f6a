"""Add what wgmma has summed over some of K to a second accumulator, in fp32.

Of 8-bit floats the tensor core adds with fewer bits than fp32 has (design/0030-eight-bits.md).

Requires: loops that carry the accumulators of their ``mma.tile``s, with nothing else that reads
them.
Guarantees: a product sums over at most ``options.promotion`` of K, beginning with zero, and a
``frag.update add`` behind it puts that onto what the loop has summed; times its scales, of A
without its zero points, which no product has any more. Accumulators of wgmmas live in the loop
alone: those that were carried from tile to tile are gone.

After ``circular_buffer``, so that a stage is released in front of the addition; before
``synchronize_wgmma``, which then waits for each product.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from lowering.ground.dtypes import DType
from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import FALSE, TRUE, Const, Expr
from lowering.ground.frozen import replaced
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import (
    Body,
    Carry,
    For,
    Frag,
    FragCast,
    FragFill,
    FragPointwise,
    FragRows,
    FragUpdate,
    MmaTile,
    SmemRef,
    Stmt,
)
from lowering.kernel.visit import Names, changed, defined, kept, map_bodies, rewrite, used_in
from passes.options import LoweringOptions

__all__ = ["promote_sums"]


def promote_sums(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """Products of a loop go to an accumulator of their own, and from there to the loop's.

    before::

        for k in 0 .. n carry (acc: frag<f32, 64x128> = before -> total) {
          wait_full ring, k
          acc1: frag<f32, 64x128> = mma.tile acc, A_s[s, 0, 0], B_s[s, 0, 0], 128, 0 < k
          release ring, k
          yield acc1
        }

    after, with a promotion every 128 of K::

        none: frag<f32, 64x128> = frag.fill 0.0
        part: frag<f32, 64x128> = frag.fill 0.0
        for k in 0 .. n carry (acc: frag<f32, 64x128> = none -> total,
            part1: frag<f32, 64x128> = part -> rest) {
          wait_full ring, k
          sum: frag<f32, 64x128> = mma.tile part1, A_s[s, 0, 0], B_s[s, 0, 0], 128, false
          release ring, k
          acc1: frag<f32, 64x128> = frag.update add, acc, sum
          yield acc1, sum
        }

    With ``by_row=r, by_col=c`` there is a product of these in front of the addition, and one of it
    and the sum. With ``zeros=z``, in front of the product of a fragment::

        wide: frag<f32, 64x128> = frag.pointwise sub, left, z
        less: frag<bf16, 64x128> = frag.cast wide

    Raises:
        UnsupportedError: a product of A in registers over more of K, or one that a step adds to
            several times; a scaled one over more of K.
    """
    if not options.promotion:
        return kernel
    body = _body(kernel.body, Names(kernel), options.promotion)
    while (fewer := _without_unread(body)) != body:
        body = fewer
    return replace(kernel, body=body)


@dataclass(slots=True)
class _Sum:
    """An accumulator of a loop on its way through a trip.

    Args:
        total: what the loop has summed.
        part: what wgmmas add to; of all rows of ``total``, or of some of them in turn.
        depth: K that ``part`` has of this trip, by the first of the columns.
        row: the first of the rows that ``part`` has.
        scales: by row and by column, of all that is summed.
    """

    total: Frag
    part: Frag
    depth: dict[int, int] = field(default_factory=dict)
    row: int = 0
    scales: tuple[Frag, ...] = ()


def _body(body: Body, names: Names, span: int) -> Body:
    out: list[Stmt] = []
    for stmt in body:
        stmt = map_bodies(stmt, lambda inner: _body(inner, names, span))
        if isinstance(stmt, For):
            begin, stmt = _promoted(stmt, names, span)
            out += begin
        out.append(stmt)
    return tuple(out)


def _promoted(loop: For, names: Names, span: int) -> tuple[Body, For]:
    """A loop whose products are promoted, and the zeros in front of it."""
    products = [s for s in loop.body if isinstance(s, MmaTile)]
    accs = {s.acc.name for s in products}
    begin: list[Stmt] = []
    carries, sums = list[Carry](), dict[str, _Sum]()
    for carry in loop.carries:
        if not isinstance(carry.var, Frag) or carry.var.name not in accs:
            carries.append(carry)
            continue
        none = replace(carry.var, name=names.new("none"))
        kind = replace(carry.var.type, rows=_rows(carry.var, products))
        first, part, rest = (Frag(names.new(n), kind) for n in ("part", "part", "rest"))
        begin += [FragFill(none, 0.0), FragFill(first, 0.0)]
        carries += [replace(carry, init=none), Carry(part, first, rest)]
        sums[carry.var.name] = _Sum(carry.var, part)
    if not sums:
        return (), loop
    body = _trip(loop.body, names, span, sums)
    yields: list[Expr | Frag] = []
    for y in loop.yields:
        found = sums.get(y.name) if isinstance(y, Frag) else None
        yields += [y] if found is None else [found.total, found.part]
    return tuple(begin), replace(loop, body=body, carries=tuple(carries), yields=tuple(yields))


def _rows(acc: Frag, products: Sequence[MmaTile]) -> int:
    """Rows that are summed at a time: those of one instruction, where all that reads them is one
    product of shared memory, which can be one for each such block of rows.
    """
    (first, *others) = [p for p in products if p.acc.name == acc.name]
    others += [p for p in products if p.acc.name == first.out.name]
    return acc.type.layout.rows if isinstance(first.a, SmemRef) and not others else acc.type.rows


def _trip(body: Body, names: Names, span: int, sums: dict[str, _Sum]) -> Body:
    """The body of the loop; ``sums`` are those of its accumulators, by what they are now."""
    out: list[Stmt] = []
    for stmt in body:
        if isinstance(stmt, MmaTile) and stmt.acc.name in sums:
            found = sums[stmt.out.name] = sums.pop(stmt.acc.name)
            out += _products(_without_zeros(names, out, stmt), names, span, found)
        else:
            out.append(stmt)
    for found in sums.values():
        out += _added(names, found)
    return tuple(out)


def _products(p: MmaTile, names: Names, span: int, found: _Sum) -> Iterator[Stmt]:
    """A product over at most ``span`` of K at a time, all but the last of them added."""
    before = found.depth.get(p.col, 0)
    alone = not found.depth and isinstance(p.a, SmemRef)
    if before + p.k > span and not alone:
        raise UnsupportedError(
            f"products over {before + p.k} of K in a step, promoted every {span}",
            f"one product of shared memory, or {span} of K in a step",
        )
    if (p.by_row or p.by_col) and before + p.k > span:
        raise UnsupportedError(
            f"a scaled product over {before + p.k} of K in a step, promoted every {span}",
            f"one of at most {span} of K in a step",
        )
    multiplied, found.scales = _scales(names, p)
    yield from multiplied
    rows = found.part.type.rows
    pieces = [(row, k) for k in range(0, p.k, span) for row in range(0, p.out.type.rows, rows)]
    for row, k in pieces:
        if row or k:
            yield from _added(names, found)
        part, found.row = replace(found.part, name=names.new("sum")), row
        a = p.a if isinstance(p.a, Frag) else p.a.along(row, k, p.trans_a)
        yield replace(
            p, out=part, acc=found.part, a=a, b=p.b.along(0, k, p.trans_b), k=min(span, p.k - k),
            accumulate=TRUE if before else FALSE, by_row=(), by_col=(),
        )  # fmt: skip
        found.part = part
    found.depth[p.col] = before + p.k


def _without_zeros(names: Names, out: list[Stmt], p: MmaTile) -> MmaTile:
    """A product of A without its zero points, which are loaded in front of what makes it and taken
    away right behind that: in front of what the product waits for. Of several it is refused.
    """
    a = p.a
    if not p.zeros or not isinstance(a, Frag):
        return p
    if len(p.zeros) > 1:
        raise UnsupportedError(
            f"zero points of {len(p.zeros)} groups of K in the step of {p.out.name}",
            "those of one group",
        )
    (zero,) = p.zeros
    loads = [s for s in out if zero.name in defined(s)]
    out[:] = [s for s in out if s not in loads]
    at = next((n for n, s in enumerate(out) if a.name in defined(s)), len(out))
    wide = Frag(names.new("wide"), replaced(a.type, dtype=DType.F32))
    less = Frag(names.new("less"), a.type)
    out[at + 1 : at + 1] = FragPointwise(wide, "sub", (a, zero)), FragCast(less, wide)
    out[at:at] = loads
    return replace(p, a=less, zeros=())


def _scales(names: Names, p: MmaTile) -> tuple[Body, tuple[Frag, ...]]:
    """What a product counts times, in fp32: two numbers multiplied with each other first, where
    that is a number or one for each row, or column.
    """
    out, scales = list[Stmt](), list[Frag]()
    for scale in (*p.by_row, *p.by_col):
        wide = scale
        if scale.type.dtype is not DType.F32:
            wide = Frag(names.new(f"{scale.name}_wide"), replaced(scale.type, dtype=DType.F32))
            out.append(FragCast(wide, scale))
        scales.append(wide)
    if len(scales) > 1 and any(s.type.rows * s.type.cols == 1 for s in scales):
        most = max(scales, key=lambda s: s.type.rows * s.type.cols)
        both = Frag(names.new("scale"), most.type)
        out.append(FragPointwise(both, "mul", tuple(scales)))
        scales = [both]
    return tuple(out), tuple(scales)


def _added(names: Names, found: _Sum) -> Iterator[Stmt]:
    """What wgmmas have summed, put onto the sum of all; times its scales."""
    value, rows, whole = found.part, found.part.type.rows, found.total.type.rows
    for scale in found.scales:
        if rows < scale.type.rows:
            some = Frag(names.new("scale_rows"), replace(scale.type, rows=rows))
            yield FragRows(some, scale, Const(found.row))
            scale = some
        scaled = replace(found.part, name=names.new("scaled"))
        yield FragPointwise(scaled, "mul", (value, scale))
        value = scaled
    total = replace(found.total, name=names.new("promoted"))
    some_rows = (found.row, rows) if rows < whole else (0, None)
    yield FragUpdate(total, "add", found.total, (value,), *some_rows)
    found.total = total


def _without_unread(body: Body) -> Body:
    """Without accumulators that loops only carry, and what nobody reads that they begin with."""
    read = used_in(body)

    def one(stmt: Stmt) -> Body | None:
        if isinstance(stmt, FragFill):
            return None if stmt.out.name in read else ()
        if not isinstance(stmt, For):
            return None
        inside = used_in(stmt.body)
        pairs = zip(stmt.carries, stmt.yields, strict=True)
        left = [
            (c, y) for c, y in pairs
            if not isinstance(c.var, Frag) or c.var.name in inside or c.result.name in read
        ]  # fmt: skip
        carries, yields = tuple(c for c, _ in left), tuple(y for _, y in left)
        return (changed(stmt, {"carries": kept(stmt.carries, carries),
                               "yields": kept(stmt.yields, yields)}),)  # fmt: skip

    return rewrite(body, one)
