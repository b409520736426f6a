"""A linear whose weights have 8 bits, or 4: ``wsched.linear``.

The call is a definition that wsched writes: a cast in front of the product, which the threads that
multiply make in registers (design/0032-computed-operands.md), scales and a bias behind it. Where it
is predicted to be faster the weights are widened first, and a kernel of 16 bits multiplies.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from lowering.ground.errors import UnsupportedError
from lowering.ground.frozen import replaced
from lowering.target.ptx import TMA_STRIDE_ALIGN
from wsched.choose.price import price
from wsched.doors.fallback.torch_products import along_k
from wsched.front.known import import_fusion
from wsched.front.opaque import opaque, operator
from wsched.front.problems import problem_of
from wsched.front.written import (
    FLOATS,
    INTEGERS,
    PACKED,
    Call,
    definition,
    run,
    run_class,
    tensor_line,
    torch_names,
    type_of_torch,
)
from wsched.fusion import DataType
from wsched.importer.input_error import InputError, require_tensor
from wsched.importer.scales import GROUPS
from wsched.importer.watched import is_traced
from wsched.program.classes import Key, class_key
from wsched.run.copies import tma_reads
from wsched.run.layout import laid_out
from wsched.run.words import sizes_of

if TYPE_CHECKING:
    import torch

__all__ = ["linear", "linear_call"]

_ROWS = (DataType.BFloat16, DataType.Half)
_VECTORS = (DataType.Float, *_ROWS)

_WIDENING_US, _FURTHER_US, _WIDENED_BYTES_PER_US = 6.0, 2.0, 1.1e6
"""What torch takes to widen elements of 8 bits: its kernel's start, with that of the product behind
it, each further kernel's, and bytes that they read and write. 64 MiB of int8 in 182 us, of e4m3 in
207 (``python -m wsched.bench.weights``, H200, 2026-11-22)."""

_UNPACKED, _SHIFTED = (3, 4.0), (2, 16.0)
"""Kernels more, and bytes that they read and write for each element, counted by what
:func:`_widened` does: of integers of 4 bits, whose bytes are masked and shifted and stand side by
side then; of zero points, which are taken away in fp32."""

_CLASSES = 1024
"""Classes of inputs for which the way is remembered."""

_first: dict[tuple[_Form, Key], bool] = {}
"""Whether weights are widened first."""


def linear(
    x: torch.Tensor,
    w: torch.Tensor,
    scale: torch.Tensor | None = None,
    zero: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    group: int | None = None,
) -> torch.Tensor:
    """``x · ((w - zero) * scale)ᵀ + bias``, summed in fp32 and rounded once.

    ``w - zero`` is rounded to the type of ``x``: exact without ``zero``, and of integers of 8 bits
    where that is an integer of 8 bits as well. Zero points of the type of ``x`` take threads a
    fifth of the instructions that those of fp32 take. The scales multiply the sums, in fp32: those
    of all of K, or, with ``group``, those of each so many of K, before they are added.

    Integers of 4 bits, from 0 to 15, are eight in each word of ``int32`` along K, the first one in
    its lowest bits.

    The weights are read as they are and widened by the threads that multiply, or by a kernel in
    front where that is predicted to be faster, as it is for many rows.

    Args:
        x: [..., K] of ``bfloat16`` or ``float16``.
        w: [N, K] of ``int8``, ``uint8``, ``float8_e4m3fn`` or ``float8_e5m2``, or [N, K / 8] of
            ``int32``. Read where it lies if it is row-major and rows are multiples of 16 bytes
            apart; else copied by every call.
        scale: fp32 [N], of each output column; with ``group`` [N, K / group], the last group
            of what is left of K, either dimension contiguous, else copied by every call.
        zero: of the type of ``x`` or fp32, [N], or [N, K / group].
        bias: [N] of ``float32``, ``bfloat16`` or ``float16``.
        group: 32, 64 or 128.

    Returns:
        [..., N] of the type of ``x``; gradients stop here. On CPU tensors the machine model
        computes it.

    Raises:
        InputError: shapes or devices that do not fit each other.
        UnsupportedError: other types than these.
    """
    if is_traced():
        made: torch.Tensor = opaque("linear", x, w, scale, zero, bias, group)
        return made
    form, inputs = _form(x, w, scale, zero, bias, group)
    key = class_key(inputs)
    if _widens_first(form, inputs, key):
        form, inputs = _widened(form, inputs)
        made = run(_text(form), inputs)
    else:
        made = run_class(_text(form), inputs, key)
    return made if x.dim() == 2 else made.reshape(*x.shape[:-1], w.shape[0])


def _shapes(x: torch.Tensor, w: torch.Tensor, *_: Any) -> torch.Tensor:
    _require_operands(x, w)
    return x.new_empty(*x.shape[:-1], w.shape[0])


operator(
    "linear(Tensor x, Tensor w, Tensor? scale, Tensor? zero, Tensor? bias, int? group) -> Tensor",
    linear, _shapes,
)  # fmt: skip


def linear_call(
    x: torch.Tensor,
    w: torch.Tensor,
    scale: torch.Tensor | None = None,
    zero: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    group: int | None = None,
) -> Call:
    """What :func:`linear` runs where threads widen the weights; arguments and errors as there."""
    form, inputs = _form(x, w, scale, zero, bias, group)
    return _text(form), inputs


@dataclass(frozen=True, slots=True)
class _Form:
    """What is written: types, None of what there is not.

    Args:
        x: of the rows.
        w: of the weights; None where they are as the rows.
        zero: of what is taken from the weights.
        scale: of the factors behind the product.
        bias: of what is added.
        group: K that each of the scales is for; None for all of it.
        shifted: whether each of the zero points is for so much.
    """

    x: DataType
    w: DataType | None
    zero: DataType | None
    scale: DataType | None
    bias: DataType | None
    group: int | None = None
    shifted: bool = False


def _form(
    x: torch.Tensor, w: torch.Tensor, scale: torch.Tensor | None, zero: torch.Tensor | None,
    bias: torch.Tensor | None, group: int | None,
) -> tuple[_Form, list[torch.Tensor]]:  # fmt: skip
    """What is to be written for these arguments, and its inputs."""
    _require_operands(x, w)
    if type_of_torch(w.dtype) in PACKED:
        w = _rows_apart(w)
    vectors = {"zero": zero, "scale": scale, "bias": bias}
    groups = _grouped(x.shape[-1], scale, group)
    shifted = group is not None and getattr(zero, "ndim", 1) > 1
    sizes = {"scale": groups, "zero": groups if shifted else ()}
    kind = type_of_torch(x.dtype)
    types = {"zero": (DataType.Float, kind), "bias": _VECTORS}
    zeros, scales, biases = (
        _vector(name, v, (w.shape[0], *sizes.get(name, ())), types.get(name, (DataType.Float,)))
        for name, v in vectors.items()
    )
    rows = x if x.dim() == 2 else x.flatten(0, -2)
    form = _Form(kind, type_of_torch(w.dtype), zeros, scales, biases, group, shifted)
    return form, [rows, w, *(v for v in vectors.values() if v is not None)]


def _rows_apart(words: torch.Tensor) -> torch.Tensor:
    """Words whose rows TMA can read: as they lie, or copied where they are apart otherwise."""
    if tma_reads(words, 1):
        return words
    step = TMA_STRIDE_ALIGN // words.element_size()
    rows, columns = words.shape
    return words.new_empty(rows, -(-columns // step) * step)[:, :columns].copy_(words)


def _widens_first(form: _Form, inputs: list[torch.Tensor], key: Key | None) -> bool:
    """Whether it is predicted to be faster to widen the weights first; found once for a class."""
    found = None if key is None else _first.get((form, key))
    if found is None:
        found = _loses(form, inputs)
        if key is not None:
            if len(_first) >= _CLASSES:
                _first.clear()
            _first[form, key] = found
    return found


def _loses(form: _Form, inputs: list[torch.Tensor]) -> bool:
    fusion = laid_out(import_fusion(_text(form)), inputs)
    problem = problem_of(fusion, inputs)
    wide = price(replaced(problem, computed=None)).us + _widening_us(form, problem.n * problem.k)
    try:
        return price(problem).us > wide
    except UnsupportedError:  # no tile whose operand registers hold
        return True


def _widening_us(form: _Form, elements: int) -> float:
    """Of torch's kernels in front that widen so many."""
    assert form.w is not None
    packed = form.w in PACKED
    more = [_UNPACKED] * packed + [_SHIFTED] * (form.zero is not None)
    bytes_ = (1 if packed else form.w.bytes) + form.x.bytes + sum(moved for _, moved in more)
    starts = _WIDENING_US + _FURTHER_US * sum(kernels for kernels, _ in more)
    return starts + bytes_ * elements / _WIDENED_BYTES_PER_US


def _widened(form: _Form, inputs: list[torch.Tensor]) -> tuple[_Form, list[torch.Tensor]]:
    """The same with weights that are widened already."""
    import torch

    x, w, *vectors = inputs
    if form.w is DataType.UInt4:
        if w.stride(1) != 1:  # of one word in a row, or none
            w = w.clone(memory_format=torch.contiguous_format)
        two = w.view(torch.uint8)
        w = torch.stack((two & 15, two >> 4), -1).flatten(1)
    if form.zero is not None:
        zero, *vectors = vectors
        each = zero[:, None]
        if form.group is not None and form.shifted:
            each = along_k(zero, form.group, w.shape[1])
        w = w.to(torch.float32).sub_(each)
    form = replace(form, w=None, zero=None, shifted=False)
    return form, [x, w.to(x.dtype), *vectors]


@lru_cache(maxsize=64)
def _text(form: _Form) -> str:
    """The definition."""
    row, column = "is_broadcast_dim=[True, False]", "is_broadcast_dim=[False, True]"
    given = {"zero": form.zero, "scale": form.scale, "bias": form.bias}
    lines = [tensor_line("x", (-1, -1), form.x), tensor_line("q", (-1, -1), form.w or form.x)]
    shapes = {"scale": (-1, -1)} if form.group else {}
    shapes |= {"zero": (-1, -1)} if form.shifted else {}
    lines += [
        tensor_line(name, shapes.get(name, (-1,)), kind)
        for name, kind in given.items() if kind is not None
    ]  # fmt: skip
    weights = "q"
    if form.zero is not None and not form.shifted:
        lines += [
            "wide = fd.ops.cast(q, dtype=DataType.Float)",
            f"shift = fd.ops.broadcast(zero, {column})",
            "shifted = fd.ops.sub(wide, shift)",
        ]
        weights = "shifted"
    if form.w is not None:
        lines.append(f"w = fd.ops.cast({weights}, dtype={form.x!r})")
        weights = "w"
    behind = [(op, name) for op, name in (("mul", "scale"), ("add", "bias")) if given[name]]
    inside = ""
    if form.group:
        behind = [x for x in behind if x[1] != "scale"]
        shift = ", zero_b=zero" if form.shifted else ""
        inside = f", scale_b=scale{shift}, group={form.group}"
    made = "sums" if behind else "d"
    wide = f", dtype={DataType.Float!r}" if behind else ""
    lines.append(f"{made} = fd.ops.linear(x, {weights}{inside}{wide})")
    for op, name in behind:
        lines.append(f"{name}s = fd.ops.broadcast({name}, {row})")
        lines.append(f"{op} = fd.ops.{op}({made}, {name}s)")
        made = op
    if behind:
        lines.append(f"d = fd.ops.cast({made}, dtype={form.x!r})")
    return definition(*lines)


def _require_operands(x: Any, w: Any) -> None:
    """Matrices whose sizes fit, of types that are multiplied."""
    for name, tensor in (("x", x), ("w", w)):
        require_tensor(name, tensor)
    if w.dim() != 2 or x.dim() < 2:
        name, tensor, wanted = ("w", w, "[N, K]") if w.dim() != 2 else ("x", x, "[..., M, K]")
        found = str(list(tensor.shape))
        raise InputError(f"{name} has shape {found}, not {wanted}", name, found, wanted)
    if type_of_torch(x.dtype) not in _ROWS:
        raise UnsupportedError(f"linear of {x.dtype}", torch_names(_ROWS))
    kind, legal = type_of_torch(w.dtype), (*INTEGERS, *FLOATS, *PACKED)
    if kind not in legal:
        raise UnsupportedError(f"weights of {w.dtype}", torch_names(legal))
    if x.shape[-1] != (columns := sizes_of(kind, w)[1]):
        text = f"x has {x.shape[-1]} columns, w {columns}"
        raise InputError(text, "w", f"{columns} columns", f"{x.shape[-1]} columns")


def _grouped(k: int, scale: Any, group: int | None) -> tuple[int, ...]:
    """How many groups of K a scale is of: one dimension more, or none."""
    if group is None:
        return ()
    if not isinstance(group, int) or group not in GROUPS:
        raise UnsupportedError(f"groups of {group!r}", ", ".join(map(str, GROUPS)))
    if scale is None:
        raise InputError(f"groups of {group} without a scale", "scale", "None", "a tensor")
    return (-(-k // group),)


def _vector(
    name: str, vector: Any, shape: tuple[int, ...], legal: tuple[DataType, ...]
) -> DataType | None:
    """The type of a vector that fits; None where there is none."""
    if vector is None:
        return None
    require_tensor(name, vector)
    dtype = type_of_torch(vector.dtype)
    if dtype not in legal:
        raise UnsupportedError(f"a {name} of {vector.dtype}", torch_names(legal))
    if tuple(vector.shape) != shape:
        found = str(list(vector.shape))
        raise InputError(f"{name} has shape {found}", name, found, str(list(shape)))
    return dtype
