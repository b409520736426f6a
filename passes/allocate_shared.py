"""Give every shared buffer and mbarrier its place in dynamic shared memory.

Requires: swizzles and stage counts are final; all mbarriers exist.
Guarantees: each buffer starts on a 1024-byte boundary and each of its stages where the pattern of
its swizzle begins anew (1024 bytes for the 128-byte swizzle, 512 and 256 for the narrower ones),
which stages of rows that warps hand to each other need not;
mbarriers follow, 8 bytes each, then buffers of single words; the sum fits the 227 KiB that a CTA
may have. A buffer that may lie ``over`` others takes bytes of theirs, if one of them has room.

Last of the passes that add storage.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NoReturn, TypeAlias

from lowering.ground.errors import ScheduleError, UnsupportedError
from lowering.ground.frozen import replaced
from lowering.kernel.kernel import Kernel, MBarrierArray, SharedBuffer, Storage
from lowering.kernel.nodes import FragReduceToShared, TmaLoad
from lowering.kernel.visit import walk
from lowering.target import ptx
from passes.options import LoweringOptions

__all__ = ["allocate_shared"]

_Stored: TypeAlias = SharedBuffer | MBarrierArray


def allocate_shared(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """Assign byte offsets.

    before::

        shared A_s: bf16[4][128x64] swizzle 128
        mbarrier full[4] arrivals 1

    after::

        shared A_s: bf16[4][128x64] swizzle 128 at 0
        mbarrier full[4] arrivals 1 at 65536

    Raises:
        ScheduleError: more than fits.
        UnsupportedError: a stage that breaks the swizzle alignment.
    """
    rows = {s.dst.buffer for s in walk(kernel.body) if isinstance(s, FragReduceToShared)}
    for buffer in kernel.shared:
        if buffer.name not in rows:
            _check(buffer)
    stored: tuple[_Stored, ...] = (*kernel.shared, *kernel.mbarriers)
    placed, end = _placed(stored)
    if end > kernel.target.shared_bytes:
        _refuse(kernel, stored, end, options)
    return kernel.redeclare(*placed)


def _placed(stored: Iterable[_Stored]) -> tuple[list[Storage], int]:
    """Everything with its offset, and where all of it ends."""
    at = 0
    placed: list[Storage] = []
    for s in sorted(stored, key=lambda s: (-s.align, isinstance(s, SharedBuffer) and s.over != ())):
        if isinstance(s, SharedBuffer) and (room := _over(s, placed)) is not None:
            placed.append(replaced(s, offset=room))
            continue
        at = -(-at // s.align) * s.align
        placed.append(replaced(s, offset=at))
        at += s.stages * s.stage_bytes
    return placed, at


def _over(buffer: SharedBuffer, placed: list[Storage]) -> int | None:
    """Where a buffer fits over one of those that it may lie over, behind others that do."""
    there = [s for s in placed if isinstance(s, SharedBuffer)]
    beside = [_bytes(s) for s in there if s.over]
    for first, end in (_bytes(s) for s in there if s.name in buffer.over):
        at = max((e for b, e in beside if first <= b < end), default=first)
        at = -(-at // buffer.align) * buffer.align
        if at + buffer.stages * buffer.stage_bytes <= end:
            return at
    return None


def _bytes(buffer: SharedBuffer) -> tuple[int, int]:
    """First byte and end of a buffer that has a place."""
    begin = buffer.offset or 0
    return begin, begin + buffer.stages * buffer.stage_bytes


def _check(buffer: SharedBuffer) -> None:
    """Refuse stages that do not begin where the pattern of a swizzle does."""
    if buffer.align < ptx.SWIZZLE_ATOM:
        return
    atom = ptx.SWIZZLE_ROWS * buffer.swizzle.value or ptx.SWIZZLE_ATOM
    if buffer.stage_bytes % atom:
        tile = "x".join(map(str, buffer.shape))
        raise UnsupportedError(
            f"a shared tile {buffer.name} of {tile} {buffer.dtype.value}, "
            f"{buffer.stage_bytes} bytes a stage,",
            f"stages of a multiple of {atom} bytes, which each begin with a swizzle's pattern",
        )


def _refuse(
    kernel: Kernel, stored: Sequence[_Stored], total: int, options: LoweringOptions
) -> NoReturn:
    """Name the largest ring, and with which stages all would fit, at what size."""

    def kib(n: int) -> str:
        return f"{n / 1024:.4g}"

    def size(b: SharedBuffer) -> int:
        return b.stages * b.stage_bytes

    ring, barriers = max(_rings(kernel), key=lambda r: sum(map(size, r[0])))
    names = {b.name for b in ring} | {b.name for b in barriers}
    stages, limit = ring[0].stages, kernel.target.shared_bytes
    prefetch, least = next(
        ((ahead, few) for name, ahead, few in options.prefetched if name in names), (0, 1)
    )
    legal = []
    for n in range(least, stages):
        _, end = _placed([replaced(s, stages=n) if s.name in names else s for s in stored])
        if end > limit:
            break
        nearer = f", prefetch={n - 1}" if n <= prefetch else ""
        legal.append(f"stages={n}{nearer} ({kib(end)} KiB)")
    tiles = (b for b in kernel.shared if b.align == ptx.SWIZZLE_ATOM)
    parts = " + ".join(f"{b.name} {kib(size(b))}" for b in tiles)
    raise ScheduleError(
        "smem",
        f"circular_buffer({', '.join(b.name for b in ring)}, stages={stages})",
        f"{parts} + mbarriers = {kib(total)} KiB, limit {kib(limit)} KiB",
        tuple(legal),
    )


def _rings(kernel: Kernel) -> list[tuple[list[SharedBuffer], list[MBarrierArray]]]:
    """What TMA loads, by the barriers that it completes, with those; all buffers without any."""
    loaded: dict[str, dict[str, SharedBuffer]] = {}
    for s in walk(kernel.body):
        if isinstance(s, TmaLoad) and s.bar is not None:
            loaded.setdefault(s.bar.array, {})[s.dst.buffer] = kernel.buffer(s.dst.buffer)
    if not loaded:
        return [(list(kernel.shared), [])]
    order = [b.name for b in kernel.shared]
    return [
        (
            sorted(buffers.values(), key=lambda b: order.index(b.name)),
            [b for b in kernel.mbarriers if b.name in (full, f"{full.removesuffix('full')}empty")],
        )
        for full, buffers in loaded.items()
    ]
