"""CUDA: memory that does not suffice; the peers where there is a GPU."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.bench.fakes import FakeSampler
from wsched.bench.gpu import CudaGpu, no_gpu_reason
from wsched.bench.measure import OutOfMemory, Plan, measure_shape
from wsched.bench.problem import DTYPES, LAYOUTS, Problem, Shape

torch = pytest.importorskip("torch")


def test_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # type: ignore[arg-type]
    assert no_gpu_reason() == "not installed: there is no module torch"


def test_operands_that_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    freed: list[int] = []

    def full(*_: Any) -> None:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried 9 GiB.\nstack")

    monkeypatch.setattr("wsched.bench.gpu.Operands", full)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: freed.append(1))
    gpu = CudaGpu.__new__(CudaGpu)
    gpu._torch, gpu._seed, gpu._operands = torch, 0, None
    with pytest.raises(OutOfMemory) as error:
        gpu.allocate(Problem(Shape(8, 8, 8)), 2)
    assert str(error.value) == "CUDA out of memory. Tried 9 GiB."
    assert error.value.__context__ is None  # it would keep the frames, and so the tensors
    assert len(freed) == 2


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_peer_is_right_or_says_why_not(layout: str, dtype: str) -> None:
    problem = Problem(Shape(264, 520, 328), dtype, layout)
    systems = dict.fromkeys(["cublas", "wsched", "nvfuser", "triton", "cutlass"])
    plan = Plan(rounds=2, replay_ms=1)
    result = measure_shape(CudaGpu(0), problem, systems, plan, FakeSampler(), lambda *_: None)
    told = {n: (r["status"], r["reason"]) for n, r in result["systems"].items()}
    assert told["cublas"] == told["wsched"] == ("ok", "")
    for status, reason in told.values():
        assert status == "ok" or (status == "skipped" and reason), told
