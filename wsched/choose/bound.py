"""The least that candidates can cost, from their extents alone: what need not be made and priced.

Of the parts of :func:`wsched.choose.cost_model.cost` those that are known before stages, registers
and launch: steps of the CTA with most tiles that wait for nothing but tensor cores or copies, one
epilogue, the earlier launch, memory and the power limit.
"""

from __future__ import annotations

from collections.abc import Sequence

from wsched.choose import cost_model
from wsched.choose.copy_engine import fill_cycles, promotions
from wsched.choose.epilogue import ELEMENT
from wsched.choose.memory import least_bytes, moved_us
from wsched.choose.problem import Problem
from wsched.choose.step import CLUSTER_STEP, FILL_BYTES, FLOPS_PER_CYCLE, STEP, WGMMA
from wsched.choose.tiles import Tile, splits
from wsched.schedule.matmul.params import ClusterDims

__all__ = ["least_us"]

ROUNDING = 1 - 1e-9
"""What sums in another order may differ by."""


def least_us(problem: Problem, tried: Sequence[tuple[Tile, ClusterDims]]) -> list[float]:
    """Microseconds below which the model predicts no candidate of each tile in a cluster, however
    many parts K is in.
    """
    memory = moved_us(problem)
    energy = cost_model.energy_of(problem, least_bytes(problem))
    both = (problem, problem.exchanged)
    return [_least(both[tile.exchanged], tile, cluster, memory, energy) for tile, cluster in tried]


def _least(
    problem: Problem, tile: Tile, cluster: ClusterDims, memory: float, energy: float
) -> float:
    """The same of one, with microseconds and energy that moving everything once takes."""
    ctas = cluster.m * cluster.n
    across_m = -(-problem.tiles_m(tile.m) // cluster.m)
    across_n = -(-problem.tiles_n(tile.n) // cluster.n)
    clusters, steps = problem.batch * across_m * across_n, problem.steps(tile.k)
    at_once = cost_model.places(problem.sms, ctas)
    step, ends = _cycles(problem, tile, cluster)

    def us(steps: int, combine: float) -> float:
        alone = (steps * step + ends) / (cost_model.GHZ * 1e3)
        longer = cost_model.slowed(alone, memory, energy)
        return cost_model.joined(alone * longer, memory) + combine

    found = us(-(-clusters // at_once) * steps, 0.0)
    for parts in splits(clusters, at_once, steps):
        combine = cost_model.combine_us(tile.m * tile.n, parts)
        found = min(found, us(-(-steps // parts), combine))
    return ROUNDING * (min(cost_model.LAUNCH_US.values()) + found)


def _cycles(problem: Problem, tile: Tile, cluster: ClusterDims) -> tuple[float, float]:
    """Least cycles of a step, and of what comes once: start and an epilogue."""
    wide = tile.k * problem.operand.bytes // 2
    flops, instructions = 2 * tile.m * tile.n * wide, tile.m // 64 * wide // 16
    wgmma = max(flops / FLOPS_PER_CYCLE, instructions * WGMMA)
    busy = problem.products * wgmma + STEP
    rate = max(FILL_BYTES.values())
    fill = fill_cycles(problem, tile, cluster, promotions(problem), rate)
    bytes_ = sum(r.bytes for r in problem.results) / 2
    groups = 1 if tile.ping_pong else tile.warpgroups
    ends = cost_model.START + ELEMENT * bytes_ * tile.m * tile.n / groups
    if cluster.m * cluster.n == 1:
        return max(busy, fill), ends
    return max(busy + CLUSTER_STEP, fill), ends + cost_model.CLUSTER_START
