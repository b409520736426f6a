"""Which operands threads may load, and with which registers."""

from __future__ import annotations

from lowering.ground.errors import UnsupportedError
from lowering.target import ptx
from lowering.target.target import Target
from wsched.schedule.matmul.demands import Demands
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.options import COPIED_BYTES
from wsched.schedule.primitives.checks import Reasons
from wsched.schedule.proof.loading import load_registers_problem

__all__ = ["refuse_thread_loads", "thread_load_pairs", "thread_load_reasons"]

LOAD_REGISTERS = (96, 88, 80, 72)
"""Registers of a thread that loads, those that are tried first in front: it holds 32 of what it has
loaded, beside addresses and bounds."""


def refuse_thread_loads(params: MatmulParams) -> None:
    """Refuse what has no kernel.

    Raises:
        UnsupportedError: threads load without warps of their own, or beside a queue of tiles.
    """
    if not params.thread_loads:
        return
    said = f"thread_loads({params.thread_loads}) with "
    if not params.warp_specialized:
        what = "WarpSpecialized: threads that load have warps of their own"
        raise UnsupportedError(f"{said}Pipelined loads", what)
    if params.dynamic:
        raise UnsupportedError(
            f"{said}DistributeTilesDynamically", "DistributeTilesAcrossSMs or OneTilePerCTA"
        )


def thread_load_reasons(demands: Demands, params: MatmulParams) -> Reasons:
    """All reasons why operands of these types that lie in memory so cannot be loaded by threads."""
    loads, tile, size = params.thread_loads, params.output_tile, demands.operand.bytes
    legal = [n for n in COPIED_BYTES if n >= size]
    reasons: Reasons = []
    if loads.warpgroups < 1:
        return [f"thread_loads.warpgroups={loads.warpgroups}: at least one loads"]
    sides = (("a", loads.a, tile.m, demands.m_major), ("b", loads.b, tile.n, demands.n_major))
    for name, found, rows, k_is_rows in sides:
        if found and found not in legal:
            words = ", ".join(map(str, legal))
            reasons.append(
                f"thread_loads.{name}={found}: threads copy {words} bytes of {demands.operand} at "
                "once, 0 leaves it to TMA"
            )
        if found and demands.operand.element.rounded_by_tma:
            reasons.append(
                f"thread_loads.{name}={found}: threads would cut off what TMA rounds of "
                f"{demands.operand}"
            )
        rows = tile.k if k_is_rows else rows
        if found and rows % loads.warpgroups:
            reasons.append(
                f"thread_loads.warpgroups={loads.warpgroups}: {rows} rows of a stage of {name} are "
                "no whole number for each"
            )
    return reasons


def thread_load_pairs(params: MatmulParams, target: Target) -> tuple[tuple[int, int], ...]:
    """Pairs of registers (load, compute) that leave those that compute as many as possible, the
    most for those that load first.
    """
    loading, computing = params.load_warpgroups, params.warpgroups
    threads, step = ptx.WARPGROUP * (loading + computing), target.register_step
    pool = (loading + computing) * target.registers_at_entry(threads)
    found = []
    for load in LOAD_REGISTERS:
        most = min((pool - loading * load) // computing // step * step, target.setmaxnreg[1])
        if load_registers_problem(target, loading, computing, (load, most)) is None:
            found.append((load, most))
    return tuple(found)
