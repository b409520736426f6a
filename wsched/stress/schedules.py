"""Random schedules of a form: any tile that is a candidate, changed as no heuristic would."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from lowering.ground.errors import ScheduleError, UnsupportedError
from wsched.choose.heuristics import CLUSTERS, ranked
from wsched.choose.problem import Problem, demands
from wsched.choose.stored_parts import in_parts_at_all, stored_in_parts
from wsched.schedule.matmul.limits import require_legal_for
from wsched.schedule.matmul.params import (
    CircularBufferingStrategy,
    MatmulParams,
    SmemSwizzles,
    SplitKMode,
    TileRasterizationOrder,
    TilingStrategy,
)
from wsched.schedule.options import MmaInputSmemSwizzle

if TYPE_CHECKING:
    from wsched.schedule.matmul.params import CircularBufferOptions

__all__ = ["drawn_params"]

_TRIES = 20
"""Changes that are drawn before the heuristic's choice is taken as it is."""

_STORED = 0.3
"""Share of the schedules with parts of K that are results, where the problem allows these."""

Change = Callable[[random.Random, MatmulParams], MatmulParams]


def _stages(rng: random.Random, options: CircularBufferOptions) -> CircularBufferOptions:
    most = options.smem_circular_buffer_stage
    return replace(options, smem_circular_buffer_stage=rng.randint(min(2, most), most))


def _chunk(rng: random.Random, columns: int) -> int:
    return rng.choice([n for n in range(8, columns + 1, 8) if columns % n == 0] or [columns])


_CHANGES: tuple[tuple[float, Change], ...] = (
    (0.6, lambda rng, p: replace(p, tiling_strategy=rng.choice(list(TilingStrategy)))),
    (0.2, lambda rng, p: replace(p, splitk_factor=rng.randint(2, 6))),
    (0.4, lambda rng, p: replace(p, cluster_dims=rng.choice(CLUSTERS))),
    (0.3, lambda rng, p: replace(p, cta_order=rng.choice(list(TileRasterizationOrder)))),
    (0.3, lambda rng, p: replace(p, grid_traversal_factor=(rng.randint(2, 9), 1))),
    (0.3, lambda rng, p: replace(
        p, circular_buffer_options=_stages(rng, p.circular_buffer_options))),
    (0.3, lambda rng, p: replace(p, wgmma_in_flight=rng.randint(0, 2))),
    (0.15, lambda rng, p: replace(p, programmatic_dependent_launch=False)),
    (0.1, lambda rng, p: replace(
        p, circular_buffering_strategy=CircularBufferingStrategy.Pipelined)),
    (0.15, lambda rng, p: replace(p, epilogue_input_stages=0)),
    (0.15, lambda rng, p: replace(p, use_smem_epilogue=False)),
    (0.15, lambda rng, p: replace(p, smem_swizzles=SmemSwizzles(
        rng.choice(list(MmaInputSmemSwizzle)), rng.choice(list(MmaInputSmemSwizzle))))),
    (0.2, lambda rng, p: replace(p, prefetched_steps=rng.randint(1, 8))),
    (0.3, lambda rng, p: replace(p, epilogue_columns=_chunk(rng, p.tile_sizes.warp_tile.n))),
    (0.3, lambda rng, p: replace(p, deferred_stores=True)),
)  # fmt: skip
"""How often a parameter is drawn anew, and how."""


def drawn_params(rng: random.Random, problem: Problem) -> MatmulParams:
    """A legal schedule for all problems like this one.

    Args:
        rng: draws.
        problem: one of them.
    """
    candidates: Sequence[tuple[float, MatmulParams]] = ranked(problem)
    wanted, in_parts = demands(problem), in_parts_at_all(problem)
    for _ in range(_TRIES):
        if in_parts and rng.random() < _STORED:
            params = _of_parts(rng, problem)
        else:
            _, params = rng.choice(candidates)
        for share, change in _CHANGES:
            if rng.random() < share:
                changed = change(rng, params)
                with suppress(ScheduleError, UnsupportedError):
                    require_legal_for(wanted, changed)
                    params = changed
        if problem.grouped:  # only the device knows how many tiles there are
            dynamic = TilingStrategy.DistributeTilesDynamically
            params = replace(params, tiling_strategy=dynamic, splitk_factor=1)
        with suppress(ScheduleError, UnsupportedError):
            require_legal_for(wanted, params)
            return params
    return candidates[0][1]


def _of_parts(rng: random.Random, problem: Problem) -> MatmulParams:
    """A candidate whose tile leaves room for results of fp32, with parts of K."""
    _, params = rng.choice(ranked(stored_in_parts(problem)))
    return replace(params, splitk_mode=SplitKMode.Parallel, splitk_factor=rng.randint(2, 6))
