"""What the method asks of CUDA, through torch: memory, graphs, events, energy."""

from __future__ import annotations

import importlib
from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lowering.ground.errors import UnsupportedError
from wsched.bench.method.clocks import EnergyCounter
from wsched.bench.method.measure import Accuracy, OutOfMemory
from wsched.bench.method.operands import Operands
from wsched.bench.peers.systems import Launch, Prepared, import_failure, prepare
from wsched.bench.problem import Problem

__all__ = ["CudaGpu", "elapsed_us", "end_without_gpu", "no_gpu_reason", "require_gpu"]


@dataclass(frozen=True, slots=True)
class _Graph:
    """A captured graph, and the tensors with the last result of each set."""

    graph: Any
    results: list[Any]


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
        return import_failure("torch", error)
    return "" if torch.cuda.is_available() else "torch.cuda finds no GPU"


def require_gpu(command: str) -> None:
    """Refuse to measure where there is no GPU.

    Raises:
        UnsupportedError: there is none, or no torch, beside the name of the command.
    """
    if reason := no_gpu_reason():
        raise UnsupportedError(f"{command} here ({reason})", "a CUDA GPU with torch")


def end_without_gpu(parser: ArgumentParser) -> None:
    """The same of a module that is run as a program: it ends with status 2."""
    try:
        require_gpu(parser.prog)
    except UnsupportedError as e:
        parser.exit(2, f"{e}\n")


def elapsed_us(way: Callable[[], object], calls: int = 1) -> float:
    """Microseconds of a call, from so many in a row between two events on the current stream."""
    cuda = importlib.import_module("torch").cuda
    begin, end = (cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(calls):
        way()
    end.record()
    end.synchronize()
    milliseconds: float = begin.elapsed_time(end)
    return milliseconds / calls * 1e3


class CudaGpu:
    """CUDA device 0 as :class:`wsched.bench.method.measure.Gpu`.

    Args:
        seed: of the operands.
    """

    def __init__(self, seed: int) -> None:
        self._torch = importlib.import_module("torch")
        self._torch.backends.cuda.matmul.allow_tf32 = False
        self._seed = seed
        self._properties = self._torch.cuda.get_device_properties(0)
        self._energy = EnergyCounter(self.uuid)
        self._operands: Operands | None = None

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
        """Return name, SMs, compute capability, L2 and memory bytes, and UUID."""
        p = self._properties
        return {
            "name": p.name,
            "sms": p.multi_processor_count,
            "compute_capability": f"{p.major}.{p.minor}",
            "l2_bytes": self.l2_bytes,
            "memory_bytes": p.total_memory,
            "uuid": self.uuid,
        }

    def allocate(self, problem: Problem, sets: int) -> None:
        """Draw the operands; raises ``OutOfMemory``."""
        self._operands, reason = None, ""
        self._torch.cuda.empty_cache()
        try:
            self._operands = self.draw(problem, sets)
        except self._torch.cuda.OutOfMemoryError as error:
            reason = str(error).partition("\n")[0]
        if reason:  # behind the handler, whose error keeps what was allocated
            self._torch.cuda.empty_cache()
            raise OutOfMemory(reason)

    def draw(self, problem: Problem, sets: int) -> Operands:
        """Draw what a problem's systems get."""
        return Operands(problem, sets, self._seed, "cuda")

    @property
    def operands(self) -> Operands:
        """What :meth:`allocate` drew."""
        assert self._operands is not None
        return self._operands

    def prepare(self, name: str, params: dict[str, Any] | None, problem: Problem) -> Prepared:
        """Compile a system for the operands of the last set."""
        a, b, _ = self.operands.sets[-1]
        return prepare(name, params, problem, a, b)

    def accuracy(self, launch: Launch) -> Accuracy:
        """Launch with the first and the last set."""
        return self.operands.launched(launch)

    def capture(self, launch: Launch, launches: int) -> _Graph:
        """Record launches that rotate among the sets; ``launches`` is a multiple of their number.

        The result of each set is kept until the set comes again: a system that allocates its
        results rotates among as many as the others.
        """
        graph, sets = self._torch.cuda.CUDAGraph(), self.operands.sets
        results: list[Any] = [None] * len(sets)
        with self._torch.cuda.graph(graph):
            for i in range(launches):
                results[i % len(sets)] = launch(*sets[i % len(sets)])
        return _Graph(graph, results)

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
        """Compare what a replay writes, wherever the graph writes it."""

        def replay() -> None:
            graph.graph.replay()
            self._torch.cuda.synchronize()

        return self.operands.replayed(graph.results, replay)

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
