"""How much of a tensor a warpgroup holds at a time, and how many of them share a CTA."""

from __future__ import annotations

from dataclasses import dataclass

from lowering.ground.layouts import ACCUMULATOR, BLOCK_ROWS, RegisterLayout
from wsched.fusion.summary import Axis, Extent, Summary

__all__ = ["TOGETHER", "Tile", "tile_of"]

TOGETHER = 8
"""Neighbouring columns that a thread reads of long rows where it can: 16 bytes of 16-bit elements,
two accesses of fp32."""

_WIDE = RegisterLayout(TOGETHER, 32)
"""Rows for warps: each access of a warp is of half a kilobyte that lies side by side."""

_SHORT = 256
"""Elements of a row that one warpgroup reads in no more than a few trips."""

_BYTES = 256
"""Of a row of all inputs in a warpgroup's tile: what 128 threads ask for before they wait."""

_WIDE_BYTES = 1024
"""The same where a row is a warp's, which has two of them: 64 bytes a thread are on their way, and
nine CTAs fit on a multiprocessor. 64 MB take 17.5 us so, 19.5 with twice as many bytes, 23.8 by
pairs in the layout of accumulators (H200, 2026-11-29)."""


_ALONE_BYTES = 2048
"""The same of the only warpgroup on a multiprocessor, beside another grid's CTA: 128 bytes of each
thread are on their way."""


@dataclass(frozen=True, slots=True)
class Tile:
    """What one warpgroup reads in a trip.

    Args:
        groups: warpgroups of a CTA, which take trips in turn.
        rows: a multiple of the layout's; where rows are reduced, several blocks of 64.
        columns: a multiple of the layout's, or 1.
        layout: of all fragments.
    """

    groups: int
    rows: int
    columns: int
    layout: RegisterLayout = ACCUMULATOR


def tile_of(summary: Summary, reduced: int, vector: int = 2, alongside: bool = False) -> Tile:
    """The tile for a summary.

    Args:
        summary: what is computed.
        reduced: elements that come to one.
        vector: columns that threads may access at once.
        alongside: whether it runs beside another grid.
    """
    tensors = [v for v in summary.inputs if v.extent is Extent.TENSOR]
    match summary.axis:
        case Axis.ALL:
            return Tile(4, 8 * BLOCK_ROWS, 1)
        case Axis.ROWS:
            return Tile(4 if reduced > 2 * BLOCK_ROWS else 1, 2 * BLOCK_ROWS, 32)
    if reduced <= _SHORT:
        return Tile(1, BLOCK_ROWS, 32)
    each = sum(v.dtype.bytes for v in tensors)
    if vector == TOGETHER:
        read = _ALONE_BYTES if alongside else _WIDE_BYTES
        columns = max(read // each // _WIDE.columns, 2) * _WIDE.columns
        return Tile(1, _WIDE.rows, columns, _WIDE)
    return Tile(4, BLOCK_ROWS, max(_BYTES // each // 32 * 32, 32))
