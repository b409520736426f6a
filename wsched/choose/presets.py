"""Schedules with a name, for the command line: one for each family of kernels."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from lowering.ground.errors import WschedError
from wsched.schedule.matmul.params import (
    BufferingLoopLevel,
    CircularBufferingStrategy,
    CircularBufferOptions,
    GemmTile,
    MatmulParams,
    MatMulTileOptions,
    MmaMacro,
    TilingStrategy,
)

__all__ = ["PRESETS", "ParamsError", "read_params"]

_COOPERATIVE = MatmulParams(grid_traversal_factor=(8, 1))
_SQUARE = replace(
    _COOPERATIVE,
    tile_sizes=MatMulTileOptions(GemmTile(128, 128, 64), GemmTile(64, 128, 64)),
    mma_macro=MmaMacro(64, 128, 16),
)

PRESETS: dict[str, MatmulParams] = {
    "cooperative": _COOPERATIVE,
    "ping-pong": replace(
        _COOPERATIVE,
        buffering_loop_level=BufferingLoopLevel.WarpTiles,
        circular_buffer_options=CircularBufferOptions(smem_circular_buffer_stage=5),
        tile_sizes=MatMulTileOptions(GemmTile(256, 128, 64), GemmTile(128, 128, 64)),
        mma_macro=MmaMacro(64, 128, 16),
    ),
    "pipelined": replace(
        _SQUARE,
        circular_buffering_strategy=CircularBufferingStrategy.Pipelined,
        num_registers=None,
    ),
    "tile-per-cta": replace(_COOPERATIVE, tiling_strategy=TilingStrategy.OneTilePerCTA),
    "dynamic": replace(_COOPERATIVE, tiling_strategy=TilingStrategy.DistributeTilesDynamically),
}
"""By name: legal with every operand and result type, as long as there is one result."""


class ParamsError(WschedError, ValueError):
    """What should name a schedule does not; the text gives the names and the grammar."""


def read_params(asked: str) -> MatmulParams:
    """The preset of a name, or what a JSON file has: ``MatmulParams.to_dict``, or part of it.

    ``wsched explain --json`` prints such a dict under ``params``.

    Raises:
        ParamsError: neither a preset nor a readable JSON file.
        ScheduleError: a file with a field or value that ``MatmulParams`` does not have.
    """
    if asked in PRESETS:
        return PRESETS[asked]
    try:
        data = json.loads(Path(asked).read_text(encoding="utf-8"))
    except OSError as e:
        names = ", ".join(PRESETS)
        raise ParamsError(
            f"{asked!r} is no preset ({names}), and as a file: {e.strerror}"
        ) from None
    except (ValueError, RecursionError) as e:  # of the decoding, or of the JSON
        raise ParamsError(f"{asked} is no JSON: {e}") from None
    return MatmulParams.from_dict(data)
