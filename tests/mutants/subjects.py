"""The kernels that are broken, one and more of every family, and how to run them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from lowering.ground.expr import evaluate
from lowering.kernel.kernel import Kernel
from lowering.machine import RunResult, run_kernel
from tests.epilogues import RESIDUAL
from tests.legality.by_hand.loads import LOADS
from tests.legality.machine import NUMPY, compiled
from tests.on_machine import Problem, kernel
from tests.schedules import SCHEDULES, for_result
from wsched.front.known import import_fusion
from wsched.fusion import Fusion
from wsched.run.compiled import CompiledFusion, compile_fusion

__all__ = ["PROBLEMS", "SUBJECTS", "Subject", "subject"]

PROBLEMS = (Problem(128, 136, 64, 4), Problem(256, 256, 192, 2), Problem(72, 520, 320, 2))
"""One tile or less a CTA, several, ragged edges; 1, 3 and 5 steps of 64 a tile."""

_PLAIN = (
    "coop_2_stages", "coop_in_flight_2", "coop_1_stage", "across_2x2", "tile_per_cta",
    "cluster_2x1", "cluster_2x2", "pingpong_64x128", "cluster_pingpong", "pipelined_1_group",
    "dynamic", "dynamic_cluster_pingpong", "exchanged", "split_2", "split_cluster", "stream_k",
    "stream_k_cluster",
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """A right kernel and the fusion that it is of."""

    name: str
    fusion: Fusion
    kernel: Kernel

    def run(self, broken: Kernel, p: Problem, **options: Any) -> tuple[dict[str, Any], RunResult]:
        """The results of a kernel in place of this one, NaN before the run, and what happened.

        Inputs are small integers, so that sums are exact in any order; ``options`` go to
        ``run_kernel``.
        """
        rng = np.random.default_rng(p.m + p.k)
        size = {"M": p.m, "N": p.n, "K": p.k}
        inputs = {
            b.tensor: rng.integers(-2, 3, [size[x] for x in b.axes]).astype(NUMPY[b.dtype])
            for b in self.fusion.inputs
        }
        results = {
            b.tensor: np.full([size[x] for x in b.axes], np.nan, NUMPY[b.dtype])
            for b in self.fusion.outputs
        }
        sms = max(p.sms, self.kernel.cluster)
        grid = evaluate(self.kernel.grid, size | {"sms": sms})
        return results, run_kernel(broken, inputs | results, size, grid, **options)


def _plain(name: str) -> CompiledFusion:
    return kernel(SCHEDULES[name])


def _residual(name: str) -> CompiledFusion:
    """A matrix that the epilogue adds, loaded by a warp of its own through two stages."""
    params = replace(for_result(SCHEDULES[name], "bf16", inputs=("bf16",)), epilogue_input_stages=2)
    return compile_fusion(import_fusion(RESIDUAL), params)


_RESIDUAL = {f"{name}-residual": name for name in ("coop_128x128", "pingpong_64x128")}
_BY_HAND = {make.__name__: make for make in LOADS}

SUBJECTS = (*_PLAIN, *_RESIDUAL, *_BY_HAND)
"""Plain matmuls by their schedule, with a matrix that the epilogue adds, and with operands that
threads load.
"""


@cache
def subject(name: str) -> Subject:
    """The kernel of that name, made once in a process."""
    if name in _BY_HAND:
        fusion = _BY_HAND[name]()
        return Subject(name, fusion, compiled(fusion))
    made = _residual(_RESIDUAL[name]) if name in _RESIDUAL else _plain(name)
    return Subject(name, made.fusion, made.kernel)
