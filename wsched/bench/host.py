"""Microseconds that a call takes on the host: ``python -m wsched.bench.host``.

A burst of calls is timed between two synchronizations, few enough that the driver's queue does not
fill, on a problem so small that the GPU keeps up. The paths take turns; told are the median and the
least of the rounds. With ``--fake-driver`` the driver's function is one that does nothing and the
tensors are on the CPU, which shows what Python takes, without a GPU.
"""

from __future__ import annotations

import argparse
import ctypes
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from statistics import median
from time import perf_counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from lowering.cuda.launch import LoadedKernel, PreparedLaunch
from lowering.cuda.launch_maps import Descriptors
from lowering.cuda.launch_packing import Packing
from lowering.cuda.tensormap import MAP_BYTES
from lowering.ground.errors import UnsupportedError, WschedError
from lowering.kernel.kernel import Kernel
from wsched.front import api, kernels
from wsched.front.sizes import Extents
from wsched.importer.linear import LINEAR
from wsched.run.compiled import CompiledFusion

if TYPE_CHECKING:
    import torch

__all__ = ["LIMITS", "Times", "fake_kernel", "main", "measure", "paths", "report"]

LIMITS = {"bind": 4.0, "bind of six": 6.0, "call": 12.0, "execute": 25.0}
"""Microseconds that each path may take on the host of an H200."""

SIX = """\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    tv0 = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    tv1 = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    tv2 = fd.define_tensor(shape=[-1], contiguity=[True], dtype=DataType.BFloat16)
    tv3 = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    tv4 = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    tv5 = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    tv6 = fd.ops.linear(tv0, tv1, tv2)
    tv7 = fd.ops.add(fd.ops.mul(tv6, tv3), fd.ops.mul(tv4, tv5))
    tv8 = fd.ops.cast(tv7, dtype=DataType.BFloat16)
    fd.add_output(tv8)
"""
"""A linear with six inputs: a bias, and three matrices of the epilogue."""

EXTENTS = Extents(256, 256, 64)

_CALLS, _ROUNDS = 200, 50
"""Calls of a burst (the driver queues about a thousand launches), and bursts of each path."""


@dataclass(frozen=True, slots=True)
class Times:
    """Microseconds per call: median and least of the rounds."""

    median: float
    least: float


def measure(
    timed: Mapping[str, Callable[[], object]],
    synchronize: Callable[[], object],
    calls: int = _CALLS,
    rounds: int = _ROUNDS,
    clock: Callable[[], float] = perf_counter,
) -> dict[str, Times]:
    """Time each path in turn, ``rounds`` times; a round before them is not counted.

    Args:
        timed: path -> one call of it.
        synchronize: waits until the GPU is idle.
        calls: of a burst.
        rounds: that count.
        clock: seconds.
    """
    seen: dict[str, list[float]] = {name: [] for name in timed}
    for number in range(rounds + 1):
        for name, call in timed.items():
            synchronize()
            begin = clock()
            for _ in range(calls):
                call()
            seconds = clock() - begin
            if number:
                seen[name].append(seconds / calls * 1e6)
    return {name: Times(median(us), min(us)) for name, us in seen.items()}


def paths(
    kernel: CompiledFusion,
    definition: Any,
    inputs: Sequence[torch.Tensor],
    six: CompiledFusion,
    of_six: Sequence[torch.Tensor],
) -> dict[str, Callable[[], object]]:
    """The three ways to call a kernel, the first also of one with six inputs, and
    ``torch.nn.functional.linear`` beside them.
    """
    from torch.nn.functional import linear

    a, b = inputs
    (d,) = kernel(a, b)
    return {
        "bind": kernel.bind(a, b, out=d),
        "bind of six": six.bind(*of_six),
        "call": lambda: kernel(a, b),
        "execute": lambda: api.execute(definition, inputs),
        "torch linear": lambda: linear(a, b),
    }


def report(times: Mapping[str, Times], where: str, *, limits: bool) -> str:
    """A line for each path; with ``limits`` also what it may take."""
    lines = [f"host cost of a call on {where}, us: median (least)"]
    for name, t in times.items():
        allowed = f"  limit {LIMITS[name]:.0f}" if limits and name in LIMITS else ""
        lines.append(f"  {name:13}{t.median:7.2f} ({t.least:.2f}){allowed}")
    return "\n".join(lines)


# --- a driver that does nothing -------------------------------------------------------------------


class _FakeDescriptors(Descriptors):
    """Remembers as the real ones do; none is encoded."""

    def encode(self, index: int, tensor: torch.Tensor) -> tuple[bytes, int]:
        """Zeros, on device 0."""
        return bytes(MAP_BYTES), 0


class _OnGpu:
    """A tensor of the CPU that says that it is on device 0."""

    is_cuda = True
    device = SimpleNamespace(type="cuda", index=0)

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tensor, name)


class _FakeLoaded(LoadedKernel):
    """Packs as the real one does; what it submits to returns success at once."""

    def __init__(self, kernel: Kernel) -> None:
        # Device 0 and its stream 0, from builtins: torch's functions are in C, too.
        compiled = SimpleNamespace(_cuda_getDevice=int, _cuda_getCurrentRawStream=abs)
        cuda = SimpleNamespace(current_device=int)
        self.kernel, self._follows = kernel, False
        self._torch = SimpleNamespace(_C=compiled, cuda=cuda)
        # Takes no arguments, makes no system call, and returns 0, the default rounding mode.
        self._submit = ctypes.CDLL("libm.so.6").fegetround
        self._handle = 1
        self._packing = Packing(kernel, _FakeDescriptors(None, kernel, None))

    def prepare(
        self, tensors: Mapping[str, Any], params: Mapping[str, int], grid: int
    ) -> PreparedLaunch:
        """As the real one does, which looks at where tensors are that threads read."""
        names = [e.name for array in self.kernel.globals for e in array.entries]
        there = {name: _OnGpu(tensors[name]) for name in names}
        return super().prepare({**tensors, **there} if there else tensors, params, grid)

    def prepare_device(self, device: int) -> None:
        """There is none."""

    def resident_ctas(self, device: int) -> int:
        """As many as an H200 has."""
        return 132


class _FakeCompiled(CompiledFusion):
    """A kernel whose CPU tensors take the way that CUDA tensors take."""

    def simulates(self, device: torch.device) -> bool:
        """Never."""
        return False

    def _load(self, device: torch.device) -> None:
        """There is nothing to compile for."""


def fake_kernel(definition: str, inputs: Sequence[torch.Tensor]) -> CompiledFusion:
    """The kernel of a definition with a driver that does nothing.

    It takes the real one's place in this process, so that ``wsched.execute`` finds it.
    """
    real = api.compile(definition, inputs)
    faked = _FakeCompiled(**{f.name: getattr(real, f.name) for f in fields(real)})
    faked.__dict__["loaded"] = _FakeLoaded(real.kernel)
    kernels.adopt(definition, inputs, faked)
    return faked


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; the exit status is 1 where a path takes longer than it may."""
    parser = argparse.ArgumentParser(prog="python -m wsched.bench.host", description=__doc__)
    parser.add_argument("--fake-driver", action="store_true", help="without a GPU")
    parser.add_argument("--calls", type=int, default=_CALLS, help="of a burst")
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help="bursts of each path")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    try:
        times, where = _run(options.fake_driver, options.calls, options.rounds)
    except WschedError as e:
        parser.exit(2, f"{e}\n")
    if options.json:
        print(
            json.dumps({"device": where, "us": {n: [t.median, t.least] for n, t in times.items()}})
        )
    else:
        print(report(times, where, limits=not options.fake_driver))
    slow = any(times[n].median > limit for n, limit in LIMITS.items())
    return int(slow and not options.fake_driver)


def _run(fake: bool, calls: int, rounds: int) -> tuple[dict[str, Times], str]:
    """Times of the paths, and where they were measured."""
    import torch

    if not fake and not torch.cuda.is_available():
        raise UnsupportedError(
            "measuring the host cost without a GPU", "a CUDA device", "--fake-driver needs none"
        )
    m, n, k = EXTENTS.m, EXTENTS.n, EXTENTS.k
    shapes = (m, k), (n, k), (n,), (m, n), (m, n), (m, n)
    device = "cpu" if fake else "cuda"
    of_six = [torch.zeros(s, dtype=torch.bfloat16, device=device) for s in shapes]
    inputs = of_six[:2]
    make = fake_kernel if fake else api.compile
    synchronize: Callable[[], object] = (lambda: None) if fake else torch.cuda.synchronize
    timed = paths(make(LINEAR, inputs), LINEAR, inputs, make(SIX, of_six), of_six)
    if fake:
        del timed["torch linear"]  # which would compute
    where = "a driver that does nothing" if fake else torch.cuda.get_device_name()
    return measure(timed, synchronize, calls, rounds), where


if __name__ == "__main__":
    raise SystemExit(main())
