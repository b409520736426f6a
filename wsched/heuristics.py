"""Which schedule for which problem: MatmulParams from the extents and the device.

A cost model in tensor-core cycles of one SM, over a short list of tiles. A 128x256x64 step takes
1024 cycles (dense 16-bit wgmma: 4096 FLOP per cycle and SM). What a tile costs beside its steps was
read off an H200 at 4096x3584x512, 2026-11-21 (design/performance.md): about 4900 cycles for a
cooperative 128x256 tile, whose epilogue nothing hides, and about 700 for a ping-pong 128x128 tile,
whose epilogue runs under the other group's main loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from lowering.errors import UnsupportedError
from lowering.hopper import SHARED_BYTES
from wsched.fusion import DataType
from wsched.schedule.limits import BARRIER_BYTES, shared_bytes
from wsched.schedule.params import (
    BufferingLoopLevel,
    CircularBufferOptions,
    GemmTile,
    MatmulParams,
    MatMulTileOptions,
    MmaMacro,
)

__all__ = ["Problem", "choose_params", "predicted_cycles"]

FLOPS_PER_CYCLE = 4096
COOPERATIVE_OVERHEAD = 4900 / (128 * 256)
PING_PONG_OVERHEAD = 700 / (128 * 128)
MAX_STAGES = 8

TRAVERSAL = (8, 1)
"""Tiles along M that are visited together, so that operands are still in the L2 when they are read
again: row-major order lost a quarter of the speed at 8192x28672x4096 on an H200 (2026-11-21)."""


@dataclass(frozen=True, slots=True)
class Problem:
    """``D[m, n] = A[m, k] · B[n, k]ᵀ`` with the types of its operands and of all results, on ``sms``
    multiprocessors.
    """

    m: int
    n: int
    k: int
    operand: DataType
    results: tuple[DataType, ...]
    sms: int


@lru_cache(maxsize=4096)
def choose_params(problem: Problem) -> MatmulParams:
    """The candidate with the fewest predicted cycles, with as many stages as fit.

    Remembered, because every call of ``wsched.execute`` asks and the answer takes about 1 ms.

    Raises:
        UnsupportedError: no candidate fits into shared memory.
    """
    candidates = _candidates(problem)
    if not candidates:
        kinds = ", ".join(map(str, problem.results))
        raise UnsupportedError(
            f"{len(problem.results)} results ({kinds}), whose buffers leave no shared memory for "
            "the operands",
            "fewer or narrower results",
        )
    return min(candidates, key=lambda p: predicted_cycles(problem, p))


def predicted_cycles(problem: Problem, params: MatmulParams) -> float:
    """Cycles of the SM that has most to do: its tiles' steps, and what each tile costs besides."""
    tile = params.output_tile
    tiles = -(-problem.m // tile.m) * -(-problem.n // tile.n)
    waves = -(-tiles // problem.sms)
    steps = -(-problem.k // tile.k)
    step = 2 * tile.m * tile.n * tile.k / FLOPS_PER_CYCLE
    overhead = PING_PONG_OVERHEAD if params.ping_pong else COOPERATIVE_OVERHEAD
    overhead *= tile.m * tile.n * sum(r.bytes for r in problem.results) / 2
    return waves * (steps * step + overhead) + (COOPERATIVE_OVERHEAD * tile.m * tile.n)


def _candidates(problem: Problem) -> list[MatmulParams]:
    found: list[MatmulParams] = []
    for n in (256, 192, 128, 64):
        found += _fitting(problem, _params(GemmTile(128, n, 64), GemmTile(64, n, 64)))
    for m, n in ((128, 128), (64, 256), (64, 128)):
        warp = GemmTile(m, n, 64)
        params = replace(
            _params(GemmTile(2 * m, n, 64), warp),
            buffering_loop_level=BufferingLoopLevel.WarpTiles,
        )
        found += _fitting(problem, params)
    return found


def _params(cta: GemmTile, warp: GemmTile) -> MatmulParams:
    chunks = warp.n // 64
    return MatmulParams(
        tile_sizes=MatMulTileOptions(cta, warp),
        mma_macro=MmaMacro(64, warp.n, 16),
        grid_traversal_factor=TRAVERSAL,
        epilogue_stages=2 if chunks % 2 == 0 else 1,
    )


def _fitting(problem: Problem, params: MatmulParams) -> Iterator[MatmulParams]:
    """``params`` with the most stages that fit into shared memory beside the epilogue's buffers.

    A single buffer for each result where two leave no room for a ring; nothing if none fits.
    """
    gap = params.circular_buffer_options.smem_circular_buffer_prefetch_gap
    for buffers in range(params.epilogue_stages, 0, -1):
        for stages in range(MAX_STAGES, 2, -1):
            options = CircularBufferOptions(
                smem_circular_buffer_stage=stages, smem_circular_buffer_prefetch_gap=gap
            )
            candidate = replace(params, circular_buffer_options=options, epilogue_stages=buffers)
            needed = sum(shared_bytes(candidate, problem.operand, *problem.results))
            if needed <= SHARED_BYTES - BARRIER_BYTES:
                yield candidate
                return
