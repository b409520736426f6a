"""The grids of a call: kernels that are launched at once, as far as they may stand in a stack."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, groupby
from typing import TYPE_CHECKING

from lowering.cuda.nvrtc import Compiled
from lowering.cuda.resources import Resources, read_resources
from lowering.ground.collector import paused
from lowering.target.targets import require
from wsched.run.arguments import Arguments
from wsched.run.bundles import compiled_text
from wsched.run.counts import require_countable
from wsched.run.kernel_name import digits
from wsched.run.once import once

if TYPE_CHECKING:
    import torch

    from lowering.cuda.launch import LoadedKernel
    from lowering.cuda.launch_stack import LoadedStack
    from wsched.run.on_device import OnDevice

__all__ = ["Grid", "grids_of", "in_turn"]


@dataclass(frozen=True, eq=False)
class Grid:
    """Kernels that are launched as one grid: one as it is, several as a stack.

    Args:
        kernels: in the order in which they would be launched one behind the other.
    """

    kernels: tuple[OnDevice, ...]

    @once
    def name(self) -> str:
        """Of the function that is launched."""
        first, *others = (k.kernel.name for k in self.kernels)
        return f"{first}_with{digits(' '.join(others), 6)}" if others else first

    @once
    def source(self) -> str:
        """The CUDA C++ text."""
        if len(self.kernels) == 1:
            return self.kernels[0].source
        with paused():
            from lowering.cuda.stack import emit_stack

            return emit_stack(self.name, [k.kernel for k in self.kernels])

    @once
    def compiled(self) -> Compiled:
        """The cubin, from a bundle, the disk cache or NVRTC."""
        if len(self.kernels) == 1:
            return self.kernels[0].compiled
        arch = self.kernels[0].kernel.target.arch
        return compiled_text(self.source, f"{self.name}.cu", arch)

    @once
    def resources(self) -> Resources:
        """Registers, spills, stack and warnings, as ptxas reports them; needs no GPU."""
        return read_resources(self.compiled, self.name)

    @once
    def _stack(self) -> LoadedStack:
        """Several kernels in the driver's hands; each is proved first where it has to be."""
        from lowering.cuda.launch_stack import LoadedStack

        for k in self.kernels:
            k.prove_before_launch()
        return LoadedStack(self.name, [k.kernel for k in self.kernels], self.compiled.cubin)

    def load(self, device: torch.device) -> None:
        """Compile and load on a GPU, which is checked first, then for clusters."""
        import torch

        require(torch, device.index, self.kernels[0].kernel.target)
        loaded: LoadedKernel = self._stack if len(self.kernels) > 1 else self.kernels[0].loaded
        loaded.prepare_device(device.index)
        loaded.resident_ctas(device.index)

    def pack(self, arguments: Arguments, outputs: Sequence[torch.Tensor]) -> Callable[[], None]:
        """A function that runs them on these tensors."""
        first, *others = self.kernels
        if not others or first.simulates(arguments.device):
            return in_turn([k.alone_on(arguments, outputs) for k in self.kernels])
        given, ctas, extents = [], 0, arguments.extents
        resident = self._stack.resident_ctas(arguments.device.index)
        for k in self.kernels:
            k.add_outputs(arguments, outputs)
            given.append(({**arguments.matrices}, extents))  # the next one's results are others
            ctas = max(ctas, k.grid(extents, resident))
            require_countable(k.plan, extents, ctas)
        if 0 in outputs[0].shape:
            return lambda: None  # an empty result
        return self._stack.prepare_rows(given, ctas).here


def grids_of(kernels: Iterable[OnDevice]) -> tuple[Grid, ...]:
    """The grids of kernels that are launched one behind the other: those beside each other that may
    stand in a stack are one.
    """
    from lowering.cuda.stack import alike

    alone = count()
    by_grid = groupby(kernels, lambda k: alike(k.kernel) or next(alone))
    return tuple(Grid(tuple(some)) for _, some in by_grid)


def in_turn(launches: Sequence[Callable[[], None]]) -> Callable[[], None]:
    """One that launches all, one behind the other."""
    return launches[0] if len(launches) == 1 else partial(_launch_all, launches)


def _launch_all(launches: Sequence[Callable[[], None]]) -> None:
    for launch in launches:
        launch()
