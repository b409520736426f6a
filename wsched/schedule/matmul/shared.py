"""Shared memory that matmul parameters take: stages of the operands, buffers of the epilogue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

from lowering.ground.errors import ScheduleError
from lowering.target import ptx
from lowering.target.target import Target
from lowering.target.targets import DEFAULT
from wsched.fusion import DataType
from wsched.schedule.matmul.chunks import box_rows, chunk_columns
from wsched.schedule.matmul.computed import Computed, element_bytes
from wsched.schedule.matmul.demands import Demands
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.matmul.reductions import NO_REDUCTIONS, Reductions, shared_by_warps
from wsched.schedule.matmul.slice_limits import summed_bytes
from wsched.schedule.matmul.swizzles import widest_span

__all__ = [
    "BARRIER_BYTES",
    "chunk_columns",
    "fitting_stages",
    "require_room",
    "shared_bytes",
    "taken",
]

BARRIER_BYTES = 1024
"""Shared memory kept for mbarriers, and for aligning what comes after narrow operand tiles."""


def shared_bytes(
    params: MatmulParams,
    operand: DataType,
    *results: DataType,
    inputs: tuple[DataType, ...] = (),
    n_major: bool = False,
    counts: tuple[int, int] = (1, 1),
    reductions: Reductions = NO_REDUCTIONS,
    computed: Computed | None = None,
) -> tuple[int, int]:
    """Bytes of shared memory of (one stage of all operands, all epilogue buffers).

    ``inputs`` are the types of the matrices that TMA loads for the epilogue; ``n_major`` says
    whether B is N-major, ``counts`` how many As and Bs there are, of the product that is computed;
    ``reductions`` are the results that are such, ``computed`` is what is computed on an operand.
    """
    tile = params.output_tile
    columns = chunk_columns(params, *results, *inputs, *reductions.types)
    a, b = element_bytes(operand, computed)
    widest, own = widest_span(params.smem_swizzles.b), tile.n // params.mma_macro.target.mma.ctas
    n = ptx.stored_columns(own, int(b), widest) if n_major else own
    stage = int((counts[0] * tile.m * a + counts[1] * n * b) * tile.k)
    stored = box_rows(params) * columns * sum(r.bytes for r in results) * params.use_smem_epilogue
    loaded = tile.m * columns * sum(t.bytes for t in inputs)
    buffers = stored * params.epilogue_stages * params.warpgroups
    if params.promote_prologue_smem_reuse and buffers <= _reused(params, tile.m * a, n * b):
        buffers = 0
    buffers += shared_by_warps(reductions, params)
    return stage, buffers + loaded * params.epilogue_input_stages + summed_bytes(params)


def _reused(params: MatmulParams, a: float, b: float) -> float:
    """Bytes of the stages of one operand, which has rows of ``a`` or ``b`` bytes for each k: where
    the epilogue may store through.
    """
    stages = params.circular_buffer_options.smem_circular_buffer_stage
    return max(a, b) * params.output_tile.k * stages


def fitting_stages(stage: int, epilogue: int, target: Target = DEFAULT) -> int:
    """Stages of ``stage`` bytes that fit into shared memory beside the epilogue's buffers."""
    return (target.shared_bytes - BARRIER_BYTES - epilogue) // stage


def taken(demands: Demands, params: MatmulParams, inputs: tuple[DataType, ...]) -> tuple[int, int]:
    """The same for what a fusion demands; ``inputs`` as there."""
    return shared_bytes(
        params, demands.operand, *demands.results, inputs=inputs, n_major=demands.n_major,
        counts=demands.counts, reductions=demands.reductions, computed=demands.computed,
    )  # fmt: skip


def require_room(demands: Demands, params: MatmulParams) -> None:
    """Refuse more than fits.

    Raises:
        ScheduleError: rule ``smem`` with the stages that fit.
    """
    target = demands.target
    inputs = demands.loaded(params)
    stage, epilogue = taken(demands, params, inputs)
    stages = params.circular_buffer_options.smem_circular_buffer_stage
    fixed, most = epilogue + BARRIER_BYTES, fitting_stages(stage, epilogue, target)
    if stages > most:
        unloaded = replace(params, epilogue_input_stages=0)
        legal = list(_fewer_stages(demands, params, most))
        if inputs and stages <= fitting_stages(*taken(demands, unloaded, ()), target):
            legal.append("epilogue_input_stages=0")
        raise ScheduleError(
            "smem",
            f"smem_circular_buffer_stage={stages}",
            f"{stages} stages of {_kib(stage)} + epilogue {_kib(epilogue)} + barriers "
            f"{_kib(BARRIER_BYTES)} = {_kib(stages * stage + fixed)}, limit "
            f"{_kib(target.shared_bytes)}",
            tuple(legal),
        )


def _fewer_stages(demands: Demands, params: MatmulParams, most: int) -> Iterator[str]:
    """Stages that fit, up to so many, with as many wgmma groups in flight as they leave room for.

    Where those that multiply load, one stage is loaded ahead.
    """
    inputs, flying = demands.loaded(params), params.wgmma_in_flight
    alone = params.ping_pong and not params.warp_specialized
    for n in range(2 if alone else 1, most + 1):
        options = replace(params.circular_buffer_options, smem_circular_buffer_stage=n)
        fewer = replace(params, circular_buffer_options=options)
        if n > fitting_stages(*taken(demands, fewer, inputs), demands.target):
            continue
        fly = min(flying, max(n - (1 if params.warp_specialized else 2), 0))
        gap = f", smem_circular_buffer_prefetch_gap={fly + 1}, wgmma_in_flight={fly}"
        yield f"smem_circular_buffer_stage={n}" + gap * (fly < flying)


def _kib(size: int) -> str:
    huge = size >= 1 << 1000  # more than a float holds: factors that somebody wrote
    return f"{Decimal(size) / 1024:.3g} KiB" if huge else f"{size / 1024:g} KiB"
