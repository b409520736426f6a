"""Results that a kernel has in parts, and what puts the parts together.

A reduction within a kernel ends where a warpgroup's part of a tile ends, and so may the sums of a
product, where a part of K ends. The parts are stored in fp32, and put together by a kernel behind
it: in a fixed order, so that equal inputs give equal bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lowering.ground.expr import Var, evaluate, substitute
from wsched.fusion import DataType, Fusion, TensorBinding
from wsched.fusion.summary import Extent, Result, Summary, Value, staged
from wsched.program.of_fusion import program_buffers
from wsched.program.program import Buffer, KernelStep, Program, SummaryStep
from wsched.run.adding import adding, with_rows_there
from wsched.run.reference import reduced
from wsched.run.summary import compiled_summary
from wsched.schedule.plan import Plan

__all__ = [
    "Parts", "finish_steps", "finished", "finishing", "in_parts_step", "parts_shape",
    "summary_steps", "with_parts",
]  # fmt: skip


def parts_shape(
    fusion: Fusion, binding: TensorBinding, extents: Mapping[str, int]
) -> tuple[int, ...]:
    """Sizes of what a kernel stores of a result; groups lie in the dimension that they share."""
    stored = (d.extent for d in fusion.tensor(binding.tensor).in_memory)
    groups = fusion.groups
    if groups is not None and fusion.ragged(binding.tensor):
        stored = (n for n in stored if str(n) != groups.axis)
    return tuple(evaluate(n, extents) for n in stored)


def finished(fusion: Fusion, binding: TensorBinding, parts: Any) -> Any:
    """A result of NumPy's without its dimensions of size 1, from what the kernel has stored."""
    if not fusion.in_parts(binding):
        return parts
    over, rounded = _over(fusion, binding), _rounded(fusion, binding)
    return reduced(_op(fusion, binding), parts, over, rounded)


def with_parts(plan: Plan) -> Plan:
    """The same plan with what the kernel itself stores as results: parts, and rows that it adds to
    what is in their memory; ``plan`` where it has neither.
    """
    plan = with_rows_there(plan)
    fusion = plan.fusion
    if not any(fusion.in_parts(b) for b in fusion.outputs):
        return plan
    outputs = tuple(_parts(fusion, b) if fusion.in_parts(b) else b for b in fusion.outputs)
    return replace(plan, fusion=replace(fusion, outputs=outputs))


def _parts(fusion: Fusion, binding: TensorBinding) -> TensorBinding:
    stored = _stored(fusion, binding)
    sizes = (None,) * len(stored)
    return TensorBinding(binding.tensor, stored, sizes, DataType.Float, of_parts=True)


@dataclass(frozen=True, slots=True)
class Parts:
    """What a kernel stores of a result.

    Args:
        buffer: the parts, in fp32.
        op: what puts them together, ``sum``, ``max`` or ``min``.
        over: the dimensions that it is over.
        rounded: the type that elements count as rounded to, and so the whole; None of others.
    """

    buffer: Buffer
    op: str
    over: tuple[int, ...]
    rounded: DataType | None


def finishing(plan: Plan, front: Program) -> Program:
    """A program whose last step is the plan's kernel, with what finishes its results behind it."""
    *before, kernel = front.steps
    assert isinstance(kernel, KernelStep)
    own, parts = in_parts_step(plan, kernel)
    after = finish_steps(plan, kernel, parts)
    return Program(front.inputs, *adding((*before, own, *after), front.outputs))


def in_parts_step(plan: Plan, kernel: KernelStep) -> tuple[KernelStep, dict[int, Parts]]:
    """A kernel that stores some of its results in parts, and which, by their positions.

    Args:
        plan: of the kernel, with the results as they should be.
        kernel: the step, which writes them.
    """
    fusion, parts = plan.fusion, with_parts(plan)
    _, stored = program_buffers(parts.fusion)
    sizes = {
        Var(axis): extent
        for binding, buffer in zip(fusion.inputs, kernel.reads, strict=True)
        for axis, extent in zip(binding.axes, buffer.shape, strict=False)
    }
    writes, found = list(kernel.writes), dict[int, Parts]()
    for at, binding in enumerate(fusion.outputs):
        if fusion.in_parts(binding):
            shape = tuple(substitute(extent, sizes) for extent in stored[at].shape)
            writes[at] = Buffer(f"{kernel.writes[at].name}_parts", stored[at].dtype, shape)
            rounded = _rounded(fusion, binding)
            found[at] = Parts(writes[at], _op(fusion, binding), _over(fusion, binding), rounded)
    return KernelStep(kernel.kernel, parts, kernel.reads, tuple(writes)), found


def finish_steps(
    plan: Plan, kernel: KernelStep, parts: Mapping[int, Parts]
) -> tuple[SummaryStep, ...]:
    """What puts parts together; those that lie alike by one kernel.

    Args:
        plan: of the kernel, with the results as they should be.
        kernel: the step, which writes them.
        parts: of its results, by their positions.
    """
    alike = dict[tuple[object, ...], list[int]]()
    for at, found in parts.items():
        alike.setdefault((found.buffer.shape, found.over), []).append(at)
    steps = list[SummaryStep]()
    for places in alike.values():
        whole = _finish(plan.fusion, [plan.fusion.outputs[at] for at in places])
        reads = [parts[at].buffer for at in places]
        steps += summary_steps(whole, reads, [kernel.writes[at] for at in places], parts=True)
    return tuple(steps)


def summary_steps(
    summary: Summary, reads: Sequence[Buffer], writes: Sequence[Buffer], parts: bool = False
) -> list[SummaryStep]:
    """The steps of a summary, one for each of its stages.

    Args:
        summary: what is computed, in any number of stages.
        reads: for each input.
        writes: for each result.
        parts: whether the inputs are parts of reductions, the parts outermost.
    """
    known = {v.name: b for v, b in zip(summary.inputs, reads, strict=True)}
    steps, stages = list[SummaryStep](), staged(summary, parts)
    for stage in stages:
        made = tuple(writes)
        if stage is not stages[-1]:
            shape = known[stage.inputs[stage.tensor].name].shape
            made = tuple(
                Buffer(
                    f"{writes[0].name}_{r.value}",
                    stage.value(r.value).dtype.element,
                    tuple(shape[d] for d in r.dims if d is not None),
                )
                for r in stage.results
            )
        given = tuple(known[v.name] for v in stage.inputs)
        steps.append(SummaryStep(compiled_summary(stage).name, stage, given, made))
        known |= {r.value: b for r, b in zip(stage.results, made, strict=True)}
    return steps


def _finish(fusion: Fusion, bindings: Sequence[TensorBinding]) -> Summary:
    """How the parts of results are put together that lie alike."""
    stored = _stored(fusion, bindings[0])
    given, made, results = list[Value](), list[Value](), list[Result]()
    for number, binding in enumerate(bindings):
        part, whole = f"part{number}", f"whole{number}"
        given.append(Value(part, "input", DataType.Float, (), Extent.TENSOR))
        dtype = _rounded(fusion, binding) or binding.dtype
        made.append(Value(whole, _op(fusion, binding), dtype, (part,), Extent.KEPT))
        if dtype is not binding.dtype:
            rounded, whole = whole, f"result{number}"
            made.append(Value(whole, "cast", binding.dtype, (rounded,), Extent.KEPT))
        dims = tuple(None if axis == "1" else stored.index(axis) for axis in binding.axes)
        results.append(Result(whole, dims))
    return Summary(len(stored), _over(fusion, bindings[0]), (*given, *made), tuple(results))


def _op(fusion: Fusion, binding: TensorBinding) -> str:
    """What puts the parts of a result together."""
    op = fusion.together(binding.tensor)
    assert op is not None
    return op


def _rounded(fusion: Fusion, binding: TensorBinding) -> DataType | None:
    """The type that elements of a result that is a reduction count as rounded to."""
    reduction = fusion.reduction(binding.tensor)
    return None if reduction is None else reduction.rounded


def _over(fusion: Fusion, binding: TensorBinding) -> tuple[int, ...]:
    """Dimensions of the parts of a result that are reduced."""
    stored = fusion.tensor(binding.tensor).in_memory
    return tuple(at for at, d in enumerate(stored) if d.rfactor_product)


def _stored(fusion: Fusion, binding: TensorBinding) -> tuple[str, ...]:
    """The dimensions of what a kernel stores of a result, in the order of memory."""
    return tuple(str(d.extent) for d in fusion.tensor(binding.tensor).in_memory)
