"""CUDA: memory that does not suffice; the peers where there is a GPU."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import Any

import pytest

from tests.bench.fakes import FakeSampler
from wsched.bench import norms
from wsched.bench.method.gpu import CudaGpu, elapsed_us, no_gpu_reason
from wsched.bench.method.measure import OutOfMemory, Plan, measure_shape
from wsched.bench.method.operands import Operands
from wsched.bench.problem import DTYPES, LAYOUTS, Problem, Shape

torch = pytest.importorskip("torch")


def test_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # type: ignore[arg-type]
    assert no_gpu_reason() == "not installed: there is no module torch"


def test_a_program_without_torch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says so, as the commands do."""
    monkeypatch.setitem(sys.modules, "torch", None)  # type: ignore[arg-type]
    with pytest.raises(SystemExit, match="2"):
        norms.main([])
    told = "python -m wsched.bench.norms here (not installed: there is no module torch) is not "
    assert capsys.readouterr().err == f"{told}supported; supported: a CUDA GPU with torch\n"


def test_operands_that_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    freed: list[int] = []

    def full(*_: Any) -> None:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried 9 GiB.\nstack")

    monkeypatch.setattr("wsched.bench.method.gpu.Operands", full)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: freed.append(1))
    gpu = CudaGpu.__new__(CudaGpu)
    gpu._torch, gpu._seed, gpu._operands = torch, 0, None
    with pytest.raises(OutOfMemory) as error:
        gpu.allocate(Problem(Shape(8, 8, 8)), 2)
    assert str(error.value) == "CUDA out of memory. Tried 9 GiB."
    assert error.value.__context__ is None  # it would keep the frames, and so the tensors
    assert len(freed) == 2


@pytest.mark.parametrize("lost", [None, 0, 2, 3, 5])
def test_the_last_result_of_each_set_is_checked(
    lost: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Graph:
        """A graph on the CPU, of launches into results of their own, one of which is lost."""

        def __init__(self) -> None:
            self.calls: list[tuple[Any, Any, Any]] = []

        def replay(self) -> None:
            for i, (a, b, out) in enumerate(self.calls):
                if i != lost:
                    torch.matmul(a, b.t(), out=out)

    graph = Graph()

    def launch(a: Any, b: Any, d: Any) -> Any:
        graph.calls.append((a, b, torch.matmul(a, b.t())))  # right ones lie there already
        return graph.calls[-1][2]

    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: graph)
    monkeypatch.setattr(torch.cuda, "graph", nullcontext)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    problem = Problem(Shape(64, 96, 32))
    gpu = CudaGpu.__new__(CudaGpu)
    gpu._torch, gpu._operands = torch, Operands(problem, 3, 0, "cpu")
    found = gpu.accuracy_of_graph(gpu.capture(launch, 6))
    # Launches 0 to 2 are the first visits of the three sets; 3 and 5 the last of first and last.
    assert (found.complaint(problem.tolerance) == "") is (lost not in (3, 5))


def test_calls_between_two_events(monkeypatch: pytest.MonkeyPatch) -> None:
    did: list[str] = []

    class Event:
        """Notes what is asked of it; the time between two is 6 ms."""

        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            did.append("record")

        def synchronize(self) -> None:
            did.append("wait")

        def elapsed_time(self, _: Event) -> float:
            return 6.0

    monkeypatch.setattr(torch.cuda, "Event", Event)
    assert elapsed_us(lambda: did.append("call")) == 6000.0
    assert did == ["record", "call", "record", "wait"]
    assert elapsed_us(lambda: None, 3) == 2000.0


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
        assert status == "ok" or (status in ("skipped", "failed") and reason), told
