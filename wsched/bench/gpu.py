"""What the method asks of CUDA, through torch: buffers, graphs, events, distance from fp32."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from wsched.bench.clocks import EnergyCounter
from wsched.bench.measure import Accuracy
from wsched.bench.problem import Problem
from wsched.bench.systems import Launch, Prepared, prepare

__all__ = ["CudaGpu", "distance", "no_gpu_reason", "versions"]

_PACKAGES = (
    "torch",
    "triton",
    "nvfuser-cu128-torch210",
    "nvfuser-cu130-torch210",
    "nvidia-cutlass-dsl",
    "cuda-bindings",
    "nvidia-cublas",
    "nvidia-cublas-cu12",
    "wsched",
)


@dataclass(frozen=True, slots=True)
class _Graph:
    """A captured graph and the tensor with its last result."""

    graph: Any
    result: Any


@dataclass(frozen=True, slots=True)
class _Replay:
    """The events around a replay."""

    start: Any
    end: Any


def no_gpu_reason() -> str:
    """Return why there is nothing to measure here, empty if there is."""
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        return f"torch is not installed: {error}"
    return "" if torch.cuda.is_available() else "torch.cuda finds no GPU"


def versions() -> dict[str, str]:
    """Return the versions of what is compared, as far as it is installed."""
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


class CudaGpu:
    """CUDA device 0 as :class:`wsched.bench.measure.Gpu`.

    Args:
        seed: of the operands.
    """

    def __init__(self, seed: int) -> None:
        self._torch = importlib.import_module("torch")
        self._torch.backends.cuda.matmul.allow_tf32 = False
        self._seed = seed
        self._properties = self._torch.cuda.get_device_properties(0)
        self._energy = EnergyCounter(self.uuid)
        self._sets: list[tuple[Any, Any, Any]] = []
        self._reference: Any = None
        self._tolerance = 0.0

    @property
    def uuid(self) -> str:
        """The device's UUID as NVML writes it, which CUDA_VISIBLE_DEVICES does not renumber."""
        uuid = str(self._properties.uuid)
        return uuid if uuid.startswith("GPU-") else f"GPU-{uuid}"

    @property
    def l2_bytes(self) -> int:
        """Size of the L2 cache."""
        return int(self._properties.L2_cache_size)

    def describe(self) -> dict[str, Any]:
        """Return name, SMs, L2 and memory bytes, CUDA version and UUID."""
        p = self._properties
        return {
            "name": p.name,
            "sms": p.multi_processor_count,
            "l2_bytes": self.l2_bytes,
            "memory_bytes": p.total_memory,
            "cuda": self._torch.version.cuda,
            "uuid": self.uuid,
        }

    def allocate(self, problem: Problem, sets: int) -> None:
        """Draw the operands from a normal distribution, in the problem's layout."""
        torch, shape = self._torch, problem.shape
        self._sets, self._reference, self._tolerance = [], None, problem.tolerance
        torch.cuda.empty_cache()
        dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}[problem.dtype]
        draw = torch.Generator(device="cuda").manual_seed(self._seed)

        def operand(rows: int, k_major: bool) -> Any:
            size = (rows, shape.k) if k_major else (shape.k, rows)
            drawn = torch.randn(size, device="cuda", dtype=dtype, generator=draw)
            return drawn if k_major else drawn.t()

        for _ in range(sets):
            a, b = operand(shape.m, problem.a_k_major), operand(shape.n, problem.b_k_major)
            d = torch.full((shape.m, shape.n), float("nan"), device="cuda", dtype=dtype)
            self._sets.append((a, b, d))

    def prepare(self, name: str, params: dict[str, Any] | None, problem: Problem) -> Prepared:
        """Compile a system for the operands of the last set; raises ``Skip``."""
        a, b, _ = self._sets[-1]
        return prepare(name, params, problem, a, b)

    def accuracy(self, launch: Launch) -> Accuracy:
        """Launch once with the last set."""
        self._poison()
        result = launch(*self._sets[-1])
        self._torch.cuda.synchronize()
        return self._compare(result)

    def capture(self, launch: Launch, launches: int) -> _Graph:
        """Record launches that rotate among the sets.

        ``launches`` is a multiple of the number of sets, so the last result is the last set's.
        """
        graph = self._torch.cuda.CUDAGraph()
        result = None
        with self._torch.cuda.graph(graph):
            for i in range(launches):
                result = launch(*self._sets[i % len(self._sets)])
        return _Graph(graph, result)

    def replay(self, graph: _Graph) -> _Replay:
        """Queue a graph on the current stream."""
        event = self._torch.cuda.Event
        replay = _Replay(event(enable_timing=True), event(enable_timing=True))
        replay.start.record()
        graph.graph.replay()
        replay.end.record()
        return replay

    def wait(self, replay: _Replay) -> float:
        """Wait for the end of a replay; microseconds since its start."""
        replay.end.synchronize()
        return float(replay.start.elapsed_time(replay.end)) * 1e3

    def accuracy_of_graph(self, graph: _Graph) -> Accuracy:
        """Poison every D, and the result of a system that allocates its own; replay; compare."""
        self._poison()
        graph.result.fill_(float("nan"))
        graph.graph.replay()
        self._torch.cuda.synchronize()
        return self._compare(graph.result)

    def alive(self) -> bool:
        """Whether the context survived: CUDA errors such as an illegal address are final."""
        try:
            self._torch.cuda.synchronize()
        except RuntimeError:
            return False
        return True

    def joules(self) -> float | None:
        """Energy since the driver was loaded."""
        return self._energy.joules()

    def _poison(self) -> None:
        for _, _, d in self._sets:
            d.fill_(float("nan"))

    def _compare(self, result: Any) -> Accuracy:
        """Against fp32 operands and accumulation, tf32 off."""
        if self._reference is None:
            a, b, _ = self._sets[-1]
            self._reference = a.float() @ b.float().t()
        return distance(result, self._reference, self._tolerance)


def distance(result: Any, reference: Any, tolerance: float) -> Accuracy:
    """Return how far a tensor is from its fp32 reference; see :class:`Accuracy`."""
    norm = importlib.import_module("torch").linalg.vector_norm
    scale = norm(reference)
    rms = scale / reference.numel() ** 0.5
    off = (result.float() - reference).abs_()
    # Not "off > bound": a NaN has to count.
    near = off <= tolerance * (reference.abs() + rms)
    return Accuracy(float(norm(off) / scale), reference.numel() - int(near.sum()))
