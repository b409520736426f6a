"""A scheduled and lowered fusion: run it, or look at any stage of its making."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lowering.cuda.cache import CubinCache, default_directory
from lowering.cuda.nvrtc import Compiled, compile_ptx
from lowering.cuda.resources import Resources, read_resources
from lowering.ground.expr import evaluate
from lowering.kernel.kernel import Kernel
from lowering.kernel.text import print_kernel
from lowering.nest.lower import lower
from passes.dump import ALL, Dumper, dumper_from_environment
from passes.options import LoweringOptions
from passes.pipeline import PASSES, run_passes, steps
from wsched.fusion import Fusion, ParallelType, fusion_text
from wsched.run.arguments import Arguments, bind
from wsched.run.copies import copied
from wsched.run.counts import require_countable
from wsched.run.cpu import refuse_large, run_on_cpu
from wsched.run.host import BoundLaunch, HostPlan, Key, Plans, class_key
from wsched.run.input_error import InputError
from wsched.run.kernel_name import kernel_name
from wsched.run.lowering_options import lowering_options
from wsched.run.once import once
from wsched.run.recorded import recorded_run
from wsched.run.results import add_outputs, results
from wsched.run.workspace import Workspace
from wsched.schedule.loops import loops_text
from wsched.schedule.matmul.kernel_options import kernel_options
from wsched.schedule.matmul.limits import settled
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.matmul.scheduler import plan_matmul
from wsched.schedule.options import KernelOptions
from wsched.schedule.plan import Plan
from wsched.schedule.registers import require_registers
from wsched.schedule.subdags import subdags_text, to_dot
from wsched.trace.records import SLOTS
from wsched.version import __version__

if TYPE_CHECKING:
    import torch

    from lowering.cuda.launch import LoadedKernel
    from wsched.trace.timeline import Trace

__all__ = ["STAGES", "CompiledFusion", "compile_fusion", "compile_plan"]

_SCHEDULED = {
    "fusion": ("txt", fusion_text), "subdags": ("txt", subdags_text), "dot": ("dot", to_dot),
    "loops": ("txt", loops_text),
}  # fmt: skip
"""Texts of the scheduled fusion, with the ending of their files."""

_CODE = {"cuda": "cu", "ptx": "ptx", "sass": "sass"}

STAGES = (*_SCHEDULED, "lower", *(p.__name__ for p in PASSES), *_CODE)
"""What a full dump writes, in this order."""


def compile_fusion(fusion: Fusion, params: MatmulParams) -> CompiledFusion:
    """Schedule and lower a fusion; NVRTC runs when the kernel is first needed on a GPU.

    Where the parameters leave the registers open, this takes the first candidate as it is;
    :func:`wsched.run.registers.compile_clean` compiles to choose.

    Raises:
        ScheduleError: the parameters make an illegal schedule.
        UnsupportedError: they are legal, but there is no lowering for them.
    """
    made = plan_matmul(fusion, params)
    params = settled(fusion, params)
    name = kernel_name(fusion, params)
    return replace(compile_plan(made, kernel_options(fusion, params), name), made_from=params)


def compile_plan(made: Plan, options: KernelOptions, name: str) -> CompiledFusion:
    """Lower a schedule that has been proved; NVRTC runs when the kernel is first needed on a GPU.

    Args:
        made: the schedule.
        options: what it says beside loops.
        name: of the kernel, a C identifier.

    Raises:
        ScheduleError: a limit of the device that the proof does not know, such as shared memory.
        UnsupportedError: there is no lowering for it.
    """
    dumper = dumper_from_environment(name, STAGES)
    if dumper is not None:
        _dump_scheduled(made.fusion, dumper)
    require_registers(made)
    told = lowering_options(made.fusion, options)
    tile_level = lower(made, name, options.vector)
    kernel = run_passes(tile_level, told, dumper)
    compiled = CompiledFusion(made, told, tile_level, kernel, options.vector)
    if dumper is not None:
        compiled._dump_code(dumper)
    return compiled


@dataclass(frozen=True)
class CompiledFusion:
    """One kernel class of a fusion: any M, N, K, strides and grid run on it.

    Attributes:
        plan: the schedule, proved.
        options: what the passes were told.
        tile_level: the kernel before the passes.
        kernel: the final kernel IR, which is executed, simulated and emitted.
        vector: columns that threads access at once where they access global memory themselves.
        made_from: the parameters that the matmul scheduler made the schedule from, with the
            register pair it has; None of a schedule that was written call by call.
        trials: each register pair that was compiled to choose this one, and what came of it.
    """

    plan: Plan
    options: LoweringOptions
    tile_level: Kernel
    kernel: Kernel
    vector: int = 2
    made_from: MatmulParams | None = None
    trials: tuple[str, ...] = ()

    @property
    def fusion(self) -> Fusion:
        """The scheduled fusion."""
        return self.plan.fusion

    @property
    def params(self) -> MatmulParams:
        """The parameters of a schedule that was made from some; AttributeError of any other."""
        if self.made_from is None:
            raise AttributeError("the schedule was written call by call, it has no parameters")
        return self.made_from

    def __call__(
        self, *inputs: torch.Tensor, out: torch.Tensor | Sequence[torch.Tensor] | None = None
    ) -> list[torch.Tensor]:
        """Run on torch's current stream, or on the machine model if the tensors are on the CPU.

        Args:
            inputs: tensors in the order of the definition, all on one device.
            out: tensors to write the results to, instead of new ones; a tensor alone stands for a
                list of it.

        Raises:
            InputError: the tensors do not fit the definition.
            UnsupportedError: a layout that TMA cannot address, a device without this kernel's
                instructions, or a CPU problem too large for the machine.
        """
        return self.call(inputs, class_key(inputs) if out is None else None, out)

    def call(self, inputs: Sequence[Any], key: Key | None, out: Any = None) -> list[torch.Tensor]:
        """A call whose caller knows the :func:`~wsched.run.host.class_key`; None with ``out``."""
        plan = self._plans.get(key)
        if plan is not None:
            return plan(inputs)
        read = self._copied(inputs)
        arguments = self._arguments(read)
        lasting = key is not None and arguments.reads(read)
        outputs = self._results(arguments, out)
        launch = self._pack(arguments, outputs)
        if key is not None and lasting and not self.simulates(arguments.device):
            copied = [
                i for i, (r, given) in enumerate(zip(read, inputs, strict=True)) if r is not given
            ]
            self._plans.add(key, HostPlan(self._packer, read, outputs, launch, copied))
        launch()
        return outputs

    def bind(
        self, *inputs: torch.Tensor, out: torch.Tensor | Sequence[torch.Tensor] | None = None
    ) -> BoundLaunch:
        """Check and pack a call for these very tensors; calling the result launches it.

        Inputs that the kernel cannot read where they lie are copied again by each launch. Arguments
        and errors as for a call.
        """
        arguments = self._arguments(self._copied(inputs))
        lasting = arguments.reads(inputs)
        outputs = self._results(arguments, out)
        launch = self._pack(arguments, outputs)
        if lasting:
            return BoundLaunch(launch, inputs, outputs)

        def launch_on_copies() -> None:
            copies = self._arguments(self._copied(inputs))  # held until the launch is on its way
            self._pack(copies, outputs)()

        return BoundLaunch(launch_on_copies, inputs, outputs)

    def _copied(self, inputs: Sequence[Any]) -> Sequence[Any]:
        return copied(self.fusion, inputs)

    def _arguments(self, inputs: Sequence[Any]) -> Arguments:
        return bind(self.fusion, inputs, self.vector)

    def trace(
        self, *inputs: torch.Tensor, out: torch.Tensor | Sequence[torch.Tensor] | None = None
    ) -> Trace:
        """Run with clocks: when each warp waited, computed and stored; ``out`` as a call writes it.

        Arguments and errors as for a call. On a GPU it runs twice and waits for the device.
        """
        arguments = self._arguments(self._copied(inputs))
        self._add_outputs(arguments, self._results(arguments, out))
        loaded = None if self.simulates(arguments.device) else self.traced.loaded
        return recorded_run(self.traced.kernel, arguments, loaded)

    @once
    def traced(self) -> CompiledFusion:
        """The kernel with stamps, which has a name and a cubin of its own.

        It starts when the grid in front has ended: two runs write the same records.
        """
        options = replace(
            self.options,
            trace_slots=SLOTS[_loops_over_tiles(self.fusion)],
            programmatic_dependent_launch=False,
        )
        named = replace(self.tile_level, name=f"{self.kernel.name}_traced")
        kernel = run_passes(named, options)
        return replace(self, options=options, tile_level=named, kernel=kernel)

    @once
    def _plans(self) -> Plans:
        return Plans()

    def _packer(
        self, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]
    ) -> Callable[[], None]:
        return self._pack(self._arguments(inputs), outputs)

    def _pack(self, arguments: Arguments, outputs: Sequence[torch.Tensor]) -> Callable[[], None]:
        """A function that runs the kernel on these tensors."""
        self._add_outputs(arguments, outputs)
        if 0 in outputs[0].shape:
            return _nothing
        if self.simulates(arguments.device):

            def simulate() -> None:
                run_on_cpu(self.kernel, arguments)

            return simulate
        grid = self.grid(arguments.extents, self.loaded.resident_ctas(arguments.device.index))
        require_countable(self.plan, arguments.extents, grid)
        return self.loaded.prepare(arguments.matrices, arguments.extents, grid)

    def _results(
        self, arguments: Arguments, out: torch.Tensor | Sequence[torch.Tensor] | None
    ) -> list[torch.Tensor]:
        return results(self.fusion, arguments, out)

    def _add_outputs(self, arguments: Arguments, outputs: Sequence[torch.Tensor]) -> None:
        add_outputs(self.fusion, self.kernel, self.vector, arguments, outputs)

    def admit(self, inputs: Sequence[torch.Tensor]) -> None:
        """Check that a call would be taken, without running it or allocating results.

        On a GPU this compiles and loads the kernel, on the CPU it estimates the run.

        Raises:
            InputError, UnsupportedError: as a call.
        """
        import torch

        arguments = self._arguments(self._copied(inputs))
        outputs = self._results(replace(arguments, device=torch.device("meta")), None)
        self._add_outputs(arguments, outputs)
        if 0 in outputs[0].shape:
            return
        if self.simulates(arguments.device):
            refuse_large(self.kernel, arguments.extents)
        else:
            self._load(arguments.device)

    def simulates(self, device: torch.device) -> bool:
        """Whether tensors of this device go to the machine model."""
        return bool(device.type == "cpu")

    def _load(self, device: torch.device) -> None:
        """Compile the kernel and load it on a GPU, which is checked first, then for its cluster."""
        import torch

        from lowering.cuda.launch import require

        require(torch, device.index, self.kernel.target)
        self.loaded.prepare_device(device.index)
        self.loaded.resident_ctas(device.index)

    def grid(self, extents: dict[str, int], resident: int) -> int:
        """CTAs to launch for a problem on a device that runs ``resident`` of them at a time."""
        return evaluate(self.kernel.grid, extents | {"sms": resident})

    # --- what was made, stage by stage ---------------------------------------------------------

    @once
    def source(self) -> str:
        """The CUDA C++ text."""
        from lowering.cuda.emit import emit_cuda

        return emit_cuda(self.kernel)

    @once
    def compiled(self) -> Compiled:
        """The cubin, from the disk cache or NVRTC."""
        name, arch = f"{self.kernel.name}.cu", self.kernel.target.arch
        return _cache().compile(self.source, name, arch=arch)

    @once
    def resources(self) -> Resources:
        """Registers, spills, stack and warnings, as ptxas reports them; needs no GPU."""
        return read_resources(self.compiled, self.kernel.name)

    @once
    def loaded(self) -> LoadedKernel:
        """The kernel in the driver's hands."""
        from lowering.cuda.launch import LoadedKernel

        return LoadedKernel(self.kernel, self.compiled.cubin, Workspace.of)

    def dump(self, stage: str) -> str:
        """The text of one stage: one of :meth:`stages`, or the kernel IR after a pass, by name."""
        if stage in _SCHEDULED:
            return _SCHEDULED[stage][1](self.fusion)
        if stage == "kernel":
            return print_kernel(self.kernel)
        if stage in _CODE:
            return self._code(stage)
        for step in steps(self.tile_level, self.options):
            if step.name == stage:
                return print_kernel(step.kernel)
        there = ", ".join(self.stages())
        raise InputError(f"no stage {stage!r}; there are: {there}", "stage", stage, there)

    def stages(self) -> list[str]:
        """Names that :meth:`dump` takes, in the order in which the stages are made.

        ``kernel`` is the final kernel IR, the same as after the last pass.
        """
        return [*STAGES[: -len(_CODE)], "kernel", *_CODE]

    def dump_all(self, folder: Path) -> Dumper:
        """Write every stage, as ``WSCHED_DUMP=all`` does during compilation; the passes run again.

        Returns:
            The dumper, with the files and the reasons why stages are missing.

        Raises:
            OSError: a file cannot be written.
        """
        dumper = Dumper(frozenset({ALL}), folder)
        _dump_scheduled(self.fusion, dumper)
        run_passes(self.tile_level, self.options, dumper)
        self._dump_code(dumper)
        return dumper

    def _dump_code(self, dumper: Dumper) -> None:
        for kind, ending in _CODE.items():
            dumper.text(kind, ending, partial(self._code, kind))

    def _code(self, kind: str) -> str:
        """What is made of the final kernel."""
        if kind == "cuda":
            return self.source
        if kind == "ptx":
            return compile_ptx(self.source, f"{self.kernel.name}.cu", arch=self.kernel.target.arch)
        from lowering.cuda.sass import disassemble

        return disassemble(self.compiled.cubin)


def _dump_scheduled(fusion: Fusion, dumper: Dumper) -> None:
    for name, (ending, text) in _SCHEDULED.items():
        dumper.text(name, ending, partial(text, fusion))


def _loops_over_tiles(fusion: Fusion) -> bool:
    """Whether a CTA has several tiles: a serial loop around the accumulator."""
    acc = fusion.tensor(fusion.mma.output)
    return any(d.parallel is ParallelType.Serial for d in acc.loop[: acc.compute_at])


def _nothing() -> None:
    """The launch of an empty result."""


_CACHES: dict[Any, CubinCache] = {}


def _cache() -> CubinCache:
    """The cache of the directory that the environment names now."""
    at = default_directory()
    return _CACHES.get(at) or _CACHES.setdefault(at, CubinCache(at, __version__))
