"""How much of a tensor a warpgroup of a summary's kernel reads at a time."""

from __future__ import annotations

import pytest

from lowering.summary.tile import Tile, tile_of
from tests.lowering.summary.summaries import deviation, rms, scaled
from wsched.fusion import DataType
from wsched.fusion.summary import Summary

ALL, ROWS, COLUMNS = rms(2, (0, 1)), rms(2, (0,)), rms(2, (1,))
TWO = scaled(2, (1,), "max", DataType.Half)


@pytest.mark.parametrize(
    ("summary", "reduced", "tile"),
    [
        (ALL, 1, Tile(4, 512, 1)),
        (ALL, 2**20, Tile(4, 512, 1)),
        (ROWS, 128, Tile(1, 128, 32)),
        (ROWS, 129, Tile(4, 128, 32)),
        (COLUMNS, 256, Tile(1, 64, 32)),
        (COLUMNS, 257, Tile(4, 64, 128)),
        (TWO, 257, Tile(4, 64, 64)),
        (deviation(2, (1,)), 257, Tile(4, 64, 64)),
    ],
)
def test_tiles(summary: Summary, reduced: int, tile: Tile) -> None:
    """Short rows are one warpgroup's; of long ones 256 bytes of all tensors are read at a time."""
    assert tile_of(summary, reduced) == tile
