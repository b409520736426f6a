"""Chunks of a warp tile that the epilogue computes at a time, and how they are stored."""

from __future__ import annotations

from math import gcd

from lowering.target import ptx
from wsched.fusion import DataType
from wsched.schedule.matmul.params import MatmulParams

__all__ = [
    "MOST_PIECES", "NARROWEST_CHUNK", "WIDEST_CHUNK", "box_rows", "chunk_columns", "chunk_problem",
    "chunk_turns", "exchanged_chunk", "pieces", "unboxed",
]  # fmt: skip

NARROWEST_CHUNK, WIDEST_CHUNK = 8, 64
"""Columns of a chunk at least, those of a matrix of ``stmatrix``; and at most, as many as of 16-bit
results make 128 bytes. Of chunks that are transposed as they are stored, whose columns are lines of
a box, and of results of 8 bits registers alone bound them."""

MOST_PIECES = 4
"""Pieces of a tile that may be of several tensors: the thread that loads them has two registers for
each, and 24 or 40 in all."""


def chunk_columns(params: MatmulParams, *types: DataType) -> int:
    """Columns that the epilogue computes at a time: those of the parameters, else at most 128 bytes
    of each, and 64, dividing the warp tile.

    ``types`` are those of the results, of the inputs that TMA loads for it, and fp32 where it is
    reduced.
    """
    if params.epilogue_columns:
        return params.epilogue_columns
    columns = params.tile_sizes.warp_tile.n
    if params.exchange_operands:
        return exchanged_chunk(columns)
    return gcd(columns, min(ptx.WIDEST_SWIZZLE // max(t.bytes for t in types), WIDEST_CHUNK))


def exchanged_chunk(columns: int) -> int:
    """The widest chunk of an exchanged tile of so many columns that divides them; all where none
    does.
    """
    fitting = range(NARROWEST_CHUNK, min(columns, WIDEST_CHUNK) + 1, NARROWEST_CHUNK)
    return max((n for n in fitting if columns % n == 0), default=columns)


def chunk_problem(params: MatmulParams) -> str | None:
    """Why the warp tile has no chunks of the columns that the parameters say; None if it has."""
    said, columns = params.epilogue_columns, params.tile_sizes.warp_tile.n
    if said < 0:
        return "a chunk has at least 8 columns, and 0 means the most that are a power of two"
    if said % 8:
        return "a chunk has whole 8x8 matrices, a multiple of 8 columns"
    if said and columns % said:
        return f"chunks of so many columns do not make up the warp tile's {columns}"
    return None


def unboxed(params: MatmulParams, columns: int, *results: DataType) -> DataType | None:
    """The first result of which TMA does not store chunks of so many columns: a row of a box has a
    multiple of 16 bytes.
    """
    if params.exchange_operands or not params.use_smem_epilogue:
        return None
    return next((t for t in results if columns * t.bytes % ptx.TMA_STRIDE_ALIGN), None)


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


def pieces(
    params: MatmulParams, columns: int, m_major: bool = False, n_major: bool = False
) -> tuple[int, int]:
    """Rows and columns of a tile that are of one tensor each where several stand side by side:
    what is stored at once, or the least multiple of it that can be loaded so.

    Args:
        params: of the schedule.
        columns: :func:`chunk_columns`.
        m_major: whether the operand with rows of the tile is M-major; where operands are exchanged,
            of the transposed product.
        n_major: whether the other one is N-major.
    """
    tile, cluster = params.output_tile, params.cluster_dims
    rows = box_rows(params) if params.use_smem_epilogue else params.mma_macro.m
    found = []
    for size, whole, major, ctas in (
        (rows, tile.m, m_major, cluster.n), (columns, tile.n, n_major, cluster.m),
    ):  # fmt: skip
        unit = ctas * (ptx.WIDEST_SWIZZLE // 2 if major else ptx.SWIZZLE_ROWS)
        fitting = (n for n in range(size, whole, size) if whole % n == 0 and n % unit == 0)
        found.append(next((n for n in fitting if whole // n <= MOST_PIECES), whole))
    return found[0], found[1]
