"""Cycles of a multiprocessor from one point of a stream to another.

At the power limit a clock is what the kernels of the last second leave it: 1.31 to 1.55 GHz of an
H200 in one run, where what a kernel takes of cycles moved by 0.2 % and its time by 15
(design/performance.md, 2026-11-30). So cycles tell kernels apart that times do not, and beside what
tensor cores could do in as many cycles they say what is left to be had.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from lowering.cuda.driver import call, driver_api, primary
from lowering.cuda.nvrtc import compile_cubin
from lowering.ground.errors import UnsupportedError
from wsched.bench.method.statistic import in_turns
from wsched.choose.step import FLOPS_PER_CYCLE

__all__ = ["Counted", "CycleCounter", "counted", "cycles_of", "elapsed", "told"]

_CALLS, _ROUNDS = 4, 3
"""Of each way one behind the other, and how often ways take turns."""

_NAME = "cycles"

_MOST_SMS = 1024
"""More than ``%smid`` counts to on any GPU that there is."""

_TEXT = f"""extern "C" __global__ void {_NAME}(long long* read) {{
  unsigned sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  if (sm < {_MOST_SMS}u) read[sm] = clock64();
}}
"""
"""A multiprocessor's counter goes on counting from kernel to kernel."""


class CycleCounter:
    """Counts the cycles of what is launched on torch's current stream, on the current device.

    A kernel in front and one behind read the counters of the multiprocessors that they run on, and
    stand in the stream as any other does: what starts early behind another kernel waits for the
    first one, once. Count several calls at a time.

    Raises:
        UnsupportedError: no driver, or no NVRTC.
        InternalError: the driver refuses the kernel.
    """

    def __init__(self) -> None:
        import torch

        self._torch, self._driver = torch, driver_api()
        self._device = torch.cuda.current_device()
        properties = torch.cuda.get_device_properties(self._device)
        self.sms: int = properties.multi_processor_count
        arch = f"sm_{properties.major}{properties.minor}"
        cubin = compile_cubin(_TEXT, f"{_NAME}.cu", arch=arch).cubin
        with primary(self._driver, torch, self._device):
            library = self._call("cuLibraryLoadData", cubin, [], [], 0, [], [], 0)
            kernel = self._call("cuLibraryGetKernel", library, _NAME.encode())
            self._function = self._call("cuKernelGetFunction", kernel)

    def __call__(self, way: Callable[[], object], calls: int) -> float:
        """Cycles of a call on a multiprocessor, the median of all, from so many in a row.

        One more stands in front and is not counted: while it runs the host gets ahead.
        """
        way()
        first = self._read()
        for _ in range(calls):
            way()
        last = self._read()
        self._torch.cuda.synchronize(self._device)
        return elapsed(first.tolist(), last.tolist()) / calls

    def _read(self) -> Any:
        read = self._torch.zeros(_MOST_SMS, dtype=self._torch.int64, device=self._device)
        stream = self._torch.cuda.current_stream(self._device).cuda_stream
        given = (read.data_ptr(),), (ctypes.c_void_p,)
        with primary(self._driver, self._torch, self._device):
            grid, block = (self.sms, 1, 1), (32, 1, 1)
            self._call("cuLaunchKernel", self._function, *grid, *block, 0, stream, given, 0)
        return read

    def _call(self, function: str, *args: Any) -> Any:
        return call(self._driver, function, *args)


def elapsed(first: Sequence[int], last: Sequence[int]) -> float:
    """The median of what counters have gone on, of those that were read both times (0: not).

    Raises:
        UnsupportedError: there is none.
    """
    found = [after - before for before, after in zip(first, last, strict=True) if before and after]
    if not found:
        what = "cycles of multiprocessors of which none was read twice"
        raise UnsupportedError(what, "kernels that run on the same ones")
    return float(median(found))


def cycles_of(
    ways: Mapping[str, Callable[[], object]],
    count: Callable[[Callable[[], object], int], float],
    calls: int,
    rounds: int,
    seed: str,
) -> dict[str, float]:
    """Cycles of a call of each way, the median of rounds in which they take turns.

    Args:
        ways: name -> one call.
        count: cycles of a call, from so many of a way, a :class:`CycleCounter`.
        calls: of a way in a round, one behind the other.
        rounds: how many, each in another order.
        seed: of the orders.
    """
    seen = in_turns(list(ways), rounds, seed, lambda name: count(ways[name], calls), before=1)
    return {name: median(found) for name, found in seen.items()}


@dataclass(frozen=True, slots=True)
class Counted:
    """Cycles of a call, and what the tensor cores could do in as many.

    Args:
        cycles: of a multiprocessor.
        share: what was computed of what the tensor cores of all multiprocessors multiply in so many
            cycles, operands of 16 bits.
    """

    cycles: float
    share: float

    def __str__(self) -> str:
        return f"{self.cycles / 1e6:.3f} ({self.share:.3f})"


def counted(
    ways: Mapping[str, Callable[[], object]], counter: CycleCounter | None, flops: int, seed: str
) -> dict[str, Counted]:
    """The same of calls of each way; nothing without a counter.

    Args:
        ways: name -> one call.
        counter: of the device that they run on.
        flops: floating-point operations of a call.
        seed: of the orders in which ways take turns.
    """
    if counter is None:
        return {}
    found = cycles_of(ways, counter, _CALLS, _ROUNDS, seed)
    peak = counter.sms * FLOPS_PER_CYCLE
    return {name: Counted(cycles, flops / (cycles * peak)) for name, cycles in found.items()}


def told(found: Mapping[str, Counted]) -> str:
    """Millions of cycles of each way, as the end of a line; empty of none."""
    if not found:
        return ""
    ways = "  ".join(f"{way} {its}" for way, its in found.items())
    return f"; Mcycles (of the tensor cores' peak): {ways}"
