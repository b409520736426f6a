"""Reduce the rows of a tile: each warp its own, then all warps of the warpgroup together.

Requires: ``frag.reduce_rows`` in a compute role, anywhere in the loops around.
Guarantees: a buffer of its own for each of them, of one row for each warp of each warpgroup. Each
warp stores its row; behind a barrier of the warpgroup the rows are put together, and a barrier in
front keeps the next store from overtaking that.

Where a total is nothing but stored, threads store columns of it, each its own. Where the loop over
chunks stores one chunk of it behind the other, the buffer has the rows of all chunks and the warps
meet once behind the loop. Any other total goes into registers: in an unrolled loop of an even
number of trips two buffers take turns and no barrier is needed in front, since whoever stores to
the same one again has met in the barrier in between all that read it.

After ``warp_specialize`` (a group index exists), before ``allocate_named_barriers`` and
``allocate_shared``.
"""

from __future__ import annotations

from dataclasses import replace

from lowering.ground.dtypes import DType
from lowering.ground.expr import ZERO, Expr, substitute
from lowering.ground.types import Swizzle
from lowering.kernel.kernel import Kernel, NamedBarrierArray, SharedBuffer
from lowering.kernel.nodes import (
    BarSync,
    Body,
    For,
    FragFill,
    FragReduceFromShared,
    FragReduceRows,
    FragReduceToShared,
    FragStoreGlobal,
    FragStoreReduced,
    NamedBarrierRef,
    Role,
    Roles,
    SmemRef,
    Stmt,
)
from lowering.kernel.reduction import WARP_ROWS
from lowering.kernel.visit import Names, map_bodies, map_roles, reads_in, walk
from lowering.target import ptx
from passes.chunks import lie_side_by_side, trips_of
from passes.options import LoweringOptions

__all__ = ["reduce_across_warps"]


def reduce_across_warps(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """``frag.reduce_rows`` becomes a row of each warp in shared memory, and their reduction.

    before::

        for c in 0 .. 4 unroll {
          ...
          sums: frag<f32, 1x64> = frag.reduce_rows sum, none, x
          frag.store_global T[i, n + c * 64], sums
        }

    after::

        shared sums_s: f32[2][4x256]
        named_barrier rows[2] threads 128
        bar.sync rows[wg]
        for c in 0 .. 4 unroll {
          ...
          frag.reduce_to_shared sum, sums_s[wg, 0, c * 64], x
        }
        bar.sync rows[wg]
        frag.store_reduced sum, T[i, n], sums_s[wg, 0, 0], 4, 256
    """
    for role in (r for s in kernel.body if isinstance(s, Roles) for r in s.roles):
        if any(isinstance(s, FragReduceRows) for s in walk(role.body)):
            kernel = _Through(kernel, role).lowered()
    return kernel


class _Through:
    """Rows of one role through shared memory."""

    def __init__(self, kernel: Kernel, role: Role) -> None:
        self._kernel, self._role, self._names = kernel, role, Names(kernel)
        self._groups = role.warps // 4
        self._group: Expr = role.group if role.group is not None else ZERO
        self._barrier = NamedBarrierArray(self._names.new("rows"), self._groups, ptx.WARPGROUP)
        self._sync = BarSync(NamedBarrierRef(self._barrier.name, self._group))
        self._buffers: list[SharedBuffer] = []
        self._uses = reads_in(role.body)

    def lowered(self) -> Kernel:
        """The kernel with the role's reductions."""
        body = self._placed(self._role.body, None)
        kernel = self._kernel.declare(*self._buffers, self._barrier)
        return map_roles(kernel, lambda r: replace(r, body=body) if r == self._role else r)

    def _placed(self, body: Body, loop: For | None) -> Body:
        out: list[Stmt] = []
        stored = {s.value.name: s for s in body if isinstance(s, FragStoreGlobal)}
        filled = {s.out.name for s in body if isinstance(s, FragFill)}
        gone = set[str]()
        for stmt in body:
            if isinstance(stmt, FragReduceRows):
                store = stored.get(stmt.out.name)
                alone = self._uses[stmt.out.name] == 1 and stmt.acc.name in filled
                if store is not None and alone and _whole(store):
                    gone.add(stmt.out.name)
                    out += self._stored(stmt, store)
                else:
                    out += self._held(stmt, loop)
            elif isinstance(stmt, FragStoreGlobal) and stmt.value.name in gone:
                continue
            elif isinstance(stmt, For):
                out += self._behind(replace(stmt, body=self._placed(stmt.body, stmt)))
            else:
                out.append(map_bodies(stmt, lambda inner: self._placed(inner, None)))
        return tuple(out)

    def _buffer(self, stmt: FragReduceRows, turns: int = 1) -> str:
        sizes = (WARP_ROWS, stmt.value.type.cols)
        name = self._names.new(f"{stmt.out.name}_s")
        stages = self._groups * turns
        self._buffers.append(SharedBuffer(name, DType.F32, stages, sizes, Swizzle.NONE))
        return name

    def _stored(self, stmt: FragReduceRows, store: FragStoreGlobal) -> Body:
        at = SmemRef(self._buffer(stmt), self._group, (ZERO, ZERO))
        to_shared = FragReduceToShared(stmt.op, at, stmt.value, stmt.below, stmt.factor)
        cols = stmt.value.type.cols
        stored = FragStoreReduced(stmt.op, store.dst, at, WARP_ROWS, cols)
        return self._sync, to_shared, self._sync, stored

    def _held(self, stmt: FragReduceRows, loop: For | None) -> Body:
        """The total in registers."""
        turns = _turns(loop)
        name = self._buffer(stmt, turns)
        stage = self._group * turns
        stage += loop.var % turns if loop is not None and turns > 1 else ZERO
        at = SmemRef(name, stage, (ZERO, ZERO))
        stored = FragReduceToShared(stmt.op, at, stmt.value, stmt.below, stmt.factor)
        read = FragReduceFromShared(stmt.out, stmt.op, stmt.acc, at, WARP_ROWS)
        sync = self._sync
        return (stored, sync, read) if turns > 1 else (sync, stored, sync, read)

    def _behind(self, loop: For) -> Body:
        """A loop, and behind it what its trips store side by side."""
        trips, stores = trips_of(loop), [s for s in loop.body if isinstance(s, FragStoreReduced)]
        side = [s for s in stores if lie_side_by_side(s.dst.coords, s.cols, loop.var)]
        if trips < 2 or not side:
            return (loop,)
        inside, behind = list(loop.body), list[Stmt]()
        for stored in side:
            at = inside.index(stored)
            front, to_shared, sync = inside[at - 3 : at]
            assert isinstance(to_shared, FragReduceToShared) and front == sync == self._sync
            place = to_shared.dst.moved(0, loop.var * stored.cols)
            inside[at - 3 : at + 1] = [replace(to_shared, dst=place)]
            first = tuple(substitute(x, {loop.var: ZERO}) for x in stored.dst.coords)
            cols = trips * stored.cols
            behind.append(replace(stored, dst=replace(stored.dst, coords=first), cols=cols))
            self._widen(stored.src.buffer, cols)
        return self._sync, replace(loop, body=tuple(inside)), self._sync, *behind

    def _widen(self, name: str, cols: int) -> None:
        at = next(i for i, b in enumerate(self._buffers) if b.name == name)
        self._buffers[at] = replace(self._buffers[at], shape=(WARP_ROWS, cols))


def _whole(store: FragStoreGlobal) -> bool:
    """Whether a store is of the row as it is."""
    return store.limit is None and store.index is None and not store.trans


def _turns(loop: For | None) -> int:
    """Buffers that take turns from trip to trip."""
    trips = loop and trips_of(loop)
    return 2 if trips and trips % 2 == 0 else 1
