"""Modules and definitions on a GPU, and the ways to run them."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from wsched.bench.method.measure import OutOfMemory
from wsched.bench.models.asked import Asked
from wsched.bench.models.dot import to_dot
from wsched.bench.models.errors import largest_error
from wsched.bench.models.listed import Listed, read_listed
from wsched.bench.models.measure import (
    COMPILE,
    EAGER,
    FACTOR,
    NVFUSER,
    OWN,
    THUNDER,
    THUNDER_NVFUSER,
    TOLERANCE,
    Case,
    Way,
)
from wsched.bench.models.modules import Made, make
from wsched.bench.peers.systems import Skip, import_failure
from wsched.doors.dropin.patch import enabled, nvfusers_own
from wsched.doors.dropin.report import Report, report
from wsched.doors.fallback import interpret, rebuild, unknown_ops

__all__ = ["DefinitionCase", "ModuleCase", "TorchDevice", "told_of"]

_NVFUSER_OPTIONS = {"nv_enable_linear": True, "nv_enable_matmul": True}
"""Thunder leaves both to torch otherwise."""

_MATMULS = ("mm", "addmm", "bmm", "baddbmm")
"""Functions of ATen that ``linear`` and ``matmul`` become."""

_ELSEWHERE = "not handed to nvFuser"


class ModuleCase:
    """A module of :data:`~wsched.bench.models.modules.MODULES`.

    Args:
        made: the module with its input.
    """

    def __init__(self, made: Made) -> None:
        self._made, self._jitted = made, dict[str, Any]()
        wide = made.widened()
        self._wanted = wide.step(wide.module)()
        self._limit = FACTOR * self.error(made.step(made.module)())

    def way(self, name: str) -> Way:
        """See :class:`~wsched.bench.models.measure.Case`."""
        made = self._made
        if name == EAGER:
            return Way(made.step(made.module))
        if name == COMPILE:
            return Way(made.step(_compiled(made.module)))
        if name in (THUNDER, THUNDER_NVFUSER):
            return Way(made.step(self._by_thunder(name)))
        if name == OWN:
            return Way(made.step(self._by_thunder(THUNDER_NVFUSER)), enabled)
        raise Skip("a module is no definition")

    def _by_thunder(self, name: str) -> Any:
        """What thunder makes, once: its definitions are the same with wsched and without."""
        if name not in self._jitted:
            options = {} if name == THUNDER else _NVFUSER_OPTIONS
            self._jitted[name] = _module("thunder").jit(self._made.module, **options)
        return self._jitted[name]

    def error(self, results: Sequence[Any]) -> float:
        """Against the module in fp32."""
        return largest_error(results, self._wanted)

    def limit(self) -> float:
        """Relative to the error of the eager mode."""
        return self._limit

    def told(self, way: Way) -> dict[str, Any]:
        """Beside what thunder leaves to torch, which the eager mode counts."""
        step = self._made.step(self._made.module)
        return told_of(_reported(way), _flops(step))


class DefinitionCase:
    """A definition of a file.

    Args:
        found: the file.
        inputs: of a call.
    """

    def __init__(self, found: Listed, inputs: Sequence[Any]) -> None:
        self._definition, self._inputs = found.definition, inputs
        self._wanted: Sequence[Any] | None = None

    def way(self, name: str) -> Way:
        """See :class:`~wsched.bench.models.measure.Case`."""
        definition, inputs = self._definition, self._inputs
        if name == EAGER:
            if unknown := unknown_ops(definition):
                raise Skip(f"torch has no fd.ops.{unknown[0]}")
            return Way(lambda: interpret(definition, inputs))
        if name not in (NVFUSER, OWN):
            raise Skip("a definition is no module")
        fd: Any = rebuild(definition)
        if name == OWN:
            return Way(lambda: fd.execute(inputs), enabled)
        own = nvfusers_own(type(fd))
        return Way(lambda: own(fd, inputs))

    def error(self, results: Sequence[Any]) -> float:
        """Against the first way that is compared, torch's eager mode if it takes part."""
        if self._wanted is None:
            self._wanted = list(results)
        return largest_error(results, self._wanted)

    def limit(self) -> float:
        """See :data:`~wsched.bench.models.measure.TOLERANCE`."""
        return TOLERANCE

    def told(self, way: Way) -> dict[str, Any]:
        """Of the definition's own matmuls."""
        return told_of(_reported(way), None)


class TorchDevice:
    """CUDA device 0, by torch."""

    def __init__(self) -> None:
        self._torch = importlib.import_module("torch")

    def case(self, asked: Asked, seed: int) -> Case:
        """See :class:`~wsched.bench.models.measure.Device`."""
        self._torch.cuda.empty_cache()
        try:
            if asked.path:
                found = read_listed(Path(asked.path))
                return DefinitionCase(found, found.inputs("cuda", seed))
            return ModuleCase(make(asked.name, asked.tokens, "cuda", seed))
        except self._torch.OutOfMemoryError as error:
            raise OutOfMemory(str(error)) from error

    def synchronize(self) -> object:
        """Wait until the GPU is idle."""
        return self._torch.cuda.synchronize()

    def graph(self, way: Way) -> Callable[[], object]:
        """Capture one call, behind others on the stream of the capture."""
        cuda = self._torch.cuda
        stream, graph = cuda.Stream(), cuda.CUDAGraph()
        stream.wait_stream(cuda.current_stream())
        with way.around():
            with cuda.stream(stream):
                for _ in range(2):
                    way.call()
            cuda.current_stream().wait_stream(stream)
            with cuda.graph(graph, stream=stream):
                kept = way.call()

        def replay(results: object = kept) -> None:
            graph.replay()

        return replay

    def alive(self) -> bool:
        """Whether the context survived."""
        try:
            self._torch.cuda.synchronize()
        except RuntimeError:
            return False
        return True


def told_of(found: Report, flops: int | None) -> dict[str, Any]:
    """What :meth:`~wsched.bench.models.measure.Case.told` says, of a report of one call.

    Args:
        found: the report.
        flops: of all matmuls; None if the report has them all.
    """
    own, reported, lost = 0, 0, Counter[str]()
    for line in found.lines:
        for share in line.shares:
            amount = share.flops * line.calls
            reported += amount
            if share.reason:
                lost[share.reason] += amount
            else:
                own += amount
    if flops is not None and flops > reported:
        lost[_ELSEWHERE] += flops - reported
    cuts = [(t.name, to_dot(t.name, t.segments)) for t in found.lines if t.segments]
    return {
        "flops": max(reported, flops or 0),
        "own": own,
        "reasons": dict(lost.most_common()),
        "calls": found.calls,
        "taken": found.taken,
        "cuts": [{"name": name, "dot": dot} for name, dot in cuts],
    }


def _reported(way: Way) -> Report:
    """The report of one call."""
    with way.around():
        report(clear=True)
        way.call()
        return report()


def _flops(step: Callable[[], object]) -> int:
    """Operations of the matmuls of a step, as torch counts them."""
    counter = importlib.import_module("torch.utils.flop_counter").FlopCounterMode(display=False)
    with counter:
        step()
    counts = counter.get_flop_counts().get("Global", {})
    return sum(n for op, n in counts.items() if str(op).rpartition(".")[2] in _MATMULS)


def _compiled(module: Any) -> Any:
    """What torch.compile makes; what it made of others is dropped."""
    _module("triton")
    importlib.import_module("torch._dynamo").reset()
    torch = importlib.import_module("torch")
    return torch.compile(module, mode="max-autotune-no-cudagraphs", dynamic=False)


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Skip(import_failure(name, error)) from error
