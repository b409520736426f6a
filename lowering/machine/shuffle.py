"""Lane exchange on the machine."""

from __future__ import annotations

import numpy as np

from lowering.ground.types import FragmentType
from lowering.kernel.nodes import FragShuffle
from lowering.machine.fragment import Array, lane_rows, row_lanes
from lowering.machine.program import Program, Run
from lowering.machine.state import Registers, Warp

__all__ = ["frag_shuffle", "redealt"]


def redealt(data: Array, to: FragmentType) -> Array:
    """A warp's part of a tile, ``[32, blocks, groups, 2, span]``, in the layout of ``to``."""
    rows = lane_rows(data).transpose(0, 2, 3, 1, 4)  # blocks, halves, rows of 8, groups, columns
    groups = rows.reshape(*rows.shape[:3], to.groups, to.layout.columns)
    return row_lanes(np.ascontiguousarray(groups.transpose(0, 3, 1, 2, 4)))


def frag_shuffle(stmt: FragShuffle, program: Program) -> Run:
    """``frag.shuffle``: every element where the formula of the layout has it."""

    def run(warp: Warp) -> None:
        data = redealt(warp.read(stmt.value), stmt.out.type)
        warp.define(stmt.out, Registers(data, warp.epoch))

    return run
