"""A lowered schedule on a device: loaded on a GPU, or executed by the machine model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import evaluate
from lowering.kernel.early import loads_early
from passes.pipeline import run_passes
from wsched.run.arguments import Arguments
from wsched.run.counts import admitted_by, require_countable
from wsched.run.cpu import grid_on_cpu, run_on_cpu
from wsched.run.made import Made
from wsched.run.once import once
from wsched.run.proving import prove_before_launch
from wsched.run.results import FROM_REGISTERS, FROM_REGISTERS_BY_CALLS, add_outputs
from wsched.run.stack import Stack, in_turn, stacked
from wsched.run.stamped import slots_of, stamped_run
from wsched.run.watched import watched
from wsched.run.workspace import Workspace
from wsched.schedule.checked import changed
from wsched.schedule.matmul.params import MatmulParams

if TYPE_CHECKING:
    import torch
    from typing_extensions import Self

    from lowering.cuda.launch import LoadedKernel
    from wsched.trace.timeline import Trace

__all__ = ["ALONGSIDE", "TRACED", "OnDevice"]

ALONGSIDE = "_alongside"
"""Ends the name of a kernel that runs beside the grid in front."""

TRACED = "_traced"
"""Ends the name of a kernel that is made again with stamps."""


@dataclass(frozen=True, repr=False)
class OnDevice(Made):
    """What is made of a schedule, and where it runs.

    Attributes:
        vector: columns that threads access at once where they access global memory themselves.
        made_from: the parameters that the matmul scheduler made the schedule from, with the
            register pair it has; None of a schedule that was written call by call.
        trials: each register pair that was compiled to choose this one, and what came of it.
        siblings: kernels that share the groups of a matmul out with it, in the order in which they
            run behind it; its parameters are those of all.
        stacks: whether those of all that may stand in one grid do; not where ptxas complains of it.
        written: whether somebody wrote the schedule: the kernel is proved before it is launched,
            unless ``WSCHED_PROOF`` or :func:`wsched.compile` was told otherwise.
        follows: whether a program launches it behind a grid that does not write the operands that
            it loads early. By itself such a kernel starts when the grid in front has ended.
    """

    vector: int = 2
    made_from: MatmulParams | None = None
    trials: tuple[str, ...] = ()
    siblings: tuple[OnDevice, ...] = ()
    stacks: bool = True
    written: bool = False
    follows: bool = False

    def __repr__(self) -> str:
        """Name, target and how the schedule differs from the default one, in one line."""
        if self.made_from is None:
            told = "a schedule written call by call"
        else:
            told = f"MatmulParams({', '.join(changed(self.made_from, MatmulParams()))})"
        return f"<{type(self).__name__} {self.kernel.name} for {self.kernel.target.arch}: {told}>"

    @property
    def params(self) -> MatmulParams:
        """The parameters of a schedule that was made from some; AttributeError of any other."""
        if self.made_from is None:
            raise AttributeError("the schedule was written call by call, it has no parameters")
        return self.made_from

    @property
    def launched(self) -> tuple[OnDevice, ...]:
        """The kernels of a call, in the order in which they run."""
        return (self, *self.siblings)

    @property
    def grids(self) -> tuple[OnDevice | Stack, ...]:
        """What a call launches, one grid behind the other."""
        return self._grids if self.siblings and self.stacks else self.launched

    @once
    def _grids(self) -> tuple[OnDevice | Stack, ...]:
        """The same of several, which refer to this one: it goes when cycles are collected."""
        return stacked(self.launched)

    def _pack(self, arguments: Arguments, outputs: Sequence[torch.Tensor]) -> Callable[[], None]:
        """A function that runs the kernel on these tensors, and its siblings behind it.

        Raises:
            UnsupportedError: others take the rest of the groups, and nobody launches these.
        """
        groups = self.fusion.groups
        if groups is not None and len(groups.sharing.lengths) > len(self.launched):
            what = f"{self.kernel.name} without the kernels that take the other groups"
            raise UnsupportedError(what, "MatmulParams with siblings, and no sharing of its own")
        return in_turn([g.alone_on(arguments, outputs) for g in self.grids])

    def alone_on(self, arguments: Arguments, outputs: Sequence[torch.Tensor]) -> Callable[[], None]:
        """A function that runs the kernel without its siblings on these tensors."""
        self.add_outputs(arguments, outputs)
        if 0 in outputs[0].shape:
            return lambda: None  # an empty result
        grid = self.ctas_on(arguments.device, arguments.extents)
        if self.simulates(arguments.device):

            def simulate() -> None:
                run_on_cpu(self.kernel, arguments)

            return simulate
        if self.kernel.watch is not None:
            return watched(self.loaded, arguments.matrices, arguments.extents, grid)
        return self.loaded.prepare(arguments.matrices, arguments.extents, grid).here

    def ctas_on(self, device: torch.device, extents: dict[str, int]) -> int:
        """CTAs along x; refuses sizes that these cannot count."""
        if self.simulates(device):
            grid = grid_on_cpu(self.kernel, extents)
            require_countable(self.plan, extents, grid)
            return grid
        return self.ctas_on_gpu(device, extents)

    def add_outputs(self, arguments: Arguments, outputs: Sequence[torch.Tensor]) -> None:
        """Put the results among the tensors that the kernel takes."""
        hint = FROM_REGISTERS if self.made_from is not None else FROM_REGISTERS_BY_CALLS
        add_outputs(self.fusion, self.kernel, self.vector, arguments, outputs, hint)

    def simulates(self, device: torch.device) -> bool:
        """Whether tensors of this device go to the machine model."""
        return bool(device.type == "cpu")

    def _load(self, device: torch.device) -> None:
        """Compile the kernels and load them on a GPU, which is checked first, then for clusters."""
        for grid in self.grids:
            grid.load_alone(device)

    def require_proof(self) -> None:
        """Prove the kernel, if it has to be.

        Raises:
            InternalError: the proof refutes it.
        """
        prove_before_launch(self.kernel, self.written, admitted_by(self.plan))

    @once
    def loaded(self) -> LoadedKernel:
        """The kernel in the driver's hands.

        Raises:
            InternalError: it has to be proved first, and the proof refutes it.
        """
        from lowering.cuda.launch import LoadedKernel

        self.require_proof()
        return LoadedKernel(self.kernel, self.compiled.cubin, Workspace.of, self.follows)

    @once
    def alongside(self) -> Self:
        """The kernel that loads and multiplies its operands before the grid in front has ended, if
        it :attr:`follows` one that does not write them, and leaves registers that it does not need.
        Itself where that is no gain: threads load operands, descriptors change, it starts when the
        grid in front has ended, or it stands in one grid with others.
        """
        maps = {m.name for m in self.tile_level.tensor_maps if not m.device}
        operands = self.fusion.operands
        waits = not self.options.programmatic_dependent_launch or not maps.issuperset(operands)
        if waits or self.siblings:
            return self
        options = replace(self.options, early_operands=operands, leaves_registers=True)
        named = replace(self.tile_level, name=f"{self.kernel.name}{ALONGSIDE}")
        return replace(self, options=options, tile_level=named, kernel=run_passes(named, options))

    @once
    def following(self) -> Self:
        """The kernel for the program that launches it behind a grid that does not write its
        operands, and no other; itself where it waits for the grid in front anyway.
        """
        return replace(self, follows=True) if loads_early(self.kernel) else self

    @once
    def behind(self) -> Self:
        """The kernel for who launches a grid in front that writes its operands, as a copy of one
        does; itself where nobody said that none does.
        """
        return replace(self, follows=False) if self.follows else self

    def stamped(self, arguments: Arguments, outputs: Sequence[torch.Tensor]) -> Trace:
        """The time line of a run on these tensors without siblings, see :func:`stamped_run`."""
        self.add_outputs(arguments, outputs)
        loaded = None if self.simulates(arguments.device) else self.traced.loaded
        return stamped_run(self.traced.kernel, arguments, loaded)

    @once
    def traced(self) -> Self:
        """The kernel with stamps, which has a name and a cubin of its own.

        It starts when the grid in front has ended: two runs write the same records.
        """
        options = replace(self.options, programmatic_dependent_launch=False, prefetched_steps=0)
        options = replace(options, watchdog=0, trace_slots=slots_of(self.plan))
        named = replace(self.tile_level, name=f"{self.kernel.name}{TRACED}")
        kernel = run_passes(named, options)
        return replace(self, options=options, tile_level=named, kernel=kernel)

    def grid(self, extents: dict[str, int], resident: int) -> int:
        """CTAs to launch for a problem on a device that runs ``resident`` of them at a time."""
        return evaluate(self.kernel.grid, extents | {"sms": resident})

    def ctas(self, extents: dict[str, int], resident: int) -> int:
        """The same; refuses sizes that these cannot count."""
        grid = self.grid(extents, resident)
        require_countable(self.plan, extents, grid)
        return grid

    def ctas_of_all(self, extents: dict[str, int], resident: int) -> int:
        """The same with those along y."""
        return self.ctas(extents, resident) * self.kernel.rows(extents)
