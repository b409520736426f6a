"""Tensors with fewer rows than a box: right on the machine, where unwritten rows are NaNs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import passes.pipeline as pipeline
from lowering.kernel.kernel import Kernel
from lowering.machine import run_kernel
from lowering.machine.adversary import Adversary
from lowering.target.hopper import HOPPER
from passes.options import LoweringOptions
from tests.epilogues import RESIDUAL
from tests.frames import direct
from tests.on_machine import NUMPY, Problem, exact, kernel, operands, run
from tests.run import test_epilogue_inputs as residual
from tests.schedules import LAYOUTS, SCHEDULES, cooperative, for_result
from tests.tiers import dealt
from wsched.run.compiled import CompiledFusion

ROWS = (1, 5, 16, 63, 64, 65)
KINDS = {
    name: SCHEDULES[name]
    for name in (
        "coop_128x256", "coop_k128", "coop_narrow", "coop_1_group", "coop_256x128", "tile_per_cta",
        "cluster_2x1", "cluster_1x2", "cluster_2x2", "cluster_pingpong", "pipelined",
        "pingpong_64x256", "pingpong_128x128",
    )
} | {"cluster_2x1_slices_of_k": cooperative(128, 192, stages=3, cluster=(2, 1))}  # fmt: skip
ORDERS: tuple[Adversary, ...] = ("eager", "lazy", "random")


def check(compiled: CompiledFusion, m: int, n: int, k: int, order: Adversary) -> None:
    ctas = compiled.params.cluster_dims.m * compiled.params.cluster_dims.n
    problem = Problem(m, n, k, 2 * ctas)
    a, b = operands(problem, "bf16", m + n, integer=True)
    d = run(compiled, problem, a, b, "bf16", adversary=order)
    assert np.array_equal(d, exact(a, b).astype(NUMPY["bf16"])), (problem, order)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_few_rows_of_either_operand(name: str) -> None:
    """Results from registers, which may have any number of columns; one k step and several."""
    compiled = kernel(direct(KINDS[name]))
    assert {m.name: m.clipped for m in compiled.kernel.tensor_maps} == {"T0": True, "T1": True}
    for i, rows in enumerate(ROWS):
        check(compiled, rows, 72, 72, ORDERS[i % 3])
        check(compiled, 72, rows, 200, ORDERS[(i + 1) % 3])
        check(compiled, rows, rows, 8, ORDERS[(i + 2) % 3])


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("name", "layout"), dealt([n for n in KINDS if n != "coop_narrow"], list(LAYOUTS))
)
def test_few_rows_in_every_layout(name: str, layout: str) -> None:
    """Results by TMA; of an MN-major operand the rows are K, which is short here, too. N = 24
    cannot be N-major.
    """
    compiled = kernel(KINDS[name], layout=layout)
    maps = {m.name: m.clipped for m in compiled.kernel.tensor_maps}
    assert maps == {"T0": layout[0] == "t", "T1": layout[1] == "n"} | dict.fromkeys(
        maps.keys() - {"T0", "T1"}, False
    )
    for i, (m, n, k) in enumerate(((8, 72, 8), (72, 16, 24), (16, 8, 136), (64, 72, 72))):
        check(compiled, m, n, k, ORDERS[i % 3])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["coop_128x256", "cluster_2x1", "pingpong_64x128"])
def test_few_rows_of_a_matrix_that_the_epilogue_reads(name: str) -> None:
    compiled = residual.kernel(RESIDUAL, name)
    loaded = [m.name for m in compiled.kernel.tensor_maps if m.clipped]
    assert loaded == [x.tensor for x in compiled.fusion.inputs]
    ctas = compiled.params.cluster_dims.m * compiled.params.cluster_dims.n
    for m in ROWS:
        for order in ORDERS:
            d, (a, b, r) = residual.run(compiled, Problem(m, 72, 72, ctas), adversary=order)
            wanted = (a @ b.T + r).astype(NUMPY["bf16"]).astype(np.float32)
            assert np.array_equal(d, wanted), (m, order)


def test_less_is_loaded() -> None:
    """16 rows in place of 128, and all of B: bytes of one tile, one k step."""
    compiled = kernel(SCHEDULES["coop_128x128"])
    shapes = {"T0": (16, 64), "T1": (128, 64), "T5": (16, 128)}
    tensors: dict[str, Any] = {n: np.zeros(s, NUMPY["bf16"]) for n, s in shapes.items()}
    found = run_kernel(compiled.kernel, tensors, {"M": 16, "N": 128, "K": 64}, 1)
    assert found.counts["load bytes"] == (16 + 128) * 64 * 2


def clip_all(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """What ``clip_boxes`` must not do."""
    return kernel.redeclare(*(replace(m, clipped=True) for m in kernel.tensor_maps))


def test_clipped_rows_of_k_would_be_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    params = for_result(SCHEDULES["coop_128x64"], "bf16")
    passes = tuple(clip_all if p.__name__ == "clip_boxes" else p for p in pipeline.PASSES)
    monkeypatch.setitem(pipeline.PIPELINES, HOPPER.arch, passes)
    problem = Problem(64, 64, 24, 1)
    a, b = operands(problem, "bf16", 0, integer=True)
    right = run(kernel(params), problem, a, b, "bf16")
    assert np.array_equal(right, exact(a, b).astype(NUMPY["bf16"]))
    wrong = run(kernel(params, layout="nn"), problem, a, b, "bf16")
    assert np.isnan(wrong.astype(np.float32)).all()
