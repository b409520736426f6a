"""Which schedules can compute an operand, and with which registers."""

from __future__ import annotations

from lowering.target import ptx
from lowering.target.wgmma import pieces_of
from wsched.fusion import DataType
from wsched.schedule.matmul.demands import Demands
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.primitives.checks import Reasons

__all__ = ["computed_reasons", "computed_registers"]

MOST_PENDING = 7
"""Groups of wgmmas that a wait can leave (``wgmma.wait_group`` in machine code). Each piece of a
slice is a group of its own, and all but one are pending where one is computed."""

LONGEST = 16
"""Instructions of a slice of K whose A registers hold beside all else: of 64x32x512 by a warpgroup
alone, 32 of them in 8 groups, NVRTC 13.0 spills 156 bytes, of 64x184x256 none."""


def computed_reasons(demands: Demands, params: MatmulParams) -> Reasons:
    """Why threads cannot compute the operand that is computed."""
    if demands.computed is None:
        return []
    reasons: Reasons = []
    exchanged, pieces = params.exchange_operands, _pieces(demands, params)
    k, instructions = params.tile_sizes.warp_tile.k, _instructions(demands, params)
    if demands.computed.side == "b":
        reasons.append(
            f"exchange_operands={exchanged}: what is computed would be B, and "
            f"{demands.target.mma.name} takes A alone from registers"
        )
    elif demands.m_major:
        reasons.append("threads compute an operand with K contiguous, that one has M")
    if pieces > MOST_PENDING + 1:
        reasons.append(
            f"the warp tile's k {k} is computed in {pieces} pieces, a wait leaves at most "
            f"{MOST_PENDING} groups"
        )
    elif instructions > LONGEST:
        reasons.append(
            f"the warp tile's k {k} is computed for {instructions} instructions, registers hold A "
            f"of {LONGEST}"
        )
    if params.ping_pong:
        reasons.append("WarpTiles: a warpgroup that computes an operand has no turns to wait for")
    if params.stream_k:
        reasons.append("DistributeStagesAcrossSMs of an operand that has a ring of its own")
    if params.thread_loads:
        reasons.append(f"thread_loads({params.thread_loads}) of operands that are computed")
    return reasons


def _pieces(demands: Demands, params: MatmulParams) -> int:
    """Groups of wgmmas of a slice of K whose A is computed."""
    alone = params.warp_specialized and params.warpgroups == 1
    return pieces_of(_instructions(demands, params), alone)


def _instructions(demands: Demands, params: MatmulParams) -> int:
    """Instructions that multiply such a slice by 64 rows."""
    k = params.tile_sizes.warp_tile.k
    return -(-k // demands.target.mma.k(demands.operand.element))


def computed_registers(demands: Demands, params: MatmulParams) -> int:
    """Registers of a thread for the operand that it computes: A of a whole slice, what that is
    loaded as where it is narrower, and one instruction's K in fp32.
    """
    made, operand = demands.computed, demands.operand
    if made is None:
        return 0
    warp = params.tile_sizes.warp_tile
    narrow = made.bytes if made.bytes < operand.bytes else 0
    piece = demands.target.mma.k(operand.element)
    bytes_ = warp.m * (warp.k * (operand.bytes + narrow) + piece * DataType.Float.bytes)
    return int(bytes_) // 4 // ptx.WARPGROUP
