"""How the elements of an index space are dealt out to threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowering.ground.errors import UnsupportedError
from lowering.ground.layouts import RegisterLayout

__all__ = ["LONGEST_ROW", "SPAN", "Tile", "longest_row", "row_tile", "tile_of"]

SPAN = 8
"""Neighbouring columns that a thread has: 16 bytes of 16-bit elements, two accesses of fp32."""

_PIECES = 2
"""Pieces of :data:`SPAN` columns and two rows of a thread: 32 elements, 128 bytes on their way for
each tensor of 32 bits. With more of them chains of several tensors would begin to spill. Where a
thread has fewer columns together it has as many more pieces."""

_MATRICES = 4
"""Matrices that are loaded before a thread has fewer pieces: eight rows by index of fp32 would take
255 registers with two pieces of each."""

_DEEP = 4
"""Blocks of rows at most: each row of a thread has an address of its own, so that 16 blocks of
single elements would take 207 registers for the sum of two tensors, where these take 45."""


@dataclass(frozen=True, slots=True)
class Tile:
    """What a CTA of 128 threads has.

    Args:
        lanes: that share a row.
        blocks: of the layout's rows.
        groups: of ``lanes`` times ``span`` columns.
        row: elements of a row that is reduced, all of which the tile has; 0 where none is.
        span: neighbouring columns of a thread, a power of two up to :data:`SPAN`.
        rows_first: whether CTAs that follow each other have the next rows of the same columns, not
            the next columns of the same rows.
    """

    lanes: int
    blocks: int
    groups: int
    row: int = 0
    span: int = SPAN
    rows_first: bool = False

    @property
    def layout(self) -> RegisterLayout:
        """Of the fragments."""
        return RegisterLayout(self.span, self.lanes)

    @property
    def rows(self) -> int:
        """Of the tile."""
        return self.blocks * self.layout.rows

    @property
    def columns(self) -> int:
        """Of the tile."""
        return self.groups * self.layout.columns


LONGEST_ROW = 1280
"""Elements of a row that is reduced: 80 in a thread, of which two values are live at once in a norm
and a softmax."""

_TOGETHER, _LONGEST_APART = 4, 1024
"""Neighbouring columns of a thread below which a row has fewer elements: a predicate and an offset
for each of 80 accesses leave no registers for their values."""


def longest_row(span: int = SPAN) -> int:
    """Elements of the longest row that is reduced; ``span`` as of :func:`tile_of`."""
    return LONGEST_ROW if span >= _TOGETHER else _LONGEST_APART


def row_tile(row: int, span: int = SPAN) -> Tile:
    """The tile for rows that are reduced, whole rows in as few lanes as hold them.

    Args:
        row: elements of a row.
        span: as of :func:`tile_of`.

    Raises:
        UnsupportedError: they are longer than :func:`longest_row`.
    """
    if row > (longest := longest_row(span)):
        raise UnsupportedError(f"a sweep that reduces rows of {row}", f"up to {longest}")
    lanes = _lanes(row, span)
    return Tile(lanes, 1, -(-row // (lanes * span)), row, span)


def tile_of(
    sizes: Sequence[int], turned: bool, span: int = SPAN, matrices: int = 1, again: bool = False
) -> Tile:
    """The tile for an index space.

    A warp has as few rows as their length allows, so that it reads whole lines; where tensors lie
    by columns it has eight of them beside each other, which read those by lines, too.

    Rows of a table that are read again are in the L2 still if all rows of some columns come before
    the next columns; of whole rows as much is written in between as the table has, or more.

    Args:
        sizes: of the index space, the last two rows and columns.
        turned: whether a tensor is contiguous along rows.
        span: neighbouring columns that every tensor allows a thread to access at once.
        matrices: how many are loaded.
        again: whether rows of a table are read more than once.
    """
    columns, pieces = sizes[-1], _PIECES * SPAN // span
    pieces = max(pieces // _whole(-(-matrices // _MATRICES)), 1)
    lanes = 4 if turned else _lanes(columns, span)
    across = min(pieces, -(-columns // (lanes * span)))
    down = min(pieces // across, _DEEP, -(-sizes[-2] // RegisterLayout(span, lanes).rows))
    return Tile(lanes, _whole(down), _whole(across), span=span, rows_first=again)


def _lanes(columns: int, span: int) -> int:
    """Lanes that hold a row, at most a warp."""
    lanes = 1
    while lanes < 32 and lanes * span < columns:
        lanes *= 2
    return lanes


def _whole(count: int) -> int:
    """The next power of two, so that kernels of like sizes are the same; of 0 one."""
    return 1 << max(count - 1, 0).bit_length()
