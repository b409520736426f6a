"""The comparison with fp32 on the CPU; the rest where there is a GPU."""

from __future__ import annotations

from typing import Any

import pytest

from tests.bench.fakes import FakeSampler
from wsched.bench.gpu import CudaGpu, distance
from wsched.bench.measure import Plan, measure_shape
from wsched.bench.problem import LAYOUTS, Problem, Shape

torch = pytest.importorskip("torch")


def reference() -> Any:
    draw = torch.Generator().manual_seed(1)
    return torch.randn(256, 256, generator=draw) * 50


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.bfloat16, 4e-3), (torch.float16, 6e-4), (torch.float32, 1e-9)]
)
def test_rounding_passes(dtype: Any, tolerance: float) -> None:
    ref = reference()
    assert distance(ref.to(dtype), ref, tolerance).complaint(tolerance) == ""


def test_one_wrong_element_is_found() -> None:
    ref = reference()
    result = ref.to(torch.bfloat16)
    result[3, 5] += 2
    found = distance(result, ref, 4e-3)
    assert found.error < 4e-3
    assert found.outliers == 1


def test_an_element_that_was_not_written_is_found() -> None:
    ref = reference()
    result = ref.to(torch.bfloat16)
    result[0, 0] = float("nan")
    found = distance(result, ref, 4e-3)
    assert found.outliers == 1
    assert found.complaint(4e-3) == (
        "wrong result: relative error nan (limit 4e-03), 1 elements off"
    )


@pytest.mark.gpu
@pytest.mark.parametrize("layout", LAYOUTS)
def test_peers_are_right_in_every_layout(layout: str) -> None:
    problem = Problem(Shape(264, 520, 328), "bf16", layout)
    systems = dict.fromkeys(["cublas", "triton"])
    plan = Plan(rounds=2, replay_ms=1)
    result = measure_shape(CudaGpu(0), problem, systems, plan, FakeSampler(), lambda *_: None)
    told = {n: (r["status"], r["reason"]) for n, r in result["systems"].items()}
    assert told["cublas"] == ("ok", "")
    assert told["triton"][0] in ("ok", "skipped"), told
