"""A scheduled and lowered fusion that runs: a call, a launch for given tensors, a trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

from lowering.ground.collector import paused
from lowering.ground.log import log
from lowering.nest.lower import lower
from lowering.target.target import Target
from passes.dump import dumper_from_environment
from passes.pipeline import run_passes
from wsched.fusion import Fusion
from wsched.program.bind import bind as bind_program
from wsched.program.classes import Key, class_key
from wsched.program.given import into_given
from wsched.program.prepare import Into, Kernel, prepare
from wsched.program.program import Program
from wsched.program.versions import counter, require_unrecorded
from wsched.run.arguments import Arguments, bind, device_of, extents_of
from wsched.run.copies import copied, in_front, unreadable
from wsched.run.counts import admitted_by
from wsched.run.cpu import refuse_large
from wsched.run.finish import finishing, with_parts
from wsched.run.host import BoundLaunch, HostPlan, Plans, Run, repeated, repeated_into
from wsched.run.kernel_name import kernel_name
from wsched.run.lowering_options import lowering_options
from wsched.run.made import STAGES, dump_scheduled
from wsched.run.on_device import OnDevice
from wsched.run.once import once
from wsched.run.overlap import InPlace, Pack, apart, disjoint, never, require_disjoint, written_over
from wsched.run.prints import warn_of_prints
from wsched.run.proving import prove_if_asked
from wsched.run.results import NTH_OUT, results
from wsched.run.row_copy import copy_rows
from wsched.run.staged import StagedPlan, makes_of, staged_packer
from wsched.run.summary import kernels_of
from wsched.run.together import together
from wsched.run.watched import WATCHED
from wsched.schedule.configure import printing
from wsched.schedule.matmul.kernel_options import kernel_options
from wsched.schedule.matmul.limits import settled
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.matmul.scheduler import plan_matmul
from wsched.schedule.options import DebugPrint, KernelOptions
from wsched.schedule.plan import Plan
from wsched.schedule.registers import require_registers
from wsched.trace.timeline import joined

if TYPE_CHECKING:
    import torch

    from wsched.trace.timeline import Trace

__all__ = ["CompiledFusion", "compile_fusion", "compile_plan"]

Out: TypeAlias = "torch.Tensor | Sequence[torch.Tensor] | None"
"""Where results are wanted: in these tensors, a single one as it is, or in new ones."""
Launch: TypeAlias = Callable[[], None]


@paused()
def compile_fusion(
    fusion: Fusion,
    params: MatmulParams,
    target: Target | None = None,
    name: str = "",
    prints: Iterable[DebugPrint] = (),
) -> CompiledFusion:
    """Schedule and lower a fusion; NVRTC runs when the kernel is first needed on a GPU.

    It is for ``target``, by default that of the parameters' instruction, and called ``name``, a C
    identifier, by default what it does and how; ``prints`` are lines that it prints. Where
    the parameters leave the registers open, this takes the first candidate as it is;
    :func:`wsched.run.registers.compile_clean` compiles to choose.

    Raises:
        ScheduleError: the parameters make an illegal schedule, or a line is of what is not there.
        UnsupportedError: they are legal, but there is no lowering for them.
    """
    if params.siblings:
        make = partial(compile_fusion, fusion, target=target, prints=prints)
        return together(fusion, params, make)  # each with the name that it has alone
    begin = perf_counter()
    target = target or params.mma_macro.target
    made = plan_matmul(fusion, params, target)
    params = settled(fusion, params, target)
    name = name or kernel_name(fusion, params)
    options = kernel_options(fusion, params)
    for line in prints:
        options = printing(made.fusion, options, line)
    return replace(_lowered(made, options, name, begin), made_from=params)


@paused()
def compile_plan(made: Plan, options: KernelOptions, name: str) -> CompiledFusion:
    """Lower a schedule that has been proved; NVRTC runs when the kernel is first needed on a GPU.

    Args:
        made: the schedule.
        options: what it says beside loops.
        name: of the kernel, a C identifier.

    Raises:
        ScheduleError: a limit of the device that the proof does not know, such as shared memory.
        UnsupportedError: there is no lowering for it.
        InternalError: ``WSCHED_PROOF`` asks for a proof, which refutes the kernel.
    """
    return _lowered(made, options, name, perf_counter())


def _lowered(made: Plan, options: KernelOptions, name: str, begin: float) -> CompiledFusion:
    """The kernel, for whoever began to make it then; every kernel for a matmul comes by here."""
    dumper = dumper_from_environment(name, STAGES)
    if dumper is not None:
        dump_scheduled(made, dumper)
    require_registers(made)
    told = lowering_options(made, options)
    name += WATCHED * bool(told.watchdog)
    tile_level = lower(made, name, options.vector, dict(options.copied_bytes), options.prints)
    if options.prints:
        warn_of_prints(tile_level)
    kernel = run_passes(tile_level, told, dumper)
    log("kernel", lambda: f"{kernel.name} made in {perf_counter() - begin:.2g} s")
    prove_if_asked(kernel, admitted_by(made))
    compiled = CompiledFusion(made, told, tile_level, kernel, options.vector)
    if dumper is not None:
        compiled.dump_code(dumper)
    return compiled


@dataclass(frozen=True, repr=False)
class CompiledFusion(OnDevice):
    """One kernel class of a fusion: any M, N, K, strides and grid run on it."""

    def __call__(self, *inputs: torch.Tensor, out: Out = None) -> list[torch.Tensor]:
        """Run on torch's current stream, or on the machine model if the tensors are on the CPU.

        Args:
            inputs: tensors in the order of the definition, all on one device.
            out: tensors to write the results to, instead of new ones; a tensor alone stands for a
                list of it.

        Raises:
            InputError: the tensors do not fit the definition, or ``out`` lies where inputs do; an
                input of the epilogue that is just like a result may be written over. Or ``out``
                requires gradients while torch records.
            UnsupportedError: a layout that TMA cannot address, a device without this kernel's
                instructions, or a CPU problem too large for the machine.
        """
        return self.call(inputs, class_key(inputs)) if out is None else self._call_into(inputs, out)

    def _call_into(self, inputs: Sequence[Any], out: Any) -> list[torch.Tensor]:
        """A call with results that are there; what is checked is kept for the class of both."""
        outputs = [out] if hasattr(out, "data_ptr") else out
        classes = class_key(inputs), class_key(outputs)
        into = self._intos.get(classes)
        if into is not None:
            require_unrecorded(outputs := [*outputs], NTH_OUT)
            into(inputs, outputs)
        elif None in classes:
            outputs = self.call(inputs, None, out)
        else:
            found = self._first_into(inputs, outputs := [*outputs])
            if found is not None:
                self._intos.add(classes, found)
        counter()(outputs)
        return outputs

    def call(self, inputs: Sequence[Any], key: Key | None, out: Any = None) -> list[torch.Tensor]:
        """A call by its :func:`~wsched.program.classes.class_key`, None with ``out``."""
        plan = self._plans.get(key)
        if plan is not None:
            return plan(inputs)
        if (front := self._front(inputs)) is not None:
            return self._call_behind(front, inputs, key, out)
        arguments, outputs, launch = self._packed(inputs, out)
        if key is not None and not self.simulates(arguments.device):
            self._plans.add(key, self._plan(arguments, inputs, outputs, launch))
        launch()
        return outputs

    def _packed(
        self, inputs: Sequence[Any], out: Any
    ) -> tuple[Arguments, list[torch.Tensor], Launch]:
        """What a launch for these tensors takes, its results, and itself."""
        arguments = self._arguments(inputs)
        outputs = self._results(arguments, inputs, out)
        return arguments, outputs, self._pack(arguments, outputs)

    def _plan(
        self, arguments: Arguments, inputs: Sequence[Any], outputs: Sequence[torch.Tensor],
        launch: Launch, given: bool = False,
    ) -> HostPlan | StagedPlan:  # fmt: skip
        """How calls like ``launch`` run; where they are ``given`` results, they are checked."""
        makes = makes_of(self.fusion, arguments, inputs, self.vector)
        read = inputs
        pack: Pack = self._packer
        if makes:
            first = [arguments.matrices[b.key] for b in self.fusion.inputs]
            read = [first[at] if at in makes else t for at, t in enumerate(inputs)]
            known = self.fusion, arguments, makes, self.vector, self._pack, self.by_threads
            pack = staged_packer(*known)
        plan = HostPlan(disjoint(self.fusion, pack) if given else pack, read, outputs, launch)
        return StagedPlan(plan, makes) if makes else plan

    def _call_behind(
        self, front: Program, inputs: Sequence[Any], key: Key | None, out: Any
    ) -> list[torch.Tensor]:
        """A call with copies in front, or with reductions to finish; it is kept for the class."""
        if out is not None:
            outputs = self._given_behind(inputs, out)
            return self._into_behind(front, inputs, outputs)(inputs, outputs)
        run = prepare(front, self._kernels(front), {}, inputs, copy_rows)
        outputs = run(inputs)
        if key is not None:
            self._plans.add(key, run)
        return outputs

    def repeated(self) -> Callable[[Sequence[Any]], list[torch.Tensor]]:
        """A function for calls on inputs of one class, which it looks at in the first call only."""
        return repeated(self.call, self._plans)

    def repeated_into(self) -> Into:
        """The same with results that are there, which may lie as ``out`` of a call may."""
        return repeated_into(self._first_into)

    def _first_into(self, inputs: Sequence[Any], outputs: list[torch.Tensor]) -> Into | None:
        """A call with results that are there; how further ones run, where that is kept."""
        if (front := self._front(inputs)) is not None:
            into = self._into_behind(front, inputs, self._given_behind(inputs, outputs))
            into(inputs, outputs)
            return into
        if self.simulates(device_of(inputs)):
            self.call(inputs, None, outputs)
            return None
        arguments, outputs, launch = self._packed(inputs, outputs)
        plan = self._plan(arguments, inputs, outputs, launch, given=True)
        launch()
        return plan.into

    def packed(self, inputs: Sequence[Any], outputs: list[torch.Tensor]) -> Launch | None:
        """A launch for these tensors that knows addresses only; None where calls make more."""
        if self._front(inputs) is not None:
            return None
        arguments, _, launch = self._packed(inputs, outputs)
        return None if makes_of(self.fusion, arguments, inputs, self.vector) else launch

    def bind(self, *inputs: torch.Tensor, out: Out = None) -> BoundLaunch:
        """Check and pack a call for these very tensors; calling the result launches it.

        Inputs that the kernel cannot read where they lie are copied again by each launch. Arguments
        and errors as for a call.
        """
        if (front := self._front(inputs)) is not None:
            return self._bind_behind(front, inputs, out)
        arguments, outputs, launch = self._packed(inputs, out)
        if not makes_of(self.fusion, arguments, inputs, self.vector):
            return BoundLaunch(launch, inputs, outputs)
        into = self._plan(arguments, inputs, outputs, launch).into
        return BoundLaunch(lambda: into(inputs, outputs), inputs, outputs)

    def _bind_behind(self, front: Program, inputs: Sequence[Any], out: Any) -> BoundLaunch:
        outputs = self._given_behind(inputs, out)
        launch, made = bind_program(front, self._kernels(front), {}, inputs, outputs, copy_rows)
        return BoundLaunch(launch, inputs, made)

    def _into_behind(self, front: Program, inputs: Sequence[Any], outputs: Sequence[Any]) -> Into:
        """How calls with inputs and results like these run; nothing runs yet."""
        program, both = into_given(front), (*inputs, *outputs)
        run = prepare(program, self._kernels(program), {}, both, copy_rows, counted=False)
        return apart(self.fusion, lambda given, into: run((*given, *into)))

    def _given_behind(self, inputs: Sequence[Any], out: Any) -> list[torch.Tensor]:
        """The results of such a call, checked; new ones where none are given."""
        extents = extents_of(self.fusion, inputs)
        return self._results(Arguments(extents, {}, device_of(inputs)), inputs, out)

    def _kernels(self, front: Program) -> dict[str, Kernel]:
        """What the steps of such a program run: the kernel waits for copies of its operands."""
        return {self.kernel.name: self.alone.behind, **kernels_of(front.steps)}

    def _front(self, inputs: Sequence[Any]) -> Program | None:
        """The kernel with the copies that these inputs need in front, and what finishes its
        results behind; None if there are neither.
        """
        positions = unreadable(self.fusion, inputs, self.by_threads)
        if not positions and not self.finishes:
            return None
        extents_of(self.fusion, inputs)  # which refuse what a copy would hide
        device_of(inputs)
        front = in_front(self.plan, self.kernel.name, positions)
        return finishing(self.plan, front) if self.finishes else front

    def admit_into(self, inputs: Sequence[Any], outputs: Sequence[torch.Tensor]) -> None:
        """Check that calls may store results where these lie, with memory or without.

        Raises:
            UnsupportedError: the kernel cannot store one of them so.
        """
        self.add_outputs(self._arguments(self._copied(inputs)), list(outputs))

    @property
    def finishes(self) -> bool:
        """Whether results are stored in parts, which are reduced behind the kernel, or added to
        what is copied in front of it.
        """
        return self.alone is not self

    @once
    def alone(self) -> CompiledFusion:
        """The kernel with what it stores itself as results, see :func:`with_parts`; itself where
        that is what a caller gets.
        """
        plan = with_parts(self.plan)
        return self if plan is self.plan else replace(self, plan=plan)

    @once
    def by_threads(self) -> dict[str, int]:
        """Of the operands that threads load, by name, the bytes that one copies at once."""
        fusion = self.plan.fusion
        names = {fusion.source(t).name for t in fusion.loaded_by_threads} & {*fusion.operands}
        found = (g for g in self.tile_level.globals if g.name in names)
        return {g.name: max(g.align, g.dtype.bytes) for g in found}

    def _copied(self, inputs: Sequence[Any]) -> Sequence[Any]:
        front = self._front(inputs)
        return inputs if front is None else copied(front, inputs)

    def _arguments(self, inputs: Sequence[Any]) -> Arguments:
        return bind(self.fusion, inputs, self.vector, self.by_threads)

    def trace(self, *inputs: torch.Tensor, out: Out = None) -> Trace:
        """Run with clocks: when each warp waited, computed and stored; ``out`` as a call writes it.
        Kernels that share groups out run one behind the other, and are one time line.

        Arguments and errors as for a call. On a GPU it runs twice and waits for the device, so that
        no input may be written over.
        """
        if self.finishes:
            return self.alone.trace(*inputs, out=out)
        arguments = self._arguments(self._copied(inputs))
        outputs = self._results(arguments, inputs, out, never)
        found = joined([k.stamped(arguments, outputs) for k in self.launched])
        counter()(outputs)
        return found

    @once
    def _plans(self) -> Plans[Run]:
        return Plans()

    @once
    def _intos(self) -> Plans[Into]:
        return Plans()

    def _packer(self, inputs: Sequence[Any], outputs: Sequence[torch.Tensor]) -> Launch:
        return self._pack(self._arguments(inputs), outputs)

    def _results(
        self, arguments: Arguments, inputs: Sequence[Any], out: Out, in_place: InPlace | None = None
    ) -> list[torch.Tensor]:
        outputs = results(self.fusion, arguments, out)
        if out is not None:
            require_disjoint(inputs, outputs, in_place or written_over(self.fusion))
        return outputs

    def admit(self, inputs: Sequence[torch.Tensor]) -> None:
        """Check that a call would be taken, without running it or allocating results.

        On a GPU this compiles and loads the kernel, on the CPU it estimates the run.

        Raises:
            InputError, UnsupportedError: as a call.
        """
        import torch

        if self.finishes:
            return self.alone.admit(inputs)
        arguments = self._arguments(self._copied(inputs))
        outputs = results(self.fusion, replace(arguments, device=torch.device("meta")), None)
        self.add_outputs(arguments, outputs)
        if 0 in outputs[0].shape:
            return
        if not self.simulates(arguments.device):
            self._load(arguments.device)
        for grid in self.grids:
            grid.ctas_on(arguments.device, arguments.extents)
        if self.simulates(arguments.device):
            refuse_large(self.kernel, arguments.extents)
