"""What a schedule with sums in tensor memory takes, by data sheets: nothing was measured.

A tile takes as long as its products or its loads, whichever is longer, in every wave of tiles; a
kernel takes at least what memory takes for its bytes. Rates are those of data sheets: products of
16 bits of 128 rows, n columns and 16 of K in n / 2 cycles; a multiprocessor loads 64 bytes a cycle
from the L2, a port's width. What is multicast each CTA gets in full; of what several multiply
together each has its part.
"""

from __future__ import annotations

from wsched.choose.cost import Cost
from wsched.choose.gpus import GPUS
from wsched.choose.memory import OTHER_BYTES_PER_US, least_bytes
from wsched.choose.problem import Problem
from wsched.schedule.matmul.instruction import sum_stages
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["reckoned"]

LOADED = 64
"""Bytes a cycle that an SM gets from the L2 (assumed)."""

PRODUCTS = 4096
"""Products of 16-bit elements a cycle of an SM; of narrower ones in proportion to their bytes. 2.25
PFLOP/s, dense, of 148 of them (NVIDIA Blackwell data sheet, HGX B200) ..."""

GHZ = 1.856
"""... at the clock that goes with it."""

OVERLAP = 1000
"""Cycles of a tile that nothing covers, the first loads and the last stores (assumed); more where
an accumulator has one stage."""


def reckoned(problem: Problem, params: MatmulParams) -> Cost:
    """Microseconds of a schedule, on a B200 with so many multiprocessors as the problem says."""
    tile = params.output_tile
    tiles_m, tiles_n = problem.tiles(params)
    cluster, together = params.cluster_dims, params.mma_macro.target.mma.ctas
    clusters = -(-tiles_m // cluster.m) * -(-tiles_n // cluster.n) * problem.batch
    ctas = cluster.m * cluster.n
    size = problem.operand.bytes
    products = tile.m * tile.n * tile.k * size / 2 / PRODUCTS
    loads = (tile.m + tile.n / together) * tile.k * size / LOADED
    alone = OVERLAP * (1 if sum_stages(params, problem.target) > 1 else 2)
    rounds, clock = -(-clusters // (problem.sms // ctas)), GHZ * 1e3
    rate = OTHER_BYTES_PER_US[GPUS["B200"].name]
    main = rounds * problem.steps(tile.k) * max(products, loads) / clock
    stored = rounds * alone / clock
    return Cost(
        launch_us=0.0,
        main_us=main,
        epilogue_us=stored,
        combine_us=0.0,
        memory_us=max(0.0, least_bytes(problem) / rate - main - stored),
        power_us=0.0,
        tiles=clusters * ctas,
        rounds=rounds,
        step="tensor cores" if products >= loads else "copies",
        measured=False,
    )
