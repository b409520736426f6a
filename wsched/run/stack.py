"""The stacks of a call: kernels that are launched as one grid, see :mod:`lowering.cuda.stack`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from lowering.kernel.kernel import Kernel
from lowering.target.target import Target
from passes.dump import ALL, Dumper
from wsched.importer.input_error import InputError
from wsched.run.arguments import Arguments
from wsched.run.counts import require_countable
from wsched.run.grid import CODE, Grid
from wsched.run.kernel_name import digits
from wsched.run.once import once
from wsched.schedule.plan import Plan

if TYPE_CHECKING:
    import torch

    from lowering.cuda.launch_stack import LoadedStack

__all__ = ["Stack", "Stackable", "in_turn", "stacked"]


class Stackable(Protocol):
    """A kernel that may stand in a stack; :class:`~wsched.run.on_device.OnDevice` is one."""

    @property
    def kernel(self) -> Kernel:
        """The final kernel IR."""

    @property
    def plan(self) -> Plan:
        """Its schedule."""

    def simulates(self, device: torch.device) -> bool:
        """Whether tensors of this device go to the machine model."""

    def grid(self, extents: dict[str, int], resident: int) -> int:
        """CTAs to launch for a problem on a device that runs ``resident`` of them at a time."""

    def ctas_on(self, device: torch.device, extents: dict[str, int]) -> int:
        """The same on a device; refuses sizes that these cannot count."""

    def add_outputs(self, arguments: Arguments, outputs: Sequence[torch.Tensor]) -> None:
        """Put the results among the tensors that the kernel takes."""

    def alone_on(self, arguments: Arguments, outputs: Sequence[torch.Tensor]) -> Callable[[], None]:
        """A function that runs the kernel without others on these tensors."""

    def require_proof(self) -> None:
        """Prove the kernel, if it has to be."""


K = TypeVar("K", bound=Stackable)


@dataclass(frozen=True, eq=False)
class Stack(Grid):
    """Several kernels that are launched as one grid; what is launched has what one kernel has.

    Args:
        kernels: in the order in which they would be launched one behind the other, all alike.
    """

    kernels: tuple[Stackable, ...]

    @property
    def name(self) -> str:
        """That of the first kernel, and a hash of the others'."""
        first, *others = (k.kernel.name for k in self.kernels)
        return f"{first}_with{digits(' '.join(others), 6)}"

    @property
    def target(self) -> Target:
        """The GPU that all are for."""
        return self.kernels[0].kernel.target

    def _emitted(self) -> str:
        from lowering.cuda.stack import emit_stack

        return emit_stack(self.name, [k.kernel for k in self.kernels])

    def dump(self, stage: str) -> str:
        """The text of one stage of the code: ``cuda``, ``ptx`` or ``sass``.

        Raises:
            InputError: any other; those are of each kernel.
        """
        if stage not in CODE:
            there = ", ".join(CODE)
            raise InputError(f"no stage {stage!r}; there are: {there}", "stage", stage, there)
        return self.code(stage)

    def dump_all(self, folder: Path | str) -> Dumper:
        """Write all of them; arguments and errors as of a kernel's."""
        return self.dump_code(Dumper(frozenset({ALL}), Path(folder)))

    def dump_code(self, dumper: Dumper) -> Dumper:
        """Write those that the dumper wants."""
        for stage, ending in CODE.items():
            dumper.text(stage, ending, partial(self.dump, stage))
        return dumper

    @once
    def loaded(self) -> LoadedStack:
        """In the driver's hands; each kernel is proved first where it has to be."""
        from lowering.cuda.launch_stack import LoadedStack

        for k in self.kernels:
            k.require_proof()
        return LoadedStack(self.name, [k.kernel for k in self.kernels], self.compiled.cubin)

    def ctas(self, extents: dict[str, int], resident: int) -> int:
        """As many along x as the kernel with the longest row has; refuses as of one kernel."""
        ctas = max(k.grid(extents, resident) for k in self.kernels)
        for k in self.kernels:
            require_countable(k.plan, extents, ctas)
        return ctas

    def ctas_of_all(self, extents: dict[str, int], resident: int) -> int:
        """The same of all rows."""
        return len(self.kernels) * self.ctas(extents, resident)

    def ctas_on(self, device: torch.device, extents: dict[str, int]) -> int:
        """CTAs along x on a device."""
        if self.kernels[0].simulates(device):
            return max(k.ctas_on(device, extents) for k in self.kernels)
        return self.ctas_on_gpu(device, extents)

    def alone_on(self, arguments: Arguments, outputs: Sequence[torch.Tensor]) -> Callable[[], None]:
        """A function that runs the kernels on these tensors."""
        if self.kernels[0].simulates(arguments.device):
            return in_turn([k.alone_on(arguments, outputs) for k in self.kernels])
        if 0 in outputs[0].shape:
            return lambda: None  # an empty result
        given = []
        for k in self.kernels:
            k.add_outputs(arguments, outputs)
            given.append(({**arguments.matrices}, arguments.extents))  # the next one's are others
        ctas = self.ctas_on(arguments.device, arguments.extents)
        return self.loaded.prepare_rows(given, ctas).here


def stacked(kernels: Iterable[K]) -> tuple[K | Stack, ...]:
    """The grids of kernels that are launched one behind the other: neighbours that may stand in a
    stack do.
    """
    from lowering.cuda.stack import alike

    alone = count()
    found = [(*some,) for _, some in groupby(kernels, lambda k: alike(k.kernel) or next(alone))]
    return tuple(Stack(some) if len(some) > 1 else some[0] for some in found)


def in_turn(launches: Sequence[Callable[[], None]]) -> Callable[[], None]:
    """One that launches all, one behind the other."""
    return launches[0] if len(launches) == 1 else partial(_launch_all, launches)


def _launch_all(launches: Sequence[Callable[[], None]]) -> None:
    for launch in launches:
        launch()
