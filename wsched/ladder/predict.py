"""What the machine with a clock says of a rung: cycles of a tile, and from that a rate.

One SM is run, with as many CTAs as it holds, for two short K: what a tile takes is linear in K. The
clock is what power leaves of it, as the heuristic's cost model has it. L2 and memory are not looked
at: what is predicted is what SMs do that get each byte as soon as an idle GPU has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from lowering.ground.expr import evaluate
from lowering.machine.run import RunResult, run_kernel
from wsched.choose.cost_model import FLOP_ENERGY, GHZ, START, slowed
from wsched.choose.gpus import H200_SMS
from wsched.ladder.decisions import TILE, Decisions, Grid
from wsched.predict.activity import Lane, lanes
from wsched.predict.costs_in_tensor_memory import costs_of
from wsched.predict.world import resident
from wsched.run.compiled import CompiledFusion

__all__ = ["Prediction", "Shown", "predict", "shown"]

DEPTHS = (512, 1024)
"""K of the two runs."""

SHOWN_K = 512
"""K of the time lines."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a rung is said to do.

    Args:
        start: cycles of a round of tiles beside its k loops.
        slice: cycles of 64 of K in a round.
        tiles: tiles of a round on one SM, of so many CTAs that are there together.
    """

    start: float
    slice: float
    tiles: int

    def us(self, decided: Decisions, m: int, n: int, k: int, sms: int = H200_SMS) -> float:
        """Microseconds of a problem on a GPU of so many SMs."""
        tiles = ceil(m / (decided.rows * decided.cluster)) * decided.cluster * ceil(n / TILE)
        places = 1 if decided.grid is Grid.ONE_CTA else sms * self.tiles
        cycles = START + ceil(tiles / places) * (self.start + self.slice * k / 64)
        us = cycles / GHZ / 1e3
        longer: float = slowed(us, 0.0, FLOP_ENERGY * m * n * k)
        return us * longer


@dataclass(frozen=True, slots=True)
class Shown:
    """A short run: what each warpgroup of a CTA does, and when all is over, in cycles."""

    lanes: tuple[Lane, ...]
    cycles: float


def predict(kernel: CompiledFusion, decided: Decisions) -> Prediction:
    """Run a rung's kernel on the machine with a clock.

    Args:
        kernel: of the rung.
        decided: what the rung decides.
    """
    each = decided.grid is Grid.A_CTA_EACH
    together = resident(kernel) if each else 1
    short, long = (_round(kernel, decided, k, together) for k in DEPTHS)
    each_slice = (long - short) / (DEPTHS[1] - DEPTHS[0]) * 64
    return Prediction(short - each_slice * DEPTHS[0] / 64, each_slice, together)


def shown(kernel: CompiledFusion, decided: Decisions) -> Shown:
    """A run whose time line is looked at: two tiles one after the other, or two CTAs beside each
    other, of :data:`SHOWN_K`.
    """
    each = decided.grid is Grid.A_CTA_EACH
    found = _run(kernel, decided, 2, SHOWN_K, 2 if each else 1)
    return Shown(lanes(found.stretches), found.cycles)


def _round(kernel: CompiledFusion, decided: Decisions, k: int, together: int) -> float:
    """Cycles of a round: where CTAs have one tile all of it, else from one tile to the next."""
    if decided.grid is Grid.A_CTA_EACH:
        return _run(kernel, decided, together, k, together).cycles
    return _run(kernel, decided, 3, k, 1).cycles - _run(kernel, decided, 2, k, 1).cycles


def _run(
    kernel: CompiledFusion, decided: Decisions, tiles: int, k: int, together: int
) -> RunResult:
    """Zeros times zeros on one SM, or on those of one cluster: so many tiles beside each other."""
    m, n = decided.rows * decided.cluster, TILE * tiles
    extents = {"M": m, "N": n, "K": k}
    sizes = ((m, k), (n, k), (m, n))
    names = [b.tensor for b in (*kernel.fusion.inputs, *kernel.fusion.outputs)]
    arrays = {t: np.zeros(s, np.uint16) for t, s in zip(names, sizes, strict=True)}
    grid = evaluate(kernel.kernel.grid, {**extents, "sms": decided.cluster})
    return run_kernel(
        kernel.kernel, arrays, extents, grid,
        adversary=costs_of(kernel.kernel), first_only=True, resident=together,
    )  # fmt: skip
