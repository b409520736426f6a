"""A stack of kernels on torch tensors: several in one grid, a row of its CTAs each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lowering.cuda.launch import LoadedFunction, PreparedLaunch
from lowering.cuda.launch_block import Arguments
from lowering.ground.errors import UnsupportedError
from lowering.ground.frozen import replaced
from lowering.kernel.kernel import Kernel

if TYPE_CHECKING:
    import torch

__all__ = ["Given", "LoadedStack"]

Given = tuple[Mapping[str, "torch.Tensor"], Mapping[str, int]]
"""Tensors and scalars of a kernel, by name."""


class LoadedStack(LoadedFunction):
    """A stack that is ready to run.

    Args:
        name: of the function.
        kernels: in the order of their rows, which :func:`~lowering.cuda.stack.alike` lets stand in
            one grid.
        cubin: what was compiled from the stack's text.

    Its parameters are at most 32 764 bytes, as drivers from R530 on take them (544 of a kernel of
    gate and up). Errors as of :class:`~lowering.cuda.launch.LoadedFunction`.
    """

    def __init__(self, name: str, kernels: Sequence[Kernel], cubin: bytes) -> None:
        largest = max(kernels, key=lambda k: k.shared_bytes)
        super().__init__(replaced(largest, name=name), cubin)
        self._rows = [self._packing_of(k) for k in kernels]

    def prepare_rows(self, given: Sequence[Given], grid: int) -> PreparedLaunch:
        """Check and pack everything, so that launching needs none of it again.

        Args:
            given: what ``LoadedKernel.prepare`` takes for each kernel. Whoever launches keeps
                the memory alive.
            grid: CTAs along x, of each row.

        Raises:
            UnsupportedError: a tensor that TMA or a kernel cannot address, tensors of several
                devices, or a device that is not the kernels' target.
            InternalError: a missing argument.
        """
        packed = [row.of(*one) for row, one in zip(self._rows, given, strict=True)]
        device = packed[0].device
        if any(p.device != device for p in packed):
            raise UnsupportedError("tensors of several devices", "tensors of one device")
        self.prepare_device(device)
        block = Arguments.joined([p.block() for p in packed])
        return PreparedLaunch(self, lambda *_: block, device, (grid, len(packed)), None)
