"""Results that a kernel has in parts, one for each tile, and what puts the parts together.

A reduction within a kernel ends where a warpgroup's part of a tile ends. The parts are stored in
fp32, and reduced by a step behind the kernel: in a fixed order, so that equal inputs give equal
bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lowering.ground.expr import evaluate
from lowering.kernel.reduction import NEUTRAL
from wsched.fusion import DataType, Fusion, TensorBinding
from wsched.program.of_fusion import program_buffers
from wsched.program.program import CallStep, KernelStep, Program, Step
from wsched.run.reference import REDUCTIONS
from wsched.schedule.plan import Plan

if TYPE_CHECKING:
    import torch

__all__ = ["finished", "finishing", "functions", "in_parts", "parts_shape", "with_parts"]


@dataclass(frozen=True, slots=True)
class _Finish:
    """What makes a result of its parts.

    Args:
        op: ``sum``, ``max`` or ``min``.
        dims: dimensions of the parts that are reduced.
        kept: positions of the result's dimensions that are of size 1 because they were reduced.
        dtype: of the result.
    """

    op: str
    dims: tuple[int, ...]
    kept: tuple[int, ...]
    dtype: DataType

    def __call__(self, values: Sequence[Any]) -> Sequence[torch.Tensor]:
        """The result of the parts, a new tensor."""
        import torch

        (parts,) = values
        to = getattr(torch, self.dtype.element.torch)
        sizes = [n for d, n in enumerate(parts.shape) if d not in self.dims]
        if 0 in parts.shape:
            made = torch.full(sizes, NEUTRAL[self.op], dtype=to, device=parts.device)
        else:
            reduce = {"sum": torch.sum, "max": torch.amax, "min": torch.amin}[self.op]
            made = reduce(parts, self.dims).to(to)
        for position in self.kept:
            made = made.unsqueeze(position)
        return [made]


def parts_shape(
    fusion: Fusion, binding: TensorBinding, extents: Mapping[str, int]
) -> tuple[int, ...]:
    """Sizes of what a kernel stores of a result."""
    return tuple(evaluate(d.extent, extents) for d in fusion.tensor(binding.tensor).stored)


def finished(fusion: Fusion, binding: TensorBinding, parts: Any) -> Any:
    """A result of NumPy's without its dimensions of size 1, from what the kernel has stored."""
    if not in_parts(fusion, binding):
        return parts
    finish = _finish(fusion, binding)
    return REDUCTIONS[finish.op](parts, axis=finish.dims)


def in_parts(fusion: Fusion, binding: TensorBinding) -> bool:
    """Whether a result is stored in parts, and ``binding`` is of the whole."""
    stored = tuple(str(d.extent) for d in fusion.tensor(binding.tensor).stored)
    return fusion.reduction(binding.tensor) is not None and stored != binding.axes


def with_parts(plan: Plan) -> Plan:
    """The same plan with the parts themselves as results; ``plan`` where it has none."""
    fusion = plan.fusion
    if not any(in_parts(fusion, b) for b in fusion.outputs):
        return plan
    outputs = tuple(_parts(fusion, b) if in_parts(fusion, b) else b for b in fusion.outputs)
    return replace(plan, fusion=replace(fusion, outputs=outputs))


def _parts(fusion: Fusion, binding: TensorBinding) -> TensorBinding:
    stored = tuple(str(d.extent) for d in fusion.tensor(binding.tensor).stored)
    return TensorBinding(binding.tensor, stored, (None,) * len(stored), DataType.Float)


def finishing(plan: Plan, front: Program) -> Program:
    """A program whose last step is the plan's kernel, with what finishes its results behind it."""
    fusion, parts = plan.fusion, with_parts(plan)
    *before, kernel = front.steps
    assert isinstance(kernel, KernelStep)
    _, stored = program_buffers(parts.fusion)
    writes, after = list(kernel.writes), list[Step]()
    for at, binding in enumerate(fusion.outputs):
        if in_parts(fusion, binding):
            writes[at] = replace(stored[at], name=f"{kernel.writes[at].name}_parts")
            call = CallStep(_name(at), (writes[at],), (kernel.writes[at],), deterministic=True)
            after.append(call)
    own = KernelStep(kernel.kernel, parts, kernel.reads, tuple(writes))
    return Program(front.inputs, (*before, own, *after), front.outputs)


def functions(fusion: Fusion) -> Mapping[str, Callable[[Sequence[Any]], Sequence[torch.Tensor]]]:
    """What the calls behind the kernel do, by the names that :func:`finishing` gives them."""
    bound = enumerate(fusion.outputs)
    return {_name(at): _finish(fusion, b) for at, b in bound if in_parts(fusion, b)}


def _name(output: int) -> str:
    return f"finish{output}"


def _finish(fusion: Fusion, binding: TensorBinding) -> _Finish:
    """How the parts of a result are put together."""
    e = fusion.reduction(binding.tensor)
    assert e is not None
    stored = (str(d.extent) for d in fusion.tensor(binding.tensor).stored)
    dims = tuple(at for at, extent in enumerate(stored) if extent not in binding.axes)
    kept = tuple(at for at, axis in enumerate(binding.axes) if axis == "1")
    return _Finish(e.op, dims, kept, binding.dtype)
