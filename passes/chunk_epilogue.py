"""Stage each column chunk of the result through shared memory and store it with TMA.

Requires: one ``store.tile`` for each result that TMA stores, next to each other, inside the
unrolled chunk loop of the compute role.
Guarantees: buffers of the epilogue's own (``reuse_stages`` may lay them over the operands' stages),
``epilogue_stages`` for each warpgroup, used in turn, beginning with the first one in each tile. Per
chunk, in this order: the issuing thread waits until the store that last read this buffer has read
it; a barrier of the warpgroup tells the others; all write; every writer fences towards the async
proxy; a second barrier; one thread issues and commits. Without the first wait *before* a barrier
the next chunk may overwrite what a store still reads (nvFuser's ping-pong kernel has that race).
The role ends when its stores have read shared memory; that their writes are complete is known when
the grid is, and nothing in the kernel reads them.

After ``warp_specialize`` (a group index exists), before ``allocate_shared``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby

from lowering.ground.errors import InternalError, ScheduleError, UnsupportedError
from lowering.ground.expr import ZERO, Const, Expr
from lowering.ground.frozen import replaced
from lowering.kernel.kernel import Kernel, NamedBarrierArray, SharedBuffer
from lowering.kernel.nodes import (
    BarSync,
    Body,
    BulkCommit,
    BulkWait,
    FenceProxyAsync,
    For,
    Frag,
    FragColumns,
    FragRows,
    If,
    NamedBarrierRef,
    Role,
    SmemRef,
    StMatrix,
    Stmt,
    StoreTile,
    StShared,
    TmaStore,
    one_thread,
)
from lowering.kernel.visit import Names, bodies, map_bodies, map_roles
from lowering.target import ptx
from passes.options import LoweringOptions
from passes.swizzle_shared import store_swizzle

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
        named_barrier D_store[2] threads 128
        for c in 0 .. 4 unroll {
          ...
          on %warpgroup.warp 0 { elect { bulk.wait 1, read=true } }
          bar.sync D_store[wg]
          stmatrix D_s[wg * 2 + c % 2, 0, 0], out
          fence.proxy.async
          bar.sync D_store[wg]
          on %warpgroup.warp 0 { elect { tma.store D[...], D_s[...]  bulk.commit } }
        }
        on %warpgroup.warp 0 { elect { bulk.wait 0, read=true } }

    Where the chunks of a tile do not go round the buffers a whole number of times, its first one
    may have the buffer of the last one of the tile before, so it waits for all stores::

        if c == 0 {
          on %warpgroup.warp 0 { elect { bulk.wait 0, read=true } }
        } else {
          on %warpgroup.warp 0 { elect { bulk.wait 1, read=true } }
        }

    With ``trans`` a chunk's columns are the lines of its buffer; ``stmatrix`` transposes as well.
    A chunk with longer lines than a swizzle spans is written and copied span by span, by boxes of
    one each.

    Raises:
        ScheduleError: no buffers.
        UnsupportedError: elements of other than 8, 16 or 32 bits; transposed ones of other than 16;
            a line that no swizzle divides.
    """
    for role in (r for s in kernel.body if hasattr(s, "roles") for r in s.roles):
        runs = list(_runs(role.body))
        if len(runs) > 1:
            raise InternalError("chunk_epilogue", f"role {role.name} stores in {len(runs)} places")
        for stores, loop in runs:
            kernel = _stage(kernel, role, stores, min(options.epilogue_stages, _chunks(loop)))
    return kernel


def _runs(
    body: Body, loop: For | None = None
) -> Iterator[tuple[tuple[StoreTile, ...], For | None]]:
    """The stores of each place, neighbours in one statement list, and the loop around them."""
    for is_store, stmts in groupby(body, lambda s: isinstance(s, StoreTile)):
        found = tuple(stmts)
        if is_store:
            yield tuple(s for s in found if isinstance(s, StoreTile)), loop
            continue
        for s in found:
            for inner in bodies(s):
                yield from _runs(inner, s if isinstance(s, For) else loop)


def _chunks(loop: For | None) -> int:
    """Chunks of a tile, as far as they take buffers in turn: one where no unrolled loop counts."""
    if loop is None or not loop.unroll or not isinstance(loop.stop, Const):
        return 1
    return loop.stop.value


def _stage(kernel: Kernel, role: Role, stores: tuple[StoreTile, ...], buffers: int) -> Kernel:
    """Buffers for each store of a chunk; one barrier and one bulk group serve all of them."""
    groups = role.warps // 4
    names = Names(kernel)
    staged = {s.dst.map: _buffer(names, s, groups * buffers) for s in stores}
    if len(staged) < len(stores):
        raise InternalError("chunk_epilogue", f"role {role.name} stores a tensor twice in a chunk")
    first = stores[0].dst.map
    barrier = NamedBarrierArray(names.new(f"{first}_store"), groups, ptx.WARPGROUP)
    maps = (
        kernel.tensor_map(name).boxed(b.rows, b.box_cols, b.swizzle) for name, b in staged.items()
    )
    group: Expr = role.group if role.group is not None else ZERO

    def put(run: tuple[StoreTile, ...], loop: For | None) -> Body:
        stage = group * buffers + _turn(loop, buffers)
        spans = [x for s in run for x in _spans(names, s, staged[s.dst.map], stage)]
        return (*_read(loop, buffers), *_store(spans, NamedBarrierRef(barrier.name, group)))

    body = _body(role.body, put)
    done = one_thread(BulkWait(0, read=True), of="warpgroup.warp")
    kernel = kernel.redeclare(*maps).declare(*staged.values(), barrier)
    return map_roles(kernel, lambda r: replaced(r, body=(*body, done)) if r == role else r)


def _buffer(names: Names, store: StoreTile, stages: int) -> SharedBuffer:
    """The staging buffer of a result; refuses a chunk whose lines no swizzle divides."""
    kind, name = store.value.type, store.dst.map
    if store.trans and kind.dtype.bits != 16:
        raise UnsupportedError(f"a transposed store of {kind.dtype.value}", "16-bit types")
    if kind.dtype.bits not in (8, 16, 32):
        raise UnsupportedError(f"a TMA store of {kind.dtype.value}", "types of 8, 16 and 32 bits")
    rows, cols = (kind.cols, kind.rows) if store.trans else (kind.rows, kind.cols)
    swizzle = store_swizzle(name, kind.dtype, cols)
    return SharedBuffer(names.new(f"{name}_s"), kind.dtype, stages, (rows, cols), swizzle)


def _body(
    body: Body, put: Callable[[tuple[StoreTile, ...], For | None], Body], loop: For | None = None
) -> Body:
    """``body`` with runs of ``store.tile`` replaced by ``put(run, innermost loop around it)``."""
    out: list[Stmt] = []
    for is_store, stmts in groupby(body, lambda s: isinstance(s, StoreTile)):
        found = tuple(stmts)
        if is_store:
            out += put(tuple(s for s in found if isinstance(s, StoreTile)), loop)
            continue
        for stmt in found:
            if isinstance(stmt, For):
                out.append(replaced(stmt, body=_body(stmt.body, put, stmt)))
            else:
                out.append(map_bodies(stmt, lambda inner: _body(inner, put, loop)))
    return tuple(out)


def _turn(loop: For | None, buffers: int) -> Expr:
    """Which of its buffers a warpgroup uses for this chunk: every tile begins with the same one, so
    that nothing has to be carried from tile to tile.
    """
    if buffers < 1:
        raise ScheduleError(
            "epilogue-stages", f"epilogue_stages={buffers}", "a store needs a buffer",
            ("epilogue_stages=1", "epilogue_stages=2"),
        )  # fmt: skip
    return loop.var % buffers if loop is not None and _chunks(loop) > 1 else ZERO


def _read(loop: For | None, buffers: int) -> Body:
    """Wait until the store that last read this chunk's buffer has read it.

    Always the same thread: bulk groups belong to one.
    """
    others = one_thread(BulkWait(buffers - 1, read=True), of="warpgroup.warp")
    if loop is None or _chunks(loop) % buffers == 0:
        return (others,)
    first = one_thread(BulkWait(0, read=True), of="warpgroup.warp")
    return (If(loop.var.eq(0), (first,), (others,)),)


@dataclass(frozen=True, slots=True)
class _Span:
    """A part of a chunk that one box takes.

    Args:
        cut: what takes it out of the chunk.
        write: what puts it into the buffer.
        copy: what copies it from there.
    """

    cut: Body
    write: StMatrix | StShared
    copy: TmaStore


def _spans(names: Names, store: StoreTile, buffer: SharedBuffer, stage: Expr) -> Iterator[_Span]:
    """The boxes of a chunk: one, or as many as swizzles span its lines."""
    value, first = store.value, SmemRef(buffer.name, stage, (ZERO, ZERO))
    for at in range(0, buffer.cols, buffer.box_cols):
        part, cut = value, list[Stmt]()
        if buffer.cols > buffer.box_cols:
            rows, cols = value.type.rows, value.type.cols
            rows, cols = (buffer.box_cols, cols) if store.trans else (rows, buffer.box_cols)
            part = Frag(names.new("span"), replaced(value.type, rows=rows, cols=cols))
            cut = [(FragRows if store.trans else FragColumns)(part, value, Const(at))]
        ref = first.moved(0, at)
        matrices = value.type.dtype.bits == 16
        write = StMatrix(ref, part, trans=store.trans) if matrices else StShared(ref, part)
        yield _Span(tuple(cut), write, TmaStore(store.dst.moved(0, at), ref))


def _store(spans: list[_Span], barrier: NamedBarrierRef) -> Body:
    """All results of a chunk: written, then copied out by one thread as one bulk group."""
    return (
        BarSync(barrier),
        *(s for span in spans for s in (*span.cut, span.write)),
        FenceProxyAsync(),
        BarSync(barrier),
        one_thread(*(span.copy for span in spans), BulkCommit(), of="warpgroup.warp"),
    )
