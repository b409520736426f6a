"""Reduce the rows of a tile: each warp its own, then all warps of the warpgroup together.

Requires: ``frag.reduce_rows`` in a compute role, anywhere in the loops around.
Guarantees: a buffer of its own for each of them, of one row for each warp of each warpgroup. Each
warp stores its row, a barrier of the warpgroup, all read the four rows in their order. In an
unrolled loop of an even number of trips two such buffers take turns: what is stored next is
another one, and whoever stores to the same one again has met in the barrier in between all that
read it. Elsewhere a second barrier in front keeps the next store from overtaking the readers.

After ``warp_specialize`` (a group index exists), before ``allocate_named_barriers`` and
``allocate_shared``.
"""

from __future__ import annotations

from dataclasses import replace

from lowering.ground.dtypes import DType
from lowering.ground.expr import ZERO, Const, Expr
from lowering.ground.types import Swizzle
from lowering.kernel.kernel import Kernel, NamedBarrierArray, SharedBuffer
from lowering.kernel.nodes import (
    BarSync,
    Body,
    For,
    FragReduceFromShared,
    FragReduceRows,
    FragReduceToShared,
    NamedBarrierRef,
    Role,
    Roles,
    SmemRef,
    Stmt,
)
from lowering.kernel.reduction import WARP_ROWS
from lowering.kernel.visit import Names, map_bodies, map_roles, walk
from lowering.target import ptx
from passes.options import LoweringOptions

__all__ = ["reduce_across_warps"]


def reduce_across_warps(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """``frag.reduce_rows`` becomes a row of each warp in shared memory, and their reduction.

    before::

        for c in 0 .. 4 unroll {
          ...
          sums: frag<f32, 1x64> = frag.reduce_rows sum, none, x
        }

    after::

        shared sums_s: f32[4][4x64]
        named_barrier rows[2] threads 128
        for c in 0 .. 4 unroll {
          ...
          frag.reduce_to_shared sum, sums_s[wg * 2 + c % 2, 0, 0], x
          bar.sync rows[wg]
          sums: frag<f32, 1x64> = frag.reduce_from_shared sum, none, sums_s[wg * 2 + c % 2, 0, 0], 4
        }
    """
    for role in (r for s in kernel.body if isinstance(s, Roles) for r in s.roles):
        if any(isinstance(s, FragReduceRows) for s in walk(role.body)):
            kernel = _through_shared(kernel, role)
    return kernel


def _through_shared(kernel: Kernel, role: Role) -> Kernel:
    groups, names = role.warps // 4, Names(kernel)
    barrier = NamedBarrierArray(names.new("rows"), groups, ptx.WARPGROUP)
    group: Expr = role.group if role.group is not None else ZERO
    sync = BarSync(NamedBarrierRef(barrier.name, group))
    buffers: list[SharedBuffer] = []

    def put(stmt: FragReduceRows, loop: For | None) -> Body:
        turns = _turns(loop)
        sizes = (WARP_ROWS, stmt.value.type.cols)
        name = names.new(f"{stmt.out.name}_s")
        buffers.append(SharedBuffer(name, DType.F32, groups * turns, sizes, Swizzle.NONE))
        stage = group * turns + (loop.var % turns if loop is not None and turns > 1 else ZERO)
        at = SmemRef(name, stage, (ZERO, ZERO))
        stored = FragReduceToShared(stmt.op, at, stmt.value, stmt.below)
        read = FragReduceFromShared(stmt.out, stmt.op, stmt.acc, at, WARP_ROWS)
        return (stored, sync, read) if turns > 1 else (sync, stored, sync, read)

    def placed(body: Body, loop: For | None) -> Body:
        out: list[Stmt] = []
        for stmt in body:
            if isinstance(stmt, FragReduceRows):
                out += put(stmt, loop)
            elif isinstance(stmt, For):
                out.append(replace(stmt, body=placed(stmt.body, stmt)))
            else:
                out.append(map_bodies(stmt, lambda inner: placed(inner, None)))
        return tuple(out)

    body = placed(role.body, None)
    kernel = kernel.declare(*buffers, barrier)
    return map_roles(kernel, lambda r: replace(r, body=body) if r == role else r)


def _turns(loop: For | None) -> int:
    """Buffers that take turns from trip to trip."""
    fixed = loop is not None and loop.unroll and loop.start == ZERO
    trips = loop.stop.value if fixed and loop is not None and isinstance(loop.stop, Const) else 1
    return 2 if trips % 2 == 0 else 1
