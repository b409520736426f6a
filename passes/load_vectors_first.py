"""Load what the chunks of an epilogue share once, in front of them, as far as registers are given.

Requires: unrolled loops over chunks of columns, whose ``frag.load_global``s are of tensors that the
kernel does not write.
Guarantees: a load that is the same in every trip of such a loop stands in front of it, and one of
few registers in front of the loop before it, too, whose time hides its latency, unless that loop
runs before the grid in front has ended, which may write what is loaded (early operands). Loads of a
row's neighbouring columns, a chunk in each trip, are one load of all of them; where registers do
not hold these, a chunk's are loaded while the one before it is stored.

After ``chunk_epilogue``, which makes the loops; before ``wait_for_earlier_grids``, which looks for
the first access to global memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lowering.ground.expr import ZERO, substitute
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import Body, For, Frag, FragColumns, FragLoadGlobal, Stmt
from lowering.kernel.visit import Names, defined_in, map_bodies, used
from passes.chunks import lie_side_by_side, trips_of
from passes.options import LoweringOptions
from passes.trip_ahead import by_trip, trip_ahead

__all__ = ["load_vectors_first"]

_FEW = 4
"""Registers of a thread that a main loop has room for beside its own."""


def load_vectors_first(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """Vectors are loaded in front of the chunks that they are read for.

    before::

        for k in 0 .. n carry (...) { ... }
        for chunk in 0 .. 3 unroll {
          rows: frag<f32, 64x1> = frag.load_global x[row, 0]
          cols: frag<f32, 1x64> = frag.load_global y[0, col + chunk * 64]
          ...
        }

    after::

        rows: frag<f32, 64x1> = frag.load_global x[row, 0]
        for k in 0 .. n carry (...) { ... }
        all: frag<f32, 1x192> = frag.load_global y[0, col]
        for chunk in 0 .. 3 unroll {
          cols: frag<f32, 1x64> = frag.columns all, chunk * 64
          ...
        }

    With too few registers for ``all``::

        cols_first: frag<f32, 1x64> = frag.load_global y[0, col]
        for chunk in 0 .. 3 unroll carry (cols: frag<f32, 1x64> = cols_first -> cols_rest) {
          ...
          cols_next: frag<f32, 1x64> = frag.load_global y[0, col + (chunk + 1) * 64]
          ...
          yield cols_next
        }
    """
    if not options.vector_registers:
        return kernel
    few = 0 if options.early_operands else _FEW
    return replace(kernel, body=_body(kernel.body, Names(kernel), options.vector_registers, few))


def _body(body: Body, names: Names, registers: int, few: int) -> Body:
    out: list[Stmt] = []
    for stmt in body:
        stmt = map_bodies(stmt, lambda inner: _body(inner, names, registers, few))
        if isinstance(stmt, For) and stmt.unroll:
            loads, stmt = _hoisted(stmt, names, registers)
            for load in loads:
                out.insert(_place(out, load, few), load)
        out.append(stmt)
    return tuple(out)


def _hoisted(loop: For, names: Names, registers: int) -> tuple[list[FragLoadGlobal], For]:
    """The loads that can stand in front of a loop, as many as registers hold, and the loop without
    them.
    """
    inside = defined_in(loop.body)
    inside |= {c.var.name for c in loop.carries}
    first: list[FragLoadGlobal] = []
    later: list[FragLoadGlobal] = []
    left: list[Stmt] = []
    for stmt in loop.body:
        if not isinstance(stmt, FragLoadGlobal) or used(stmt) & inside:
            left.append(stmt)
            continue
        whole = _whole(loop, stmt, names)
        if whole is None or whole.out.type.registers > registers:
            left.append(stmt)
            if whole is not None and by_trip(loop, stmt):
                later.append(stmt)
            continue
        registers -= whole.out.type.registers
        first.append(whole)
        if whole is not stmt:
            left.append(FragColumns(stmt.out, whole.out, loop.var * stmt.out.type.cols))
    loop = replace(loop, body=tuple(left)) if first else loop
    for load in later:
        if load.out.type.registers <= registers:
            registers -= load.out.type.registers
            begin, loop = trip_ahead(loop, load, names)
            first.append(begin)
    return first, loop


def _whole(loop: For, load: FragLoadGlobal, names: Names) -> FragLoadGlobal | None:
    """What all trips load: the same, or columns of the tile that lie side by side, of which a chunk
    has whole groups of 8; None if it is neither.
    """
    if loop.var.name not in used(load):
        return load
    kind, plain = load.out.type, load.limit is None and load.index is None
    if kind.rows != 1 or kind.cols % 8 or not plain or not trips_of(loop):
        return None
    *outer, row, col = load.src.coords
    across = (*outer, col, row) if load.trans else load.src.coords
    if not lie_side_by_side(across, kind.cols, loop.var):
        return None
    out = Frag(names.new("all"), replace(kind, cols=kind.cols * trips_of(loop)))
    begin = tuple(substitute(x, {loop.var: ZERO}) for x in load.src.coords)
    return replace(load, out=out, src=replace(load.src, coords=begin))


def _place(body: Sequence[Stmt], load: FragLoadGlobal, few: int) -> int:
    """Where a load goes in what stands in front of its loop: in front of the loop before that one,
    if it has so few registers.
    """
    if load.out.type.registers > few:
        return len(body)
    needed = used(load)
    for i in reversed(range(len(body))):
        if needed & defined_in((body[i],)):
            break
        if isinstance(body[i], For):
            return i
    return len(body)
