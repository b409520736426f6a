"""Load the numbers that a step's products count times while the step before it multiplies.

Requires: loops with products, in which ``frag.load_global``s by the loop's index stand; the kernel
does not write their tensors.
Guarantees: such a load is made a trip ahead: in front of the loop for the first trip, and in a trip
for the next one, right behind the last statement that reads what the loop carries. So it takes no
more registers, and all of a trip until that statement comes again to arrive in. Behind the last
trip nothing is read of what is loaded for the next one, which may lie beyond the tensor's end,
where elements are zero. Where those of the trips behind lie beside it and those of other rows do
not, the L2 is told to fetch as much of each row as it can at once: else a sector of each comes from
memory every few trips, which a trip does not hide.

After ``promote_sums``, which multiplies such numbers with each other before anything waits; before
``synchronize_wgmma``, which asks what else a loop does with its products.
"""

from __future__ import annotations

from dataclasses import replace

from lowering.ground.expr import free_vars
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import Body, For, FragLoadGlobal, MmaTile, Stmt
from lowering.kernel.visit import Names, map_bodies
from passes.options import LoweringOptions
from passes.trip_ahead import by_trip, trip_ahead

__all__ = ["load_scales_ahead"]

FETCHED = 256
"""Bytes of a row that the L2 fetches at once, the most that a load can ask for."""


def load_scales_ahead(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """Loads of a loop are made one trip ahead.

    before::

        for k in 0 .. n carry (...) {
          row: frag<f32, 64x1> = frag.load_global x[k, 0], trans=true
          one: frag<f32, 1x1> = frag.load_global y[0, k]
          scale: frag<f32, 64x1> = frag.pointwise mul, row, one
          wait_full ring, k
          ...
          yield ...
        }

    after::

        row_first: frag<f32, 64x1> = frag.load_global x[0, 0], trans=true
        one_first: frag<f32, 1x1> = frag.load_global y[0, 0]
        for k in 0 .. n carry (..., row: frag<f32, 64x1> = row_first -> row_rest,
            one: frag<f32, 1x1> = one_first -> one_rest) {
          scale: frag<f32, 64x1> = frag.pointwise mul, row, one
          row_next: frag<f32, 64x1> = frag.load_global x[k + 1, 0], trans=true
          one_next: frag<f32, 1x1> = frag.load_global y[0, k + 1]
          wait_full ring, k
          ...
          yield ..., row_next, one_next
        }
    """
    if not options.promotion:
        return kernel
    return replace(kernel, body=_body(kernel.body, Names(kernel)))


def _body(body: Body, names: Names) -> Body:
    out: list[Stmt] = []
    for stmt in body:
        stmt = map_bodies(stmt, lambda inner: _body(inner, names))
        if isinstance(stmt, For) and any(isinstance(s, MmaTile) for s in stmt.body):
            stmt = replace(stmt, body=tuple(_fetching(stmt, s) for s in stmt.body))
            for load in [s for s in stmt.body if isinstance(s, FragLoadGlobal)]:
                if by_trip(stmt, load):
                    first, stmt = trip_ahead(stmt, load, names)
                    out.append(first)
        out.append(stmt)
    return tuple(out)


def _fetching(loop: For, stmt: Stmt) -> Stmt:
    """A statement, which fetches what trips behind this one load, if it loads rows along which they
    go.
    """
    if not isinstance(stmt, FragLoadGlobal) or not by_trip(loop, stmt):
        return stmt
    along = loop.var in free_vars(stmt.src.coords[-1])
    apart = stmt.out.type.rows > 1 and not stmt.trans
    return replace(stmt, fetched=FETCHED) if along and apart else stmt
