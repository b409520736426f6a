"""Chunks of a warp tile that the epilogue computes at a time, and how they are stored."""

from __future__ import annotations

from math import gcd

from lowering.target import ptx
from wsched.fusion import DataType
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["TRANSPOSED_CHUNK", "box_rows", "chunk_columns", "chunk_turns"]

TRANSPOSED_CHUNK = 64
"""Columns at most of a chunk that is transposed as it is stored: they are lines of a box, so only
registers bound them, and 64 are as many as 16-bit results that are not transposed have."""


def chunk_columns(params: MatmulParams, *types: DataType) -> int:
    """Columns that the epilogue computes at a time: at most 128 bytes of each, dividing the warp
    tile.

    ``types`` are those of the results, of the inputs that TMA loads for it, and fp32 where it is
    reduced.
    """
    columns = params.tile_sizes.warp_tile.n
    if params.exchange_operands:
        fitting = range(8, min(columns, TRANSPOSED_CHUNK) + 1, 8)
        return max((n for n in fitting if columns % n == 0), default=columns)
    return gcd(columns, ptx.WIDEST_SWIZZLE // max(t.bytes for t in types))


def box_rows(params: MatmulParams) -> int:
    """Rows of a chunk that TMA stores at once: of one that is transposed a wgmma's, which are as
    many columns of the box.
    """
    rows = params.tile_sizes.warp_tile.m
    return min(rows, params.mma_macro.m) if params.exchange_operands else rows


def chunk_turns(params: MatmulParams, columns: int) -> int:
    """Stores of the innermost loop that takes the epilogue's buffers in turn."""
    warp = params.tile_sizes.warp_tile
    blocks = warp.m // box_rows(params)
    return blocks if blocks > 1 else warp.n // columns
