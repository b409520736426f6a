"""What PTX says of every GPU from sm_90 on: warps, TMA, swizzles and mbarriers.

What differs from one GPU to the next is in ``Target``.

Sources: PTX ISA 8.x (cp.async.bulk.tensor, tensor swizzle modes, mbarrier).
"""

from __future__ import annotations

__all__ = ["ctas_held", "multicast_slice", "slice_problem", "stored_columns"]

WARP = 32
WARPGROUP = 128
WARPS = WARPGROUP // WARP
"""Of a warpgroup."""

TMA_BOX_MAX = 256
"""Elements of a box per dimension."""

TMA_RANK_MAX = 5
"""Dimensions of a tensor map; at least 1."""

TMA_STRIDE_ALIGN = 16
"""Bytes; also the alignment of a tensor's base address."""

TMA_WRITES = 16
"""Bytes: rows that a TMA store clips go on with zeros up to a multiple of them. On an H200 rows of
126, 836, 1426 and 1990 bytes had 2, 12, 14 and 10 zeros behind them.
"""

NO_SWIZZLE = 16
"""Bytes of a row of a core matrix, which the matrix instruction reads without a swizzle."""

NARROWEST_SWIZZLE = 32
"""Bytes of the shortest swizzle span; lines of operand tiles are whole spans."""

WIDEST_SWIZZLE = 128

SWIZZLE_ROWS = 8
"""Lines after which the pattern of a swizzle repeats."""

TMA_SMEM_ALIGN = 128
"""Bytes that what TMA reads or writes of shared memory begins at multiples of (CUDA C++ Programming
Guide, multi-dimensional copies)."""

SWIZZLE_ATOM = 1024
"""Bytes after which the 128-byte swizzle repeats; the alignment of every stage."""

MBARRIER_BYTES = 8

GRID_X_MAX, GRID_YZ_MAX = 2**31 - 1, 65535
"""CTAs of a grid along x, and along y or z (CUDA C++ Programming Guide, compute capabilities)."""

_SM_THREADS, _SM_SHARED, _CTA_SHARED = 2048, 228 * 1024, 1024
"""Threads and bytes of shared memory of a multiprocessor, and bytes that each CTA takes beside its
own (CUDA C++ Programming Guide, Technical Specifications per Compute Capability, 9.0 and 10.0)."""


def ctas_held(threads: int, shared_bytes: int) -> int:
    """CTAs of so many threads and bytes of shared memory that a multiprocessor has room for, if it
    has registers for them.
    """
    return min(_SM_THREADS // threads, _SM_SHARED // (shared_bytes + _CTA_SHARED))


def multicast_slice(
    rows: int, cols: int, span: int, count: int, line: int
) -> tuple[int, int] | None:
    """Rows and columns that each of ``count`` CTAs loads of a tile that all of them share.

    Whole boxes of ``span`` columns, ``line`` bytes, where their number allows it (fewer and larger
    copies), else as many rows of each box, which begin at a multiple of :data:`TMA_SMEM_ALIGN` in
    shared memory. The pattern of a swizzle need not begin with a slice: it follows from the
    address. None where neither divides.
    """
    if cols % (count * span) == 0:
        return rows, cols // count
    found = rows // count
    whole = rows % count == 0 and found * line % TMA_SMEM_ALIGN == 0
    return (found, cols) if whole else None


def stored_columns(cols: int, element_bytes: int, widest: int = WIDEST_SWIZZLE) -> int:
    """Columns that an N-major tile of ``cols`` columns takes in shared memory.

    Beyond one swizzle span it is filled up to whole spans: a tile of 160 columns of 2 bytes is
    three boxes of 64, of which wgmma reads two and a half. Five boxes of 32 in a narrower swizzle
    made kernels 10 to 13 % slower (128x160 at 4096x14336x5120, H200, 2026-11-21).

    Args:
        cols: of the tile.
        element_bytes: of an element.
        widest: bytes of the span that such a tile has.
    """
    span = widest // element_bytes
    return cols if cols < span else -(-cols // span) * span


def slice_problem(rows: int, count: int) -> str:
    """What is wrong where :func:`multicast_slice` finds none."""
    return (
        f"each would load {rows / count:g} rows, and a slice is whole rows and multiples of "
        f"{TMA_SMEM_ALIGN} bytes"
    )
