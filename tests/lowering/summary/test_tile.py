"""How much of a tensor a warpgroup of a summary's kernel reads at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.ground.layouts import RegisterLayout
from lowering.summary.tile import TOGETHER, Tile, tile_of
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


@pytest.mark.parametrize(
    ("summary", "columns"), [(COLUMNS, 512), (scaled(2, (1,), "max", DataType.Float), 512)]
)
def test_a_row_for_each_warp(summary: Summary, columns: int) -> None:
    """Of long rows that threads read by 16 bytes; short ones are as they were."""
    wide = Tile(1, 8, columns, RegisterLayout(8, 32))
    assert tile_of(summary, 257, TOGETHER) == wide
    assert tile_of(summary, 256, TOGETHER) == tile_of(summary, 256)


def test_a_warpgroup_alone_on_a_multiprocessor_reads_twice_as_much() -> None:
    assert tile_of(COLUMNS, 257, TOGETHER, alongside=True).columns == 1024
    assert tile_of(COLUMNS, 256, TOGETHER, alongside=True) == tile_of(COLUMNS, 256)


def test_there_are_two_groups_of_columns_to_fold() -> None:
    """However many tensors are read: of one group nothing falls together."""
    (x,) = (v for v in TWO.values if v.name == "x")
    more = tuple(replace(x, name=f"x{n}") for n in range(4))
    assert tile_of(replace(TWO, values=(*TWO.values, *more)), 257, TOGETHER).columns == 512
