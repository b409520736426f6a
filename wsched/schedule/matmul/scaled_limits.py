"""Which schedules can scale blocks inside the sum, and with which registers."""

from __future__ import annotations

from wsched.schedule.matmul.demands import Demands
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.primitives.checks import Reasons

__all__ = ["scaled_reasons", "scaled_registers"]

_LANES, _SHARED = 4, 2
"""Lanes of a row of a fragment, and rows of 64 that a thread has elements of."""


def scaled_reasons(demands: Demands, params: MatmulParams) -> Reasons:
    """Why a warpgroup's part of a step has several blocks, of which it would need a number each."""
    if demands.scaled is None:
        return []
    reasons: Reasons = []
    warp, span = params.tile_sizes.warp_tile, demands.promotion
    if span % warp.k:
        reasons.append(f"the tile's k {warp.k} is no divisor of {span}, of which each is scaled")
    tile = params.tile_sizes.cta_tile
    if tile.k % span and span % tile.k:
        reasons.append(f"the tile's k {tile.k} has parts of {span}, of which each is scaled")
    for axis, size, rows in zip("mn", (warp.m, warp.n), demands.scaled, strict=True):
        if rows > 1 and rows % size:
            reasons.append(
                f"the warp tile's {axis} {size} is no divisor of the {rows} that a scale is for"
            )
    if params.stream_k:
        reasons.append("DistributeStagesAcrossSMs of a sum whose steps are scaled")
    if demands.target.tensor_memory is not None:
        reasons.append(f"scales inside a sum in the tensor memory of {demands.target.arch}")
    return reasons


def scaled_registers(demands: Demands, params: MatmulParams) -> int:
    """Registers of a thread for the numbers of a step: where both are multiplied with each other,
    their product's and, in their own places, those of the next step. A single number counts for
    none: 192x128 of three warpgroups, 128 accumulators of 160 registers, does not spill (ptxas
    13.0).
    """
    if demands.scaled is None:
        return 0
    warp = params.tile_sizes.warp_tile
    by_row, by_col = demands.scaled
    rows = _SHARED * warp.m // demands.target.mma.m if by_row == 1 else 1
    cols = warp.n // _LANES if by_col == 1 else 1
    shifts = max(rows, cols) if demands.computed is not None and demands.computed.shifted else 0
    return shifts + (rows + cols if by_row == by_col == 1 else 2 * max(rows, cols))
