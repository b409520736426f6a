"""How the elements of an index space are dealt out to threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowering.ground.errors import UnsupportedError
from lowering.ground.layouts import RegisterLayout

__all__ = ["LONGEST_ROW", "SPAN", "Tile", "row_tile", "tile_of"]

SPAN = 8
"""Neighbouring columns that a thread has: 16 bytes of 16-bit elements, two accesses of fp32."""

_PIECES = 2
"""Pieces of :data:`SPAN` columns and two rows of a thread: 32 elements, 128 bytes on their way for
each tensor of 32 bits. With more of them chains of several tensors would begin to spill."""


@dataclass(frozen=True, slots=True)
class Tile:
    """What a CTA of 128 threads has.

    Args:
        lanes: that share a row.
        blocks: of the layout's rows.
        groups: of ``lanes`` times :data:`SPAN` columns.
        row: elements of a row that is reduced, all of which the tile has; 0 where none is.
    """

    lanes: int
    blocks: int
    groups: int
    row: int = 0

    @property
    def layout(self) -> RegisterLayout:
        """Of the fragments."""
        return RegisterLayout(SPAN, self.lanes)

    @property
    def rows(self) -> int:
        """Of the tile."""
        return self.blocks * self.layout.rows

    @property
    def columns(self) -> int:
        """Of the tile."""
        return self.groups * self.layout.columns


LONGEST_ROW = 1024
"""Elements of a row that is reduced: 64 in a thread, of which two or three values are live at once
in a norm and a softmax."""


def row_tile(row: int) -> Tile:
    """The tile for rows that are reduced, whole rows in as few lanes as hold them.

    Raises:
        UnsupportedError: they are longer than :data:`LONGEST_ROW`.
    """
    if row > LONGEST_ROW:
        raise UnsupportedError(f"a sweep that reduces rows of {row}", f"up to {LONGEST_ROW}")
    lanes = 1
    while lanes < 32 and lanes * SPAN < row:
        lanes *= 2
    return Tile(lanes, 1, -(-row // (lanes * SPAN)), row)


def tile_of(sizes: Sequence[int], turned: bool) -> Tile:
    """The tile for an index space.

    A warp has as few rows as their length allows, so that it reads whole lines; where tensors lie
    by columns it has eight of them beside each other, which read those by lines, too.

    Args:
        sizes: of the index space, the last two rows and columns.
        turned: whether a tensor is contiguous along rows.
    """
    columns, lanes = sizes[-1], 4 if turned else 1
    while not turned and lanes < 32 and lanes * SPAN < columns:
        lanes *= 2
    if columns > lanes * SPAN:
        return Tile(lanes, 1, _PIECES)
    return Tile(lanes, _PIECES if sizes[-2] > RegisterLayout(SPAN, lanes).rows else 1, 1)
