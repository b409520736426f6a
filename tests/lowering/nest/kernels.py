"""The kernels that the tests of the lowering look at, one for each class of schedule."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from lowering.kernel.kernel import Kernel
from lowering.nest.lower import lower
from passes.options import LoweringOptions
from passes.pipeline import Step, steps
from tests.schedule.fusions import linear
from tests.schedules import cooperative, ping_pong
from wsched.schedule import CircularBufferingStrategy, MatmulParams, plan_matmul

SMALL: dict[str, MatmulParams] = {
    "cooperative": cooperative(128, 128, stages=3),
    "ping_pong": ping_pong(64, 128, stages=3),
    "side_by_side": cooperative(64, 256, stages=3, across=2),
    "non_persistent": cooperative(128, 128, stages=3, persistent=False),
    "pipelined": replace(
        cooperative(128, 128, stages=3, registers=None),
        circular_buffering_strategy=CircularBufferingStrategy.Pipelined,
    ),
}
CLUSTER_2X1 = "cluster_2x1"
"""Its CTAs share B: each loads half of it for both."""
_ALL = SMALL | {CLUSTER_2X1: cooperative(128, 128, stages=3, cluster=(2, 1))}
WARP_SPECIALIZED = tuple(name for name, params in SMALL.items() if params.warp_specialized)


def schedule(name: str) -> MatmulParams:
    """The parameters of a schedule."""
    return _ALL[name]


@lru_cache
def tile_level(name: str) -> Kernel:
    """The kernel of a schedule before the first pass."""
    return lower(plan_matmul(linear(), schedule(name)), name)


@lru_cache
def lowered(name: str) -> tuple[Step, ...]:
    """The kernel of a schedule before the first pass and after each."""
    return tuple(steps(tile_level(name), LoweringOptions()))


def final(name: str) -> Kernel:
    """The kernel of a schedule after all passes."""
    return lowered(name)[-1].kernel
