"""Load what the chunks of an epilogue share once, in front of them, as far as registers are given.

Requires: epilogues, whose ``frag.load_global``s are of tensors that the kernel does not write.
Guarantees: a load that is the same in every trip of an unrolled loop over chunks of columns stands
in front of it, and one of few registers in front of the loop before it, too, whose time hides its
latency; so does one of a single chunk, also where one of several warpgroups computes the epilogue.
Loads of a row's neighbouring columns, a chunk in each trip, are one load of all of them; where
registers do not hold these, a chunk's are loaded while the one before it is stored.

After ``chunk_epilogue``, which makes the loops; before ``wait_for_earlier_grids``, which looks for
the first access to global memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lowering.ground.expr import ZERO, substitute
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import Body, For, Frag, FragColumns, FragLoadGlobal, If, Stmt
from lowering.kernel.visit import Names, bodies, defined_in, map_bodies, used
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

    A single chunk has no loop, but what it reads has to come from memory as well::

        for k in 0 .. n carry (...) { ... }
        if share == 0 {
          rows: frag<f32, 64x1> = frag.load_global x[row, 0]
          ...
        }

    after::

        rows: frag<f32, 64x1> = frag.load_global x[row, 0]
        for k in 0 .. n carry (...) { ... }
        if share == 0 { ... }

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
    return replace(kernel, body=_body(kernel.body, Names(kernel), options.vector_registers))


def _body(body: Body, names: Names, registers: int) -> Body:
    out: list[Stmt] = []
    for stmt in body:
        stmt = map_bodies(stmt, lambda inner: _body(inner, names, registers))
        loads, left = list[FragLoadGlobal](), (stmt,)
        if isinstance(stmt, For) and stmt.unroll:
            loads, loop = _hoisted(stmt, names, registers)
            left = (loop,)
        elif any(isinstance(s, For) for s in out):
            loads, left = _early(stmt, min(registers, _FEW))
        for load in loads:
            out.insert(_place(out, load), load)
        out += left
    return tuple(out)


def _early(stmt: Stmt, registers: int) -> tuple[list[FragLoadGlobal], Body]:
    """The loads that can stand in front of the loop before a statement, as many as registers hold,
    and what is left of it: of those that some warpgroups skip the others, of a load itself nothing.
    """
    inside, found = defined_in((stmt,)), list[FragLoadGlobal]()
    lists = bodies(stmt) if isinstance(stmt, If) else ((stmt,),)
    for s in (s for body in lists for s in body):
        if not isinstance(s, FragLoadGlobal) or used(s) & inside:
            continue
        if s.out.type.registers <= registers:
            registers -= s.out.type.registers
            found.append(s)
    if not isinstance(stmt, If):
        return found, () if found else (stmt,)
    return found, (map_bodies(stmt, lambda body: tuple(s for s in body if s not in found)),)


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


def _place(body: Sequence[Stmt], load: FragLoadGlobal) -> int:
    """Where a load goes in what stands in front of its loop."""
    if load.out.type.registers > _FEW:
        return len(body)
    needed = used(load)
    for i in reversed(range(len(body))):
        if needed & defined_in((body[i],)):
            break
        if isinstance(body[i], For):
            return i
    return len(body)
