"""Operands that TMA cannot address where they lie: copied in front of each launch.

TMA wants one dimension contiguous, the other a multiple of 16 bytes apart, and such a base. Any
other operand (an odd K, a slice that starts at an odd element, every second column, an expanded
one) is copied into rows of a multiple of 128 bytes; whether that pays: ``wsched.choose.copy_cost``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import gcd
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import ONE, Expr, ceildiv
from lowering.target.ptx import TMA_STRIDE_ALIGN
from lowering.target.targets import DEFAULT
from wsched.choose.copy_cost import Copy
from wsched.choose.problem import ALIGNED, row_alignment
from wsched.fusion import Fusion, TensorBinding, computed_inputs
from wsched.importer.input_error import is_array
from wsched.program.of_fusion import program_buffers
from wsched.program.prepare import prepare
from wsched.program.program import Buffer, CopyStep, KernelStep, Program, Step
from wsched.run.row_copy import copy_rows
from wsched.schedule.plan import Plan

if TYPE_CHECKING:
    import torch

__all__ = [
    "alone",
    "any_order",
    "copied",
    "copies",
    "in_front",
    "operand_rows",
    "thread_bytes",
    "thread_widths",
    "tma_reads",
    "unreadable",
]

_WIDEST = TMA_STRIDE_ALIGN
"""Bytes that a thread copies with one instruction at most."""

COPIED_ROWS = ALIGNED
"""Bytes that the rows of a copy are a multiple of: as much as makes TMA faster."""


def tma_reads(tensor: torch.Tensor, cols: int) -> bool:
    """Whether TMA can read matrices where they lie, of which dimension ``cols`` is contiguous."""
    return _obstacle(tensor, cols) == ""


def _obstacle(tensor: torch.Tensor, cols: int, rows: int | None = None) -> str:
    """What TMA cannot do about a matrix, in words that call dimension ``rows`` so; empty if it can
    read it.

    Strides of dimensions of size 1 and of empty tensors mean nothing.
    """
    if 0 in tensor.shape:
        return ""
    if tensor.stride(cols) != 1 and tensor.shape[cols] > 1:
        return f"stride {tensor.stride(cols)} between neighbours"
    for dim in range(tensor.dim()):
        step = tensor.stride(dim) * tensor.element_size()
        if dim != cols and tensor.shape[dim] > 1 and (step <= 0 or step % TMA_STRIDE_ALIGN):
            what = "row to row" if dim == rows else "matrix to matrix"
            return f"{step} bytes from {what}, no positive multiple of {TMA_STRIDE_ALIGN}"
    if past := tensor.data_ptr() % TMA_STRIDE_ALIGN:
        return f"it starts {past} bytes past a multiple of {TMA_STRIDE_ALIGN}"
    return ""


Widths = Mapping[str, int]
"""Of the operands that the threads of a kernel load, by name, the bytes that one copies at once."""

NONE: Widths = MappingProxyType({})
"""TMA loads all operands."""


def copies(fusion: Fusion, inputs: Sequence[Any], widths: Widths = NONE) -> tuple[Copy, ...]:
    """The operands that a kernel of ``fusion`` needs copies of."""
    found = []
    for position, (binding, tensor) in enumerate(zip(fusion.inputs, inputs, strict=False)):
        if _is_operand(fusion, binding, tensor) and _needs(fusion, binding, tensor, widths):
            moved = 2 * tensor.numel() * tensor.element_size()
            if width := widths.get(binding.tensor, 0):
                reason = f"threads copy {width} bytes at once, here {thread_bytes(tensor)}"
            else:
                rows, cols = _order(fusion, binding)
                reason = _obstacle(tensor, cols, rows)
            found.append(Copy(f"input {position}", reason, moved))
    return tuple(found)


def unreadable(fusion: Fusion, inputs: Sequence[Any], widths: Widths = NONE) -> tuple[int, ...]:
    """Positions of the operands that a kernel cannot read in either order.

    What is no array, or has another type or rank, is none of them: it is for
    :func:`wsched.run.arguments.bind` to refuse.
    """
    pairs = enumerate(zip(fusion.inputs, inputs, strict=False))
    given = ((at, b, t) for at, (b, t) in pairs if _is_operand(fusion, b, t))
    return tuple(at for at, b, t in given if _needs(fusion, b, t, widths))


def operand_rows(fusion: Fusion, inputs: Sequence[Any]) -> dict[str, int]:
    """:func:`wsched.choose.problem.row_alignment` of operands as a kernel reads them, by name.

    Allocations begin at lines of the L2. What is no array is left out.
    """
    found: dict[str, int] = {}
    for binding, tensor in zip(fusion.inputs, inputs, strict=False):
        if _is_operand(fusion, binding, tensor):
            several = (d for d in range(tensor.dim()) if tensor.shape[d] > 1)
            steps = [step for d in several if (step := tensor.stride(d)) != 1]
            apart = [s * tensor.element_size() for s in (tensor.storage_offset(), *steps)]
            rows = COPIED_ROWS if _unreadable(fusion, binding, tensor) else row_alignment(*apart)
            found[binding.tensor] = min(rows, found.get(binding.tensor, rows))
    return found


def thread_widths(fusion: Fusion, inputs: Sequence[Any]) -> dict[str, int]:
    """Of the operands that TMA cannot read, but threads can, by name, the bytes that one can copy
    at once where they lie; not of those that stand side by side.
    """
    pairs = zip(fusion.inputs, inputs, strict=False)
    found = [(b, t) for b, t in pairs if b.entry is None]
    odd = {b.tensor: t for b, t in found if _is_operand(fusion, b, t) and _unreadable(fusion, b, t)}
    widths = ((name, thread_bytes(t), t.element_size()) for name, t in odd.items())
    return {name: width for name, width, size in widths if width >= size}


def in_front(plan: Plan, kernel: str, positions: Sequence[int]) -> Program:
    """A kernel with copies of some of its operands in front of it, each in whole rows for TMA.

    Args:
        plan: of the kernel.
        kernel: its name.
        positions: of the operands among the inputs of the definition.
    """
    fusion = plan.fusion
    passed, made = program_buffers(fusion)
    reads, copies = list(passed), list[Step]()
    for at in positions:
        target = _aligned(fusion, fusion.inputs[at], passed[at])
        copies.append(CopyStep(passed[at], target))
        reads[at] = target
    return Program(passed, (*copies, KernelStep(kernel, plan, tuple(reads), made)), made)


def alone(front: Program) -> Program:
    """The copies of such a program without its kernel and what follows it."""
    copies = tuple(s for s in front.steps if isinstance(s, CopyStep))
    return Program(front.inputs, copies, tuple(b for c in copies for b in c.writes))


def copied(front: Program, inputs: Sequence[Any]) -> list[Any]:
    """What the kernel of such a program reads: the inputs, with copies in place of some."""
    copies = alone(front)
    made = prepare(copies, {}, {}, inputs, copy_rows)(inputs)
    values = dict(zip((*copies.inputs, *copies.outputs), (*inputs, *made), strict=True))
    (kernel,) = (s for s in front.steps if isinstance(s, KernelStep))
    return [values[b] for b in kernel.reads]


def _is_operand(fusion: Fusion, binding: TensorBinding, tensor: Any) -> bool:
    if binding.tensor not in fusion.operands or not hasattr(tensor, "data_ptr"):
        return False
    named = is_array(tensor) and tensor.dim() == len(binding.axes)
    return named and str(tensor.dtype) == f"torch.{binding.dtype.element.torch}"


def any_order(fusion: Fusion, binding: TensorBinding) -> bool:
    """Whether an operand may lie with either dimension contiguous: the matrix instruction reads it
    so where its type allows that, threads that compute with it do not.
    """
    transposes = DEFAULT.mma.transposes(binding.dtype.element)
    return transposes and binding.tensor not in computed_inputs(fusion)


def _unreadable(fusion: Fusion, binding: TensorBinding, tensor: torch.Tensor) -> bool:
    """Whether TMA can read it in no order that the kernel takes; rows in groups go by rows only.

    One column lies in both orders: a kernel of rows reads a copy of it.
    """
    rows, cols = _order(fusion, binding)
    if tma_reads(tensor, cols):
        return False
    either = any_order(fusion, binding) and not fusion.ragged(binding.tensor)
    return not (either and tensor.shape[cols] != 1 and tma_reads(tensor, rows))


def _needs(fusion: Fusion, binding: TensorBinding, tensor: torch.Tensor, widths: Widths) -> bool:
    """Whether a kernel cannot read an operand where it lies, but could read a copy: that has rows
    of the same length, of which threads need multiples of what they copy at once.
    """
    if width := widths.get(binding.tensor, 0):
        _, cols = _order(fusion, binding)
        length = tensor.shape[cols] * tensor.element_size()
        return width > thread_bytes(tensor) and length % width == 0
    return _unreadable(fusion, binding, tensor)


def thread_bytes(tensor: torch.Tensor) -> int:
    """Bytes that a thread can copy at once of a matrix where it lies, at most 16; 0 where no
    dimension is contiguous.
    """
    if 0 in tensor.shape:
        return _WIDEST
    size = tensor.element_size()
    beside = [d for d in (tensor.dim() - 1, tensor.dim() - 2) if tensor.stride(d) == 1]
    single = [d for d in (tensor.dim() - 1, tensor.dim() - 2) if tensor.shape[d] == 1]
    if not (beside or single):
        return 0
    cols = (beside or single)[0]
    apart = [tensor.stride(d) for d in range(tensor.dim()) if d != cols and tensor.shape[d] > 1]
    return gcd(_WIDEST, tensor.data_ptr(), *(size * n for n in (*apart, tensor.shape[cols])))


def _order(fusion: Fusion, binding: TensorBinding) -> tuple[int, int]:
    """Which dimensions of the caller's tensor the kernel takes for rows and columns."""
    *_, rows, cols = (str(d.extent) for d in fusion.tensor(binding.tensor).in_memory)
    return binding.axes.index(rows), binding.axes.index(cols)


def _aligned(fusion: Fusion, binding: TensorBinding, source: Buffer) -> Buffer:
    """The buffer of a copy: the caller's dimensions, rows whole lines of the L2 apart."""
    if binding.dtype.element.packed > 1:
        what = f"{binding.tensor} of {binding.dtype}, whose rows TMA cannot read where they lie,"
        raise UnsupportedError(what, "rows of K contiguous, multiples of 16 bytes apart")
    rows, cols = _order(fusion, binding)
    step = COPIED_ROWS // binding.dtype.bytes
    strides: list[Expr] = [ONE] * len(source.shape)
    strides[rows] = pitch = ceildiv(source.shape[cols], step) * step
    whole = source.shape[rows] * pitch
    for dim in reversed(range(len(strides) - 2)):
        strides[dim], whole = whole, source.shape[dim] * whole
    return replace(source, name=f"{source.name}_copy", strides=tuple(strides))
