"""What is launched at once: its code, and where it is loaded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from lowering.cuda.nvrtc import Compiled, compile_ptx
from lowering.cuda.resources import Resources, read_resources
from lowering.ground.collector import paused
from lowering.ground.recent import Recent
from lowering.target.target import Target
from lowering.target.targets import require
from wsched.run.bundles import compiled_text
from wsched.run.once import once

if TYPE_CHECKING:
    import torch

    from lowering.cuda.launch import LoadedFunction

__all__ = ["CODE", "Grid"]

CODE = {"cuda": "cu", "ptx": "ptx", "sass": "sass"}
"""Stages of what is launched, which may be several kernels, with the ending of their files."""

_REMEMBERED = 64
"""Devices and sizes whose CTAs are kept: to count whether 32 bits do for them takes 0.3 ms."""


class Grid(ABC):
    """A function that is launched, of one kernel or of several that stand in a stack."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Of the function, which a profiler shows."""

    @property
    @abstractmethod
    def target(self) -> Target:
        """The GPU that it is for."""

    @abstractmethod
    def _emitted(self) -> str:
        """The CUDA C++ text."""

    @property
    @abstractmethod
    def loaded(self) -> LoadedFunction:
        """In the driver's hands."""

    @abstractmethod
    def ctas(self, extents: dict[str, int], resident: int) -> int:
        """CTAs along x on a device that runs ``resident`` of them at a time; refuses sizes that
        these cannot count.
        """

    @once
    def source(self) -> str:
        """The CUDA C++ text."""
        with paused():
            return self._emitted()

    @once
    def compiled(self) -> Compiled:
        """The cubin, from a bundle, the disk cache or NVRTC."""
        return compiled_text(self.source, f"{self.name}.cu", self.target.arch)

    @once
    def resources(self) -> Resources:
        """Registers, spills, stack and warnings, as ptxas reports them; needs no GPU."""
        return read_resources(self.compiled, self.name)

    def code(self, stage: str) -> str:
        """The text of one stage of :data:`CODE`."""
        if stage == "cuda":
            return self.source
        if stage == "ptx":
            return compile_ptx(self.source, f"{self.name}.cu", arch=self.target.arch)
        from lowering.cuda.sass import disassemble

        return disassemble(self.compiled.cubin)

    def load_alone(self, device: torch.device) -> None:
        """Compile and load on a GPU, which is checked first, then for clusters."""
        import torch

        require(torch, device.index, self.target)
        self.loaded.prepare_device(device.index)
        self.loaded.resident_ctas(device.index)

    def ctas_on_gpu(self, device: torch.device, extents: dict[str, int]) -> int:
        """CTAs along x, as :meth:`ctas`; kept for the sizes."""
        key = (device.index, *extents.items())
        found = self._counted.get(key)
        if found is not None:
            return found
        resident = self.loaded.resident_ctas(device.index)
        return self._counted.add(key, self.ctas(extents, resident))

    @once
    def _counted(self) -> Recent[tuple[object, ...], int]:
        return Recent(lambda: _REMEMBERED)
