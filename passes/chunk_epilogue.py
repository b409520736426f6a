"""Stage each column chunk of the result through shared memory and store it with TMA.

Requires: ``store.tile`` of a chunk inside the unrolled chunk loop of the compute role.
Guarantees: buffers of the epilogue's own (never the operands' stages), ``store_buffers`` for each
warpgroup, used in turn. Per chunk, in this order: the issuing thread waits until the store that
last read this buffer has read it; a barrier of the warpgroup tells the others; all write; every
writer fences towards the async proxy; a second barrier; one thread issues and commits. Without the
first wait *before* a barrier the next chunk may overwrite what a store still reads (nvFuser's
ping-pong kernel has that race). The role ends only when its stores are done.

After ``warp_specialize`` (a group index exists), before ``allocate_shared``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lowering import hopper
from lowering.errors import InternalError, ScheduleError
from lowering.ir.expr import ZERO, Const, Expr, Special
from lowering.ir.kernel import Kernel, NamedBarrierArray, SharedBuffer
from lowering.ir.nodes import (
    BarSync,
    Body,
    BulkCommit,
    BulkWait,
    Elect,
    FenceProxyAsync,
    For,
    If,
    NamedBarrierRef,
    Role,
    SmemRef,
    StMatrix,
    Stmt,
    StoreTile,
    StShared,
    TmaStore,
)
from lowering.ir.visit import Names, map_bodies, map_roles, walk
from lowering.options import LoweringOptions
from passes.swizzle_shared import widest_swizzle

__all__ = ["chunk_epilogue"]


def chunk_epilogue(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """``store.tile`` becomes stmatrix and a TMA store through double-buffered shared memory.

    before::

        for c in 0 .. 4 unroll {
          ...
          store.tile D[row, col + c * 64], out
        }

    after, with two buffers::

        shared D_s: bf16[4][64x64] swizzle 128
        named_barrier D_store[2] id 1 threads 128
        for c in 0 .. 4 unroll {
          ...
          if %warpgroup.warp == 0 { elect { bulk.wait 1, read=true } }
          bar.sync D_store[wg]
          stmatrix D_s[wg * 2 + c % 2, 0, 0], out
          fence.proxy.async
          bar.sync D_store[wg]
          if %warpgroup.warp == 0 { elect { tma.store D[...], D_s[...]  bulk.commit } }
        }
        if %warpgroup.warp == 0 { elect { bulk.wait 0 } }

    Raises:
        ScheduleError: the number of buffers does not divide the number of chunks.
    """
    for role in (r for s in kernel.body if hasattr(s, "roles") for r in s.roles):
        stores = [s for s in walk(role.body) if isinstance(s, StoreTile)]
        if len(stores) > 1:
            raise InternalError("chunk_epilogue", f"role {role.name} has {len(stores)} stores")
        if stores:
            kernel = _stage(kernel, role, stores[0], options.store_buffers)
    return kernel


def _stage(kernel: Kernel, role: Role, store: StoreTile, buffers: int) -> Kernel:
    kind = store.value.type
    groups = role.warps // 4
    swizzle = widest_swizzle(store.dst.map, kind.dtype, kind.cols)
    if kind.cols * kind.dtype.bytes > swizzle.value:
        raise ScheduleError(
            "epilogue-chunk",
            f"an epilogue chunk of {kind.cols} {kind.dtype.value} columns",
            f"a TMA store box spans at most {swizzle.value} bytes under its swizzle",
            (f"{swizzle.value // kind.dtype.bytes} columns",),
        )
    stages = groups * buffers
    names = Names(kernel)
    name = names.new(f"{store.dst.map}_s")
    buffer = SharedBuffer(name, kind.dtype, stages, kind.rows, kind.cols, swizzle)
    base = 1 + sum(b.count for b in kernel.named_barriers)
    barrier = NamedBarrierArray(names.new(f"{store.dst.map}_store"), groups, base, hopper.WARPGROUP)
    maps = tuple(
        replace(t, box=(kind.rows, kind.cols), swizzle=swizzle) if t.name == store.dst.map else t
        for t in kernel.tensor_maps
    )
    group: Expr = role.group if role.group is not None else ZERO

    def put(store: StoreTile, loop: For | None) -> Body:
        ref = SmemRef(name, group * buffers + _turn(loop, buffers), ZERO, ZERO)
        return _store(store, ref, NamedBarrierRef(barrier.name, group), buffers)

    body = _body(role.body, put)
    done = _one_thread(BulkWait(0))
    kernel = replace(
        kernel,
        shared=(*kernel.shared, buffer),
        tensor_maps=maps,
        named_barriers=(*kernel.named_barriers, barrier),
    )
    return map_roles(kernel, lambda r: replace(r, body=(*body, done)) if r == role else r)


def _body(
    body: Body, put: Callable[[StoreTile, For | None], Body], loop: For | None = None
) -> Body:
    """``body`` with each ``store.tile`` replaced by ``put(store, innermost loop around it)``."""
    out: list[Stmt] = []
    for stmt in body:
        if isinstance(stmt, StoreTile):
            out += put(stmt, loop)
        elif isinstance(stmt, For):
            out.append(replace(stmt, body=_body(stmt.body, put, stmt)))
        else:
            out.append(map_bodies(stmt, lambda inner: _body(inner, put, loop)))
    return tuple(out)


def _turn(loop: For | None, buffers: int) -> Expr:
    """Which of its buffers a warpgroup uses for this chunk.

    The chunks of a tile go round the buffers a whole number of times, so that every tile begins
    with the same buffer and nothing has to be carried from tile to tile.
    """
    chunks = 1
    if loop is not None and loop.unroll and isinstance(loop.stop, Const):
        chunks = loop.stop.value
    if buffers < 1 or chunks % buffers:
        raise ScheduleError(
            "store-buffers",
            f"store_buffers={buffers}",
            f"a tile has {chunks} epilogue chunks, which {buffers} buffers cannot take in turn",
            tuple(f"store_buffers={n}" for n in range(1, chunks + 1) if chunks % n == 0),
        )
    return loop.var % buffers if loop is not None and chunks > 1 else ZERO


def _store(stmt: StoreTile, ref: SmemRef, barrier: NamedBarrierRef, buffers: int) -> Body:
    write = StShared if stmt.value.type.dtype.bytes == 4 else StMatrix
    return (
        _one_thread(BulkWait(buffers - 1, read=True)),
        BarSync(barrier),
        write(ref, stmt.value),
        FenceProxyAsync(),
        BarSync(barrier),
        _one_thread(TmaStore(stmt.dst, ref), BulkCommit()),
    )


def _one_thread(*stmts: Stmt) -> Stmt:
    """One thread of the warpgroup, the same one every time: bulk groups belong to a thread."""
    return If(Special("warpgroup.warp").eq(0), (Elect(stmts),))
