"""How explanations of definitions are made: of one kernel, of a cut, of another way."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import Any

from lowering.ground.errors import UnsupportedError
from lowering.target.target import Target
from lowering.target.targets import DEFAULT
from wsched.choose.copy_cost import Copy
from wsched.choose.gpus import H200_SMS, Gpu
from wsched.choose.nvfuser_cost import NvfuserCost, nvfuser_cost
from wsched.choose.problem import Problem
from wsched.doors.fallback import rebuild, require_fitting, require_fitting_sizes, unknown_ops
from wsched.front.chosen import chosen_kernel
from wsched.front.cut.choose import Chosen, choose, translated
from wsched.front.cut.epilogues import Take
from wsched.front.cut.fates import fates, why_none, why_together
from wsched.front.cut.predict import Sizes, nvfuser_us
from wsched.front.cut.route import call_of, chosen_cut, cutter_of, part_of
from wsched.front.cut.segments import Cutter
from wsched.front.cut.sizes import open_extents, problem_extents
from wsched.front.cut.verdict import verdict
from wsched.front.explain_kernel import explain_given, explain_kernel, facts_of_part
from wsched.front.explanation import Explanation, PartFacts
from wsched.front.instead import why_instead
from wsched.front.known import import_fusion, recorded
from wsched.front.own import kernel_of
from wsched.front.problems import problem_of
from wsched.front.route import CUT, NOBODY, NVFUSER, TORCH, WSCHED, Part, Refusal
from wsched.fusion import Fusion
from wsched.importer import Definition, MissingOp, first_unknown, missing_ops, record_text
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.run.copies import copies
from wsched.run.layout import laid_out
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.schedule import Schedule

__all__ = [
    "PlannedCut", "explain_beside", "explain_cut", "explain_definition", "explain_on",
    "explain_other", "planned_cut", "under_install",
]  # fmt: skip


def explain_other(
    route: str,
    device: str,
    refusals: tuple[Refusal, ...],
    definition: Definition | UnsupportedError,
    missing: tuple[MissingOp, ...] = (),
) -> Explanation:
    """The explanation of a definition that is nvFuser's or torch's, or nobody's here."""
    cut = next((r.reason for r in refusals if r.what == CUT), "")
    matmuls = why_none(definition, cut) if isinstance(definition, Definition) else ()
    return Explanation(route, device, None, (), refusals, missing=missing, matmuls=matmuls)


def explain_cut(
    device: str,
    chosen: Chosen,
    parts: tuple[Part, ...],
    cutter: Cutter,
    refusals: tuple[Refusal, ...],
) -> Explanation:
    """The explanation of a definition that is cut.

    Args:
        device: where it runs, or what was planned for.
        chosen: how it is cut, with or without factors moved.
        parts: in the order in which they run.
        cutter: of the definition as it is.
        refusals: the ways before this one.
    """
    facts, names = list[PartFacts](), list[str]()
    for part in parts:
        kernel, copied = None, ""
        if part.kernel is not None and part.problem is not None:
            kernel = facts_of_part(part.kernel, part.problem)
            names.append(part.kernel.kernel.name)
            copied = "; ".join(f"{c.argument} is copied: {c.reason}" for c in part.copied)
        plain = PartFacts.of(part)
        into = tuple((n, at) for n, at in cutter.definition.into.items() if n in plain.writes)
        others = part.runs != WSCHED
        facts.append(
            replace(
                plain,
                kernel=kernel,
                copied=copied,
                views=tuple(map(str, part.looks)),
                kept=part.kept,
                sweep=part.sweep,
                into=into,
                joined=part.joined or why_together(cutter, chosen, part.definition) * others,
            )
        )
    return Explanation(
        CUT,
        device,
        None,
        (),
        refusals,
        nvfuser=_beside(cutter, translated(chosen.call, chosen.cutter, cutter)),
        parts=tuple(facts),
        matmuls=fates(chosen, names),
        predicted_us=chosen.cost.us,
    )


def under_install(
    definition: Any, call_of: Callable[[Cutter], Sizes], target: Target = DEFAULT
) -> str:
    """What ``wsched.install`` does with a call on a GPU.

    Args:
        definition: live, or a text.
        call_of: the call, from the ways to cut the definition.
        target: of the GPU.
    """
    if target is not DEFAULT:
        return f"nvFuser runs it all: no call is taken unasked on {target.gpu}, where none has run"
    try:
        cutter = cutter_of(recorded(definition))
        return str(verdict(cutter, call_of(cutter)))
    except UnsupportedError as e:
        return f"nvFuser runs it all: {e}"


def _alone(
    definition: Any, fusion: Fusion, problem: Problem, copied: tuple[Copy, ...] = ()
) -> NvfuserCost | None:
    """What nvFuser's own route takes of what is one kernel; None on a GPU where that was not
    measured.
    """
    if problem.target is not DEFAULT:
        return None
    return nvfuser_cost(recorded(definition), fusion, problem, copied)


def _beside(cutter: Cutter, call: Sizes) -> NvfuserCost | None:
    """What nvFuser's own route takes; None where that cannot be told, or was not measured."""
    if call.target is not DEFAULT:
        return None
    try:
        return nvfuser_us(cutter.all(Take.NONE).segments, call)
    except UnsupportedError:
        return None


@dataclass(frozen=True, slots=True)
class PlannedCut:
    """A cut for a device that need not be there.

    Args:
        cutter: of the definition as it is.
        chosen: how it is cut, with or without factors moved.
        parts: in the order in which they run; kernels are made, not compiled.
    """

    cutter: Cutter
    chosen: Chosen
    parts: tuple[Part, ...]

    def explain(self, device: str, refusals: tuple[Refusal, ...] = ()) -> Explanation:
        """The explanation; arguments as :func:`explain_cut`."""
        return explain_cut(device, self.chosen, self.parts, self.cutter, refusals)


def planned_cut(definition: Any, sms: int, target: Target = DEFAULT) -> PlannedCut:
    """How a definition is cut whose inputs are not there.

    Args:
        definition: live, or a text. Sizes that it leaves open are
            :data:`~wsched.front.cut.sizes.OPEN`.
        sms: multiprocessors to plan for.
        target: of the GPU.

    Raises:
        UnsupportedError: an operation that nobody knows; it may not be cut, or no matmul has a
            kernel.
    """
    return _planned(definition, lambda c: choose(c, _open_sizes(c, sms, target), may_leave=False))


def _planned(definition: Any, chosen: Callable[[Cutter], Chosen]) -> PlannedCut:
    operations = recorded(definition)
    if (nobodys := first_unknown(operations)) is not None:
        raise nobodys  # whatever else may be said of it
    cutter = cutter_of(operations)
    found = chosen(cutter)
    return PlannedCut(cutter, found, _planned_parts(found))


def _open_sizes(cutter: Cutter, sms: int, target: Target) -> Sizes:
    tensors = cutter.graph.types
    return Sizes(tensors, open_extents(cutter.definition, tensors), sms, target)


def _problem_sizes(cutter: Cutter, fusion: Fusion, problem: Problem) -> Sizes:
    tensors = cutter.graph.types
    extents = problem_extents(cutter.definition, tensors, fusion, problem)
    return Sizes(tensors, extents, problem.sms, problem.target)


def _planned_parts(chosen: Chosen) -> tuple[Part, ...]:
    rest, found = NVFUSER if find_spec("nvfuser_direct") else TORCH, list[Part]()
    for segment in chosen.cut.segments:
        if segment.matmul:
            p = chosen.call.planned(segment)
            kernel = chosen_kernel(p.fusion, p.problem)
            parts = kernel, p.problem, p.copied, segment.looks
            found.append(Part(WSCHED, segment.definition, *parts))
        else:
            found.append(part_of(segment, WSCHED if segment.own else rest, chosen.call))
    return tuple(found)


def explain_definition(
    definition: Any,
    device: str,
    problem_of: Callable[[Fusion], Problem],
    params: MatmulParams | None = None,
    sms: int = H200_SMS,
    target: Target = DEFAULT,
) -> Explanation:
    """The explanation without inputs, for a GPU that need not be there.

    Args:
        definition: live, or a text; or a schedule.
        device: how to call the GPU.
        problem_of: the problem to plan for, from the fusion.
        params: a schedule in place of the heuristic's; then there is only wsched's kernel.
        sms: multiprocessors of the GPU, where the definition is cut. Sizes that it leaves open are
            then :data:`~wsched.front.cut.sizes.OPEN`.
        target: of the GPU.

    Raises:
        UnsupportedError: an operation that nobody knows, or a text that leaves something open.
        ScheduleError: ``params`` make an illegal schedule.
        InputError: a problem that the definition excludes.
    """
    if isinstance(definition, Schedule):
        return explain_given(kernel_of(definition), problem_of(definition.fusion), device)
    if params is not None:
        fusion = import_fusion(definition)
        return explain_given(compile_fusion(fusion, params), problem_of(fusion), device)
    refusals = []
    sizes: Callable[[Cutter], Sizes] = partial(_open_sizes, sms=sms, target=target)

    def chosen(cutter: Cutter) -> Chosen:
        return choose(cutter, sizes(cutter), may_leave=False)

    try:
        fusion = import_fusion(definition)
        problem = problem_of(fusion)
        kernel = chosen_kernel(fusion, problem)
        sizes = partial(_problem_sizes, fusion=fusion, problem=problem)
        reason = why_instead(kernel, problem, (), recorded(definition), chosen, direct=True)
        if not reason:
            beside = _alone(definition, fusion, problem)
            made = explain_kernel(kernel, problem, device, nvfuser=beside)
            return replace(made, installed=under_install(definition, sizes, target))
        refusals.append(Refusal(WSCHED, reason))
    except UnsupportedError as e:
        refusals.append(Refusal(WSCHED, str(e)))
    try:
        made = _planned(definition, chosen).explain(device, tuple(refusals))
        require_fitting_sizes(recorded(definition))
        return replace(made, installed=under_install(definition, sizes, target))
    except UnsupportedError as e:
        refusals.append(Refusal(CUT, str(e)))
    with suppress(UnsupportedError):  # one that cannot be read is told of there
        require_fitting_sizes(recorded(definition))
    return _explain_others(definition, device, refusals)


def explain_on(
    gpu: Gpu,
    definition: Any,
    inputs: Sequence[Any],
    *,
    batch_invariant: bool = False,
    constants: Collection[int] = (),
) -> Explanation:
    """The explanation for inputs as if they were on a GPU that need not be there.

    Raises:
        InputError: the tensors do not fit the definition.
        UnsupportedError: an operation that nobody knows, or a text that leaves something open; with
            ``batch_invariant`` whatever has no single kernel.
    """

    def problem_on(fusion: Fusion) -> Problem:
        here = problem_of(fusion, inputs, batch_invariant=batch_invariant)
        return here.on(gpu)

    def chosen(cutter: Cutter) -> Chosen:
        return chosen_cut(cutter, inputs, gpu, constants)

    def installed() -> str:
        return under_install(definition, lambda cutter: call_of(cutter, inputs, gpu), gpu.target)

    if isinstance(definition, Schedule):
        kernel = kernel_of(definition)
        return explain_given(kernel, problem_on(kernel.fusion), str(gpu))
    refusals = []
    try:
        fusion = laid_out(import_fusion(definition), inputs)
        problem = problem_on(fusion)
        kernel = chosen_kernel(fusion, problem)
        needed = copies(fusion, inputs, kernel.by_threads)
        reason = (
            ""
            if batch_invariant
            else why_instead(kernel, problem, needed, recorded(definition), chosen, direct=True)
        )
        if not reason:
            made = explain_beside(definition, kernel, fusion, inputs, problem, str(gpu))
            return made if batch_invariant else replace(made, installed=installed())
        refusals.append(Refusal(WSCHED, reason))
    except UnsupportedError as e:
        if batch_invariant:  # there is no other way then
            raise
        refusals.append(Refusal(WSCHED, str(e)))
    try:
        made = _planned(definition, chosen).explain(str(gpu), tuple(refusals))
        require_fitting(recorded(definition), inputs)  # parts that nobody plans are asked, too
        return replace(made, installed=installed())
    except UnsupportedError as e:
        refusals.append(Refusal(CUT, str(e)))
    with suppress(UnsupportedError):  # one that cannot be read is told of there
        require_fitting(recorded(definition), inputs)
    return _explain_others(definition, str(gpu), refusals)


def explain_beside(
    definition: Any,
    kernel: CompiledFusion,
    fusion: Fusion,
    inputs: Sequence[Any],
    problem: Problem,
    device: str,
) -> Explanation:
    """The explanation of a kernel for inputs, beside what nvFuser's own route would take.

    Args:
        definition: what the kernel is of.
        kernel: that wsched takes.
        fusion: of the kernel, scheduled or not.
        inputs: of the call.
        problem: that they pose.
        device: for which the kernel is.
    """
    needed = copies(fusion, inputs, kernel.by_threads)
    odd = copies(fusion, inputs)  # for nvFuser, however wsched's kernel reads them
    beside = _alone(definition, fusion, problem, odd)
    return explain_kernel(kernel, problem, device, needed, beside)


def _explain_others(definition: Any, device: str, refusals: list[Refusal]) -> Explanation:
    """What nvFuser or torch does with a definition that wsched has no kernel for. Why it has none
    is told whether or not one of them is installed.

    Raises:
        UnsupportedError: an operation that nobody knows, or a text that leaves something open.
    """
    read = record_text(definition) if isinstance(definition, str) else recorded(definition)
    missing = missing_ops(read)
    try:
        operations = recorded(definition)
    except UnsupportedError as e:  # a text that leaves something open: nobody can run it
        raise UnsupportedError(e.what, e.supported, _listed(missing) or e.hint) from None
    if find_spec("nvfuser_direct") is None:
        refusals.append(Refusal(NVFUSER, "nvFuser is not installed"))
    else:
        try:
            rebuild(operations)
            return explain_other(NVFUSER, device, tuple(refusals), operations, missing)
        except UnsupportedError as e:
            refusals.append(Refusal(NVFUSER, str(e)))
    if (nobodys := first_unknown(operations)) is not None:
        raise nobodys
    if find_spec("torch") is None:
        refusals.append(Refusal(TORCH, "torch is not installed"))
    elif unknown := unknown_ops(operations):
        ops = ", ".join(f"fd.ops.{op}" for op in unknown)
        refusals.append(Refusal(TORCH, f"torch has no {ops}"))
    else:
        return explain_other(TORCH, device, tuple(refusals), operations, missing)
    return explain_other(NOBODY, device, tuple(refusals), operations, missing)


def _listed(missing: tuple[MissingOp, ...]) -> str:
    """Operations that wsched does not have, in one sentence; empty if there is none."""
    return f"wsched has no {'; '.join(map(str, missing))}" if missing else ""
