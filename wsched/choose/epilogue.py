"""What a tile's epilogue takes, and what its stores ask of the copy engine (design/0014).

A warpgroup stores its tile chunk by chunk through shared memory. A chunk is as wide as divides the
tile: 64 columns of 192, 16 of 176. Each has barriers; with a single buffer, which an odd number of
chunks leaves, each waits until the copy engine has read the one before. The engine stores line by
line, a line of 32 bytes for the price of one of 128, between those that it loads.
"""

from __future__ import annotations

from lowering.target.ptx import WIDEST_SWIZZLE as LINE
from wsched.choose.problem import Problem
from wsched.schedule.matmul.chunks import box_rows, chunk_columns
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["ELEMENT", "element_cycles", "epilogue_cycles", "hides_stores", "store_lines"]

TILE_END, CHUNK, SINGLE = 140, 40, 150
"""Cycles: barriers of an epilogue; of a chunk; and more, where there is one buffer. With operands
of 8 bits 13 chunks of 128x208 took 176 each at 4096x4096x4096 (6 us in 5 rounds, H200)."""

ELEMENT, WORK = 0.165, 0.015
"""Cycles for an element of a tile on one warpgroup: to convert and stage two bytes of it; for an
instruction of the epilogue (``wsched bench pingpong``). One of 8 bits is taken to be as dear as one
of 16: it is converted as slowly and stored by narrower instructions."""

KEPT = 0.065
"""The same of an element that is converted and kept, and stored during the next tile's main loop:
beside 8192 x 8192 x 1024 an epilogue of 128x256 takes 1170 cycles of a main loop then, 2630 else,
one of 128x192 1160 and 2410 (H200, 2026-11-30)."""

OVER_ROWS, OVER_COLUMNS = 3, 2
"""Instructions of a reduction for an element of a tile: to leave it out behind an edge, to add it,
and over rows, which lie in all lanes and warps, to hand on what comes of it. The machine code of
128x160 has 2.95 and 1.70 of them, that of 128x144 exchanged 3.28 and 1.67, 1.94 over both."""

HANDED_ON = 300
"""Cycles of a chunk in which lanes hand on sums over rows, each exchange behind the one before:
beside 8192x4096x512 the nine chunks of 128x144 took 910 cycles more of a tile than main loops hide,
the five of 128x160 300, and 190 at K of 2048 (H200, 2026-11-28)."""


def hides_stores(problem: Problem) -> bool:
    """Whether a tile that is stored during the next one's main loop costs less: of sums over
    groups, whose main loops are short. What 64x256 waits for of rows of groups are copies, whenever
    it is stored: 0.989 to 1.002 of the cycles (16 lists of sizes, H200, 2026-11-30).
    """
    return problem.grouped == "k"


def epilogue_cycles(problem: Problem, params: MatmulParams) -> float:
    """Cycles of a tile's epilogue; of warpgroups that share slices of K one computes it. Of chunks
    that are stored later those cost something here for which the next tile has no step.
    """
    tile, warp = params.output_tile, params.tile_sizes.warp_tile
    warpgroups = 1 if params.ping_pong else params.warpgroups // params.along_k
    chunks = warp.m // box_rows(params) * (warp.n // _columns(problem, params))
    hidden = params.deferred_stores and hides_stores(problem)
    late = min(problem.steps(tile.k) / chunks, 1.0) if hidden else 0.0
    element = late * element_cycles(problem, True) + (1 - late) * element_cycles(problem)
    single = params.epilogue_stages == 1 and chunks > 1 and not params.deferred_stores
    each = CHUNK + SINGLE * single
    each += HANDED_ON * problem.over_rows
    return TILE_END + element * tile.m * tile.n / warpgroups + each * chunks * (1 - late)


def element_cycles(problem: Problem, kept: bool = False) -> float:
    """Cycles for an element of a tile on one warpgroup, which stores or keeps it."""
    reduced = OVER_ROWS * problem.over_rows + OVER_COLUMNS * problem.over_columns
    each = KEPT if kept else ELEMENT
    return each * sum(max(r.bytes, 2) for r in problem.results) / 2 + WORK * (
        problem.work + reduced
    )


def store_lines(problem: Problem, params: MatmulParams) -> int:
    """Lines that the copy engine stores of a tile, for all results."""
    if not params.use_smem_epilogue:
        return 0
    tile, columns = params.output_tile, _columns(problem, params)
    if params.exchange_operands:
        return tile.n * (tile.m // box_rows(params)) * len(problem.results)
    rows = tile.m * (tile.n // columns)
    return rows * sum(-(-columns * r.bytes // LINE) for r in problem.results)


def _columns(problem: Problem, params: MatmulParams) -> int:
    """Columns of a chunk."""
    loaded = (problem.inputs or ()) if params.loads_epilogue_inputs else ()
    types = (*problem.results, *loaded, *problem.reductions.types)
    return chunk_columns(params, *types) if types else params.tile_sizes.warp_tile.n
