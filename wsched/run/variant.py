"""A kernel that has no schedule, ready to be launched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lowering.kernel.kernel import Kernel
from wsched.run.made import compiled_kernel
from wsched.run.once import once
from wsched.run.workspace import Workspace

if TYPE_CHECKING:
    from lowering.cuda.launch import LoadedKernel

__all__ = ["Variant"]


@dataclass(frozen=True)
class Variant:
    """A kernel of a summary or a sweep for one tile and alignment."""

    kernel: Kernel

    @once
    def loaded(self) -> LoadedKernel:
        """The kernel in the driver's hands."""
        from lowering.cuda.launch import LoadedKernel

        return LoadedKernel(self.kernel, compiled_kernel(self.kernel).cubin, Workspace.of)
