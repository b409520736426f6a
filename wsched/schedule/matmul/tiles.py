"""Which tiles a fusion can have: parameters for each, and the reason against those it cannot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from lowering.ground.errors import ScheduleError, UnsupportedError
from lowering.target.target import Target
from lowering.target.targets import DEFAULT
from wsched.fusion import DataType, Fusion, the_products
from wsched.schedule.matmul.chunks import chunk_columns, chunk_turns
from wsched.schedule.matmul.computed import Computed
from wsched.schedule.matmul.demands import Demands
from wsched.schedule.matmul.epilogue_inputs import loaded_types
from wsched.schedule.matmul.limits import (
    fitting_stages,
    require_legal,
    settled,
    shared_bytes,
)
from wsched.schedule.matmul.params import (
    BufferingLoopLevel,
    CircularBufferOptions,
    GemmTile,
    MatmulParams,
    MatMulTileOptions,
)
from wsched.schedule.matmul.reductions import NO_REDUCTIONS, Reductions

__all__ = [
    "TILE_K", "TILE_M", "TILE_N", "TileChoice", "fit_stages", "tile_choice", "tile_choices",
    "with_tile",
]  # fmt: skip

TILE_M = (64, 128, 192, 256)
TILE_N = tuple(range(8, 257, 8))
TILE_K = (64, 128, 256)
"""Bytes of K in a step."""

PARTITIONS = (
    (1, False, 1), (2, False, 1), (3, False, 1), (2, False, 2), (4, False, 2), (2, True, 1),
    (3, True, 1),
)  # fmt: skip
"""(compute warpgroups, whether each has tiles of its own, how many lie side by side along N) of
what is enumerated."""

MAX_STAGES = 8
"""More do not hide more."""

LEAST_STAGES = 3


@dataclass(frozen=True, slots=True)
class TileChoice:
    """A tile, dealt out to warpgroups in one way.

    Args:
        tile: the output tile: the CTA's, in ping-pong a warpgroup's.
        warpgroups: number of compute warpgroups.
        ping_pong: whether each of them has tiles of its own, else they share each tile.
        across: how many of them lie side by side along N.
        params: complete parameters with this tile, and as many stages as fit.
        reason: why they are refused, in the words of the error; empty where they are legal.
    """

    tile: GemmTile
    warpgroups: int
    ping_pong: bool
    across: int
    params: MatmulParams
    reason: str = ""

    @property
    def legal(self) -> bool:
        """Whether a kernel can have this tile."""
        return not self.reason

    def __str__(self) -> str:
        way = "ping-pong" if self.ping_pong else "cooperative"
        beside = f", {self.across} side by side" if self.across > 1 else ""
        return f"{self.tile} {way}, {self.warpgroups} compute{beside}: {self.reason or 'legal'}"


def tile_choices(
    fusion: Fusion, base: MatmulParams, target: Target = DEFAULT
) -> Iterator[TileChoice]:
    """Every tile of :data:`TILE_M` x :data:`TILE_N` x :data:`TILE_K` in every partition; N is that
    of a warp tile, K in elements.

    Args:
        fusion: unscheduled; its types, layouts and epilogue decide what fits.
        base: what the tile does not decide: cluster, wgmmas in flight, order of tiles and so on.
        target: the GPU that they are for.
    """
    size = the_products(fusion)[0].operand.bytes
    for m, n, k, partition in product(TILE_M, TILE_N, TILE_K, PARTITIONS):
        tile = GemmTile(m, n * partition[-1], k // size)
        yield tile_choice(fusion, base, tile, *partition, target=target)


def tile_choice(
    fusion: Fusion,
    base: MatmulParams,
    tile: GemmTile,
    warpgroups: int,
    ping_pong: bool,
    across: int = 1,
    target: Target = DEFAULT,
    along_k: int = 1,
) -> TileChoice:
    """One of :func:`tile_choices`, of any size; ``along_k`` as of :func:`with_tile`."""
    shared = with_tile(base, tile, warpgroups, ping_pong, across, along_k)
    params = _with_most_stages(fusion, shared, target)
    reason = _reason(fusion, params, target)
    if not reason:
        params = settled(fusion, params, target)
    return TileChoice(tile, warpgroups, ping_pong, across, params, reason)


def _reason(fusion: Fusion, params: MatmulParams, target: Target) -> str:
    try:
        require_legal(fusion, params, target)
    except ScheduleError as e:
        return e.why
    except UnsupportedError as e:
        return str(e)
    return ""


def with_tile(
    params: MatmulParams, tile: GemmTile, warpgroups: int, ping_pong: bool, across: int = 1,
    along_k: int = 1,
) -> MatmulParams:  # fmt: skip
    """``params`` with another output tile.

    Args:
        params: the rest.
        tile: of each warpgroup in ping-pong, else of the CTA.
        warpgroups: how many compute.
        ping_pong: whether each of them has tiles of its own.
        across: how many lie side by side along N where they share a tile, a divisor of
            ``warpgroups``.
        along_k: how many share each slice of K, likewise.
    """
    below = warpgroups // across // along_k
    shared = replace(tile, m=tile.m // below, n=tile.n // across, k=tile.k // along_k)
    warp = tile if ping_pong else shared
    return replace(
        params,
        buffering_loop_level=BufferingLoopLevel(int(ping_pong)),
        tile_sizes=MatMulTileOptions(
            replace(tile, m=tile.m * warpgroups if ping_pong else tile.m), warp
        ),
        mma_macro=replace(params.mma_macro, n=warp.n),
    )


def _with_most_stages(fusion: Fusion, params: MatmulParams, target: Target) -> MatmulParams:
    """``params`` with the stages that fit, or so many that the error says why none do."""
    demands = Demands.of(fusion, target)
    demands = demands.exchanged if params.exchange_operands else demands
    least = max(2, params.wgmma_in_flight + 1)
    for wanted, loaded in product((max(least, LEAST_STAGES), least), (True, False)):
        tried = params if loaded else replace(params, epilogue_input_stages=0)
        inputs = loaded_types(fusion, tried)
        found = fit_stages(
            tried, demands.operand, demands.results, inputs, wanted, demands.n_major, target,
            demands.counts, demands.reductions, demands.computed,
        )  # fmt: skip
        if found is not None:
            return found
    return _with_stages(replace(params, epilogue_stages=1), least)


def fit_stages(
    params: MatmulParams,
    operand: DataType,
    results: tuple[DataType, ...],
    inputs: tuple[DataType, ...],
    least: int = LEAST_STAGES,
    n_major: bool = False,
    target: Target = DEFAULT,
    counts: tuple[int, int] = (1, 1),
    reductions: Reductions = NO_REDUCTIONS,
    computed: Computed | None = None,
    apart: bool = False,
) -> MatmulParams | None:
    """``params`` with the most stages that fit beside two buffers for each result, or beside one.
    So also of an odd number of chunks where nothing is reduced: two do not pay there (0026).

    Args:
        params: their stages are replaced.
        operand: type of the operands.
        results: types of the results.
        inputs: types of the matrices that TMA loads for the epilogue.
        least: stages that are worth having; None where fewer fit.
        n_major: whether B of the product that is computed is N-major.
        target: the GPU that it is for.
        counts: number of As and of Bs.
        reductions: results that are reductions.
        computed: what is computed on an operand of the product that is computed.
        apart: whether each chunk of the epilogue has a buffer of its own.
    """
    chunks = chunk_turns(params, chunk_columns(params, *results, *inputs, *reductions.types))
    in_turn = chunks > 1 if reductions.types else chunks % 2 == 0
    for buffers in (chunks,) if apart else (2, 1) if in_turn else (1,):
        tried = replace(params, epilogue_stages=buffers)
        found = shared_bytes(
            tried,
            operand,
            *results,
            inputs=inputs,
            n_major=n_major,
            counts=counts,
            reductions=reductions,
            computed=computed,
        )
        stages = fitting_stages(*found, target)
        if stages >= least:
            return _with_stages(tried, min(stages, MAX_STAGES))
    return None


def _with_stages(params: MatmulParams, stages: int) -> MatmulParams:
    gap = params.wgmma_in_flight + 1
    options = CircularBufferOptions(
        smem_circular_buffer_stage=stages, smem_circular_buffer_prefetch_gap=gap
    )
    return replace(params, circular_buffer_options=options)
