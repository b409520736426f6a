"""TMA, bulk groups, and fragments to and from shared memory on the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np

from lowering.ground.dtypes import DType
from lowering.ground.errors import InternalError
from lowering.ground.frozen import replaced
from lowering.ground.types import FragmentType
from lowering.kernel.early import waits_for_grids
from lowering.kernel.kernel import SharedBuffer
from lowering.kernel.nodes import (
    BulkCommit,
    BulkWait,
    LdMatrix,
    LdShared,
    PrefetchTensorMap,
    StMatrix,
    StShared,
    TmaLoad,
    TmaPrefetch,
    TmaStore,
)
from lowering.kernel.text import print_stmt
from lowering.machine.barriers import MBarrier
from lowering.machine.cluster import heard, lent, note, send
from lowering.machine.descriptors import descriptor_of
from lowering.machine.errors import FaultError
from lowering.machine.fragment import (
    Array,
    element_rows_cols,
    held_type,
    lane_rows,
    row_lanes,
    unpacked,
)
from lowering.machine.groups import group_of, masked
from lowering.machine.memory import SHARED_BASE
from lowering.machine.program import Program, Run
from lowering.machine.scheduler import Blocked, Effect
from lowering.machine.state import Cluster, Cta, Registers, Store, Warp
from lowering.machine.tensor_map import Descriptor

__all__ = [
    "bulk_commit", "bulk_wait", "fragment_data", "fragment_words", "ldmatrix", "ldshared",
    "prefetch_tensormap", "stmatrix", "stshared", "tma_load", "tma_prefetch", "tma_store",
]  # fmt: skip


def prefetch_tensormap(stmt: PrefetchTensorMap, program: Program) -> Run:
    """``prefetch.tensormap`` changes nothing."""

    def run(warp: Warp) -> None:
        return None

    return run


def tma_prefetch(stmt: TmaPrefetch, program: Program) -> Run:
    """``cp.async.bulk.prefetch.tensor`` changes nothing; its coordinates are reckoned."""
    where = program.coordinates(stmt.src)

    def run(warp: Warp) -> None:
        where(warp.env)

    return run


def tma_load(stmt: TmaLoad, program: Program) -> Run:
    """``cp.async.bulk.tensor``, global to shared: lands in each CTA of the mask on its own."""
    if stmt.bar is None:
        raise InternalError("machine", "tma.load without an mbarrier", print_stmt(stmt))
    place, find = program.place(stmt.dst), program.mbarrier(stmt.bar)
    where, descriptor = program.coordinates(stmt.src), descriptor_of(stmt.src, program)
    mask = None if stmt.multicast is None else program.scalar(stmt.multicast)
    size, waits = program.kernel.cta_group.size, waits_for_grids(program.kernel, stmt)

    def run(warp: Warp) -> None:
        if waits:
            warp.touches_global()
        if stmt.cta_group not in (1, size):
            raise FaultError(f"cta_group {stmt.cta_group} in a kernel with cta_group {size}")
        env, cluster = warp.env, warp.cta.cluster
        source, at = descriptor(warp), where(env)
        tensor = source.use(warp)
        chunks = tensor.chunks(place.address(env))
        ctas = [warp.cta] if mask is None else _loaded(cluster, mask(env), stmt.ctas)
        places = tuple(cta.ctaid for cta in ctas)
        for _ in range(warp.threads):
            warp.record(stmt.OP, source.name, place.element(env)[0], at=at, ctas=places)
            cluster.counts["load bytes"] += tensor.box_bytes * len(ctas)
            data = tensor.load(at)
            for cta in ctas:
                told = cta if stmt.cta_group == 1 else group_of(cta)[0]
                bar, _ = find(told, env)
                bar.check("given to a load", remote=True)
                bar.use(warp, "given to a load")
                bar.remote |= told is not cta
                cta.landing += 1
                source.flying += 1
                land = _landing(warp, stmt, (cta, told), bar, source, chunks, data)
                warp.scheduler.add(Effect(land, warp, stmt))

    return run


def _landing(
    warp: Warp, stmt: TmaLoad, ctas: tuple[Cta, Cta], bar: MBarrier, source: Descriptor,
    chunks: Array, data: Array,
) -> Callable[[], None]:  # fmt: skip
    """How a box lands in the first of ``ctas`` and is told of in the second."""
    before, cta = warp.known.before(warp.elected), ctas[0]

    def land() -> None:
        for reached in ctas:
            reached.signalled(f"a load that completes on {bar.name}")
        cta.landing -= 1
        source.flying -= 1
        cta.overwrite(chunks)
        events = cta.touch(warp, stmt, before, chunks, 16, write=True, copy=True)
        cta.memory.land(chunks, data)
        bar.complete(data.nbytes, before, warp.scheduler, events)

    return land


def _loaded(cluster: Cluster, mask: int, count: int) -> list[Cta]:
    if mask.bit_count() != count and 0 < mask < 1 << len(cluster.ctas):
        raise FaultError(f"multicast mask {mask:#b} of a copy to {count} CTAs")
    return masked(cluster, mask)


def tma_store(stmt: TmaStore, program: Program) -> Run:
    """``cp.async.bulk.tensor``, shared to global: reads at one moment, writes at a later one."""
    place, descriptor = program.place(stmt.src), descriptor_of(stmt.dst, program)
    where = program.coordinates(stmt.dst)

    def run(warp: Warp) -> None:
        warp.touches_global()
        target, at = descriptor(warp), where(warp.env)
        tensor = target.use(warp)
        chunks = tensor.chunks(place.address(warp.env))
        before = warp.known.before(warp.elected)
        for _ in range(warp.threads):
            warp.record(stmt.OP, target.name, -1, at=at)
            warp.cta.cluster.counts["store bytes"] += tensor.box_bytes
            target.flying += 1
            store = Store(stmt)
            warp.bulk.open.append(store)

            def read(store: Store = store) -> None:
                data = warp.cta.memory.read_chunks(chunks)
                store.events = warp.cta.touch(warp, stmt, before, chunks, 16, copy=True)
                store.has_read = True

                def write() -> None:
                    tensor.store(at, data)
                    store.has_written = True
                    target.flying -= 1
                    warp.bulk.wake(warp.scheduler)

                warp.bulk.wake(warp.scheduler)
                warp.scheduler.add(Effect(write, warp, stmt))

            warp.scheduler.add(Effect(read, warp, stmt))

    return run


def bulk_commit(stmt: BulkCommit, program: Program) -> Run:
    """``cp.async.bulk.commit_group`` of the elected thread."""

    def run(warp: Warp) -> None:
        warp.bulk.groups.append(warp.bulk.open)
        warp.bulk.open = []

    return run


def bulk_wait(stmt: BulkWait, program: Program) -> Run:
    """``cp.async.bulk.wait_group``: the warp waits for its elected thread's groups."""
    what = "reads" if stmt.read else "writes"

    def run(warp: Warp) -> Iterator[Blocked | None]:
        bulk = warp.bulk
        old = len(bulk.groups) - stmt.pending
        # Of the groups that a wait with `read` covered, the writes may still be incomplete.
        first = bulk.covered if stmt.read else 0
        waited = [s for group in bulk.groups[first : max(old, 0)] for s in group]
        yield None
        while not all(s.has_read if stmt.read else s.has_written for s in waited):
            yield Blocked(bulk, lambda: f"the {what} of its tma.store groups")
        bulk.covered = max(bulk.covered, old)
        for store in waited:
            warp.known.learn(store.events, warp.elected)

    return run


def stmatrix(stmt: StMatrix, program: Program) -> Run:
    """``stmatrix``: each 8 elements of a matrix row are 16 bytes at an address of their own."""
    return _store_fragment(stmt, program, row_bytes=(16,), trans=stmt.trans)


def stshared(stmt: StShared, program: Program) -> Run:
    """``st.shared``: the two neighbours that a thread holds are 8 bytes, or 2."""
    return _store_fragment(stmt, program, row_bytes=(32, 8))


def _store_fragment(
    stmt: StMatrix | StShared, program: Program, row_bytes: tuple[int, ...], trans: bool = False
) -> Run:
    place, value = program.place(stmt.dst), stmt.value
    buffer = place.buffer
    if value.type.row_bytes not in row_bytes or buffer.dtype is not value.type.dtype:
        why = f"{stmt.OP} of {value.type} to {buffer.dtype.value} elements"
        raise InternalError("machine", why, print_stmt(stmt))
    peer = program.rank(stmt.cta) if isinstance(stmt, StShared) else None
    noted = lent(buffer.name, program)

    def run(warp: Warp) -> None:
        words = fragment_words(buffer, value.type, warp.index % 4, place.element(warp.env), trans)
        data = fragment_data(warp.read(value), words, trans)
        warp.cta.cluster.counts[stmt.OP] += 1
        cta = warp.cta if peer is None else peer(warp)
        warp.touches(cta, words, 8, write=True)
        if cta is not warp.cta:
            send(warp, cta, buffer.name, words, data)
            return
        memory = warp.cta.memory
        memory.write_words(words, data)
        if noted:
            note(warp, words)
        warp.unpublished.append(words)
        if warp.scheduler.coin(stmt):
            memory.publish(words)

    return run


def fragment_data(value: Array, words: Array, trans: bool = False) -> Array:
    """A warp's part of a fragment as these 8-byte words of shared memory have it."""
    matrices = lane_rows(value)
    data = np.ascontiguousarray(matrices.swapaxes(-1, -2) if trans else matrices)
    found: Array = data.view(np.uint64).reshape(words.shape)
    return found


def ldmatrix(stmt: LdMatrix, program: Program) -> Run:
    """``ldmatrix``: each 8 elements of a matrix row are 16 bytes at an address of their own."""
    return _load_fragment(stmt, program, row_bytes=(16,))


def ldshared(stmt: LdShared, program: Program) -> Run:
    """``ld.shared``: the two neighbours that a thread holds are 8 bytes, or 2, or 1."""
    return _load_fragment(stmt, program, row_bytes=(32, 8, 4))


def _load_fragment(stmt: LdMatrix | LdShared, program: Program, row_bytes: tuple[int, ...]) -> Run:
    place, type_ = program.place(stmt.src), stmt.out.type
    buffer = place.buffer
    if type_.row_bytes not in row_bytes or buffer.dtype is not type_.dtype:
        why = f"{stmt.OP} of {type_} from {buffer.dtype.value} elements"
        raise InternalError("machine", why, print_stmt(stmt))
    element, packed = held_type(type_.dtype), type_.dtype.packed
    peer = program.rank(stmt.cta) if isinstance(stmt, LdShared) else None
    held, bytewise = _in_bytes(type_), buffer.in_bytes

    def run(warp: Warp) -> None:
        *at, col = place.element(warp.env)
        words = fragment_words(bytewise, held, warp.index % 4, (*at, col // packed))
        cta = warp.cta if peer is None else peer(warp)
        if cta is not warp.cta:
            cta.signalled(f"a read of {buffer.name}")
        heard(warp, cta, words, buffer.name)
        warp.touches(cta, words, 8)
        rows = cta.memory.read_words(words).view(element)
        rows = unpacked(rows) if packed > 1 else rows
        if cta is warp.cta:
            warp.reads(words)
        warp.define(stmt.out, Registers(row_lanes(rows), warp.epoch))
        warp.cta.cluster.counts[stmt.OP] += 1

    return run


def _in_bytes(type_: FragmentType) -> FragmentType:
    """The type whose elements are the bytes of a fragment's; itself where they are that."""
    packed = type_.dtype.packed
    return type_ if packed == 1 else replaced(type_, dtype=DType.U8, cols=type_.cols // packed)


@lru_cache(maxsize=4096)
def fragment_words(
    buffer: SharedBuffer,
    type_: FragmentType,
    warp: int,
    place: tuple[int, ...],
    trans: bool = False,
) -> Array:
    """The 8-byte words ``[blocks, groups, 2, 8, words of a matrix row]`` of a warp's elements.

    ``place`` is the stage and the coordinates of the fragment's first element. With ``trans`` a
    matrix of 8x8 elements lies transposed, as all of the fragment does.

    Each 16 bytes of the buffer keep together when they are swizzled, so an address is computed for
    each (as a thread does), or for each matrix row of 8 bytes, not for each element.
    """
    rows, cols = element_rows_cols(type_, warp)
    *matrix, row, col = place
    high, wide = type_.rows, type_.cols
    if trans:
        at = np.arange(8)
        rows, cols, high, wide = cols + at, rows - at, wide, high
    if row + high > buffer.rows or col + wide > buffer.cols:
        raise FaultError(f"{type_} at [{row}, {col}] does not fit into {buffer.rows}x{buffer.cols}")
    chunk = min(16, type_.row_bytes)
    per_chunk = chunk // type_.dtype.bytes
    starts = np.arange(0, type_.layout.columns, per_chunk)
    byte = np.frompyfunc(lambda r, c: buffer.byte(*matrix, r, c), 2, 1)
    offsets = byte(row + rows[..., None], col + cols[..., None] + starts).astype(np.int64)
    addresses = SHARED_BASE + (buffer.offset or 0) + offsets
    if (addresses % chunk).any():
        raise FaultError(f"an access of {chunk} bytes to {buffer.name} is not aligned")
    each = addresses[..., None] // 8 + np.arange(chunk // 8)
    words: Array = each.reshape(*rows.shape, -1)
    words.setflags(write=False)
    return words
