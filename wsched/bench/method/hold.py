"""Multiprocessors that another kernel holds, as long as it is told to."""

from __future__ import annotations

from time import sleep
from types import TracebackType
from typing import Any

from lowering.cuda.emit import emit_cuda
from lowering.cuda.launch import LoadedKernel
from lowering.cuda.nvrtc import compile_cubin
from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel
from wsched.run.once import once

__all__ = ["HOLD", "Held", "hold_kernel"]

HOLD = """\
kernel hold threads 32 cluster 1 grid n {
  param n: i32
  global here: f32[1, 1]
  shared all: f32[1][1x51200] at 0
  counter free[1]
  counter.wait free[0], 1
}
"""
"""A CTA with so much shared memory that no other one of this size has room beside it."""

_STARTED_S = 0.002
"""Time in which a kernel is certain to have started on an idle device."""


def hold_kernel() -> Kernel:
    """The kernel that waits."""
    return parse_kernel(HOLD)


class Held:
    """``count`` multiprocessors of CUDA device 0 are held within each ``with`` block.

    The device is idle when it begins. It ends with a copy by a copy engine, which needs no
    multiprocessor.

    Args:
        count: of multiprocessors; with 0 nothing is held.
    """

    def __init__(self, count: int) -> None:
        import torch

        self._torch, self.count = torch, count
        self.free = torch.zeros(1, dtype=torch.int32, device="cuda")
        self._here = torch.zeros(1, 1, device="cuda")
        self._one = torch.ones(1, dtype=torch.int32).pin_memory()
        self._streams = [torch.cuda.Stream() for _ in range(2)]
        torch.cuda.synchronize()

    @once
    def kernel(self) -> LoadedKernel:
        """The kernel that waits, loaded; its counter is the one that ends it."""
        kernel = hold_kernel()
        return LoadedKernel(
            kernel,
            compile_cubin(emit_cuda(kernel), arch=kernel.target.arch).cubin,
            lambda *_: self.free,
        )

    def __enter__(self) -> Held:
        """Start the CTAs, and wait until they hold what they shall hold."""
        if self.count:
            self.free.zero_()
            self._torch.cuda.synchronize()
            stream: Any = self._streams[0]
            tensors, params = {"here": self._here}, {"n": self.count}
            self.kernel.launch(tensors, params, self.count, stream.cuda_stream)
            sleep(_STARTED_S)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        """Let go, and wait for the end."""
        with self._torch.cuda.stream(self._streams[1]):
            self.free.copy_(self._one, non_blocking=True)
        self._torch.cuda.synchronize()
