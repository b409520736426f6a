"""How much of a tensor a warpgroup holds at a time, and how many of them share a CTA."""

from __future__ import annotations

from dataclasses import dataclass

from lowering.ground.layouts import BLOCK_ROWS
from wsched.fusion.summary import Axis, Extent, Summary

__all__ = ["Tile", "tile_of"]

_SHORT = 256
"""Elements of a row that one warpgroup reads in no more than a few trips."""

_BYTES = 256
"""Of a row of all inputs in a warpgroup's tile: what 128 threads ask for before they wait."""


@dataclass(frozen=True, slots=True)
class Tile:
    """What one warpgroup reads in a trip.

    Args:
        groups: warpgroups of a CTA, which take trips in turn.
        rows: a multiple of 64; where rows are reduced, several blocks of 64.
        columns: a multiple of 8, or 1.
    """

    groups: int
    rows: int
    columns: int


def tile_of(summary: Summary, reduced: int) -> Tile:
    """The tile for a summary.

    Args:
        summary: what is computed.
        reduced: elements that come to one.
    """
    tensors = [v for v in summary.inputs if v.extent is Extent.TENSOR]
    match summary.axis:
        case Axis.ALL:
            return Tile(4, 8 * BLOCK_ROWS, 1)
        case Axis.ROWS:
            return Tile(4 if reduced > 2 * BLOCK_ROWS else 1, 2 * BLOCK_ROWS, 32)
    if reduced <= _SHORT:
        return Tile(1, BLOCK_ROWS, 32)
    apart = _BYTES // sum(v.dtype.bytes for v in tensors)
    return Tile(4, BLOCK_ROWS, max(apart // 32 * 32, 32))
