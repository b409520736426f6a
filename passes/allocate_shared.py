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

from lowering.ground.errors import ScheduleError, UnsupportedError
from lowering.ground.frozen import replaced
from lowering.kernel.kernel import Kernel, MBarrierArray, SharedBuffer, Storage
from lowering.kernel.nodes import FragReduceToShared, TmaLoad
from lowering.kernel.visit import walk
from lowering.target import ptx
from passes.options import LoweringOptions

__all__ = ["allocate_shared"]


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
    at = 0
    placed: list[Storage] = []
    stored: tuple[SharedBuffer | MBarrierArray, ...] = (*kernel.shared, *kernel.mbarriers)
    rows = {s.dst.buffer for s in walk(kernel.body) if isinstance(s, FragReduceToShared)}
    for s in sorted(stored, key=lambda s: (-s.align, isinstance(s, SharedBuffer) and s.over != ())):
        if isinstance(s, SharedBuffer) and s.name not in rows:
            _check(s)
        if isinstance(s, SharedBuffer) and (room := _over(s, placed)) is not None:
            placed.append(replaced(s, offset=room))
            continue
        at = -(-at // s.align) * s.align
        placed.append(replaced(s, offset=at))
        at += s.stages * s.stage_bytes
    if at > kernel.target.shared_bytes:
        _refuse(kernel, at)
    return kernel.redeclare(*placed)


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


def _refuse(kernel: Kernel, total: int) -> None:
    def kib(n: int) -> str:
        return f"{n / 1024:.4g}"

    def size(b: SharedBuffer) -> int:
        return b.stages * b.stage_bytes

    loaded = {s.dst.buffer for s in walk(kernel.body) if isinstance(s, TmaLoad)}
    ring = [b for b in kernel.shared if b.name in loaded] or list(kernel.shared)
    per_stage = sum(b.stage_bytes for b in ring)
    rest = total - sum(size(b) for b in ring)
    most = (kernel.target.shared_bytes - rest) // per_stage
    tiles = (b for b in kernel.shared if b.align == ptx.SWIZZLE_ATOM)
    parts = " + ".join(f"{b.name} {kib(size(b))}" for b in tiles)
    raise ScheduleError(
        "smem",
        f"circular_buffer({', '.join(b.name for b in ring)}, stages={ring[0].stages})",
        f"{parts} + mbarriers = {kib(total)} KiB, limit {kib(kernel.target.shared_bytes)} KiB",
        tuple(f"stages={n} ({kib(rest + n * per_stage)} KiB)" for n in range(2, most + 1)),
    )
