"""Products of 8 bits without a definition: what ``torch._scaled_mm`` and ``torch._int_mm`` compute.

Each call is a definition that wsched writes, so that kernels, schedules and errors are those of any
other.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

from lowering.ground.errors import UnsupportedError
from wsched.front.opaque import opaque, operator
from wsched.front.written import (
    FLOATS,
    INTEGERS,
    RESULTS,
    Call,
    definition,
    run,
    run_all,
    tensor_line,
    torch_names,
    type_of_torch,
)
from wsched.fusion import DataType
from wsched.importer.input_error import InputError, require_tensor
from wsched.importer.watched import is_traced

if TYPE_CHECKING:
    import torch

BLOCK = 128
"""K of a block of scales, and its rows or columns where these are not single ones."""

__all__ = ["int_mm", "int_mm_call", "scaled_mm", "scaled_mm_call"]


def scaled_mm(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
    *,
    scale_result: torch.Tensor | None = None,
    amax: bool = False,
) -> Any:
    """``scale_a * scale_b * (a · b) + bias``, rounded once; the meaning is ``torch._scaled_mm``'s.

    Results of 8 bits count times ``scale_result`` before they are rounded, and what exceeds their
    largest number becomes it.

    Floats of 8 bits are summed in the tensor core over 128 of K, which then go to a second
    accumulator in fp32; with ``use_fast_accum`` over all of K, which is faster and keeps fewer
    bits. Sums of integers are those of :func:`int_mm`, modulo 2**32: exact where no sum may leave
    32 bits, which is up to a K of 131 071 of two ``int8``, 65 793 of ``int8`` and ``uint8``, and
    33 025 of two ``uint8``.

    Scales of blocks are for 128 of K each, of one row or column or of 128 of them: what the tensor
    core has summed over 128 of K counts times both before it is added. Blocks at the end may be
    shorter.

    Args:
        a: [M, K] of ``float8_e4m3fn`` or ``float8_e5m2``; or of ``int8`` or ``uint8``.
        b: [K, N] of the same kind. The matrix instruction reads K contiguous: a row-major ``a`` and
            a column-major ``b`` (``w.t()`` of weights [N, K]) are read where they lie if rows are
            multiples of 16 bytes apart; others are copied by every call.
        scale_a: fp32, one number, or [M, 1]; or of blocks, [M, K / 128] or [M / 128, K / 128], then
            ``scale_b``, too. Rows are read where they lie with M contiguous, others with K.
        scale_b: fp32, one number, or [1, N]; or of blocks, [K / 128, N] or [K / 128, N / 128].
        bias: [N], bf16, fp16 or fp32.
        out_dtype: bf16 (where none is given), fp16, fp32, ``float8_e4m3fn`` or ``float8_e5m2``.
        use_fast_accum: see above.
        scale_result: fp32, one number, for a result of 8 bits.
        amax: whether the largest absolute value of the result is asked for, too: in fp32, as it is
            before ``scale_result`` and before it is rounded; NaN if one is, 0 of no elements.

    Returns:
        [M, N], row-major; with ``amax`` a pair of that and of a tensor without dimensions.
        Gradients stop here. On CPU tensors the machine model computes it.

    Raises:
        InputError: shapes, types or devices that do not fit each other.
        UnsupportedError: other types than these; scales of other blocks, or of blocks of integers;
            ``scale_result`` for a result of more than 8 bits.
    """
    given = a, b, scale_a, scale_b, bias, out_dtype, use_fast_accum, scale_result, amax
    found = opaque("scaled_mm", *given) if is_traced() else _scaled(*given)
    return tuple(found) if amax else found[0]


def _scaled(
    a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor,
    bias: torch.Tensor | None, out_dtype: torch.dtype | None, use_fast_accum: bool,
    scale_result: torch.Tensor | None, amax: bool,
) -> list[torch.Tensor]:  # fmt: skip
    """All results."""
    call = scaled_mm_call(
        a, b, scale_a, scale_b, bias, out_dtype, use_fast_accum, scale_result=scale_result,
        amax=amax,
    )  # fmt: skip
    found = [*run_all(*call)]
    if amax and not found[0].numel():
        found[1].zero_()  # a maximum of nothing is -inf, but no absolute value
    return found


def _scaled_shapes(
    a: torch.Tensor, b: torch.Tensor, scale_a: Any, scale_b: Any, bias: Any,
    out_dtype: torch.dtype | None, use_fast_accum: bool, scale_result: Any, amax: bool,
) -> list[torch.Tensor]:  # fmt: skip
    import torch

    _require_matrices(a, b, FLOATS, INTEGERS)
    found = a.new_empty(a.shape[0], b.shape[1], dtype=out_dtype or torch.bfloat16)
    return [found, *([a.new_empty((), dtype=torch.float32)] if amax else [])]


operator(
    "scaled_mm(Tensor a, Tensor b, Tensor scale_a, Tensor scale_b, Tensor? bias, "
    "ScalarType? out_dtype, bool use_fast_accum, Tensor? scale_result, bool amax) -> Tensor[]",
    _scaled, _scaled_shapes,
)  # fmt: skip


def scaled_mm_call(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
    *,
    scale_result: torch.Tensor | None = None,
    amax: bool = False,
) -> Call:
    """What :func:`scaled_mm` runs; arguments and errors as there."""
    _require_matrices(a, b, FLOATS, INTEGERS)
    (m, k), (_, n) = a.shape, b.shape
    blocks = _blocks(scale_a, scale_b, (m, n, k))
    left, by_row = _scale(scale_a, "scale_a", (m, 1), blocks)
    right, by_column = _scale(scale_b, "scale_b", (1, n), blocks)
    result = DataType.BFloat16 if out_dtype is None else type_of_torch(out_dtype)
    if result not in (*RESULTS, *FLOATS):
        raise UnsupportedError(f"scaled_mm into {out_dtype}", torch_names((*RESULTS, *FLOATS)))
    if scale_result is not None and result not in FLOATS:
        what = f"scale_result of a result of {result.element.torch}"
        raise UnsupportedError(what, torch_names(FLOATS))
    added = None if bias is None else _bias(bias, n)
    inputs = [a, b, left, right, *(() if bias is None else (bias,))]
    if scale_result is not None:
        inputs.append(_number(scale_result, "scale_result"))
    text = _scaled_mm_text(
        type_of_torch(a.dtype),
        type_of_torch(b.dtype),
        by_row,
        by_column,
        added,
        result,
        bool(use_fast_accum),
        blocks,
        scale_result is not None,
        bool(amax),
    )
    return text, inputs


def int_mm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """``a · b`` of 8-bit integers, exact modulo 2**32; the meaning is ``torch._int_mm``'s.

    Args:
        a: [M, K] of ``int8`` or ``uint8``.
        b: [K, N] of ``int8`` or ``uint8``; layouts as for :func:`scaled_mm`, which multiplies such
            products by scales.

    Returns:
        [M, N] of ``int32``, row-major. On CPU tensors the machine model computes it.

    Raises:
        InputError: shapes, types or devices that do not fit each other.
        UnsupportedError: other types than these.
    """
    if is_traced():
        made: torch.Tensor = opaque("int_mm", a, b)
        return made
    return run(*int_mm_call(a, b))


def _int_shapes(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    import torch

    _require_matrices(a, b, INTEGERS)
    return a.new_empty(a.shape[0], b.shape[1], dtype=torch.int32)


operator("int_mm(Tensor a, Tensor b) -> Tensor", int_mm, _int_shapes)


def int_mm_call(a: torch.Tensor, b: torch.Tensor) -> Call:
    """What :func:`int_mm` runs; arguments and errors as there."""
    _require_matrices(a, b, INTEGERS)
    return _int_mm_text(type_of_torch(a.dtype), type_of_torch(b.dtype)), [a, b]


@lru_cache(maxsize=256)
def _scaled_mm_text(
    a: DataType, b: DataType, by_row: bool, by_column: bool, bias: DataType | None,
    result: DataType, fast: bool, blocks: tuple[int, int] | None = None, scaled: bool = False,
    amax: bool = False,
) -> str:  # fmt: skip
    """The definition that :func:`scaled_mm` runs.

    Args:
        a: type of the first operand.
        b: type of the second.
        by_row: whether the first has a scale for each row.
        by_column: whether the second has one for each column.
        bias: its type; None without.
        result: type of the result.
        fast: whether sums stay in the tensor core.
        blocks: rows and columns of blocks along K that have scales; None where none have.
        scaled: whether the result has a scale.
        amax: whether the largest absolute value is a result.
    """
    rows, columns = -1 if by_row else 1, -1 if by_column else 1
    inner = 1 if blocks is None else -1
    whole = amax or scaled  # something but the result's cast reads the sum
    made = DataType.Float if whole else result
    named = f"dtype={made!r}{', use_fast_accum=True' if fast else ''}"
    named += "" if blocks is None else f", scale_blocks={[*blocks]}"
    lines = [
        tensor_line("a", (-1, -1), a),
        tensor_line("b", (-1, -1), b, ", stride_order=[0, 1]"),
        tensor_line("scale_a", (rows, inner), DataType.Float),
        tensor_line("scale_b", (inner, columns), DataType.Float),
    ]
    if bias is not None:
        lines.append(tensor_line("bias", (-1,), bias))
        named = f"bias=bias, {named}"
    if scaled:
        lines.append(tensor_line("scale_result", (1, 1), DataType.Float))
    name = "sum" if whole else "d"
    lines.append(f"{name}, _, _ = fd.ops.scaled_mm(a, b, scale_a, scale_b, {named})")
    if scaled:
        lines.append("scaled = fd.ops.mul(sum, scale_result)")
    if whole:
        lines.append(f"d = fd.ops.cast({'scaled' if scaled else 'sum'}, dtype={result!r})")
    if amax:
        lines.append("amax = fd.ops.max(fd.ops.abs(sum), dims=[0, 1])")
    return definition(*lines, outputs=("d", "amax") if amax else ("d",))


@lru_cache(maxsize=8)
def _int_mm_text(a: DataType, b: DataType) -> str:
    lines = tensor_line("a", (-1, -1), a), tensor_line("b", (-1, -1), b, ", stride_order=[0, 1]")
    return definition(*lines, "d = fd.ops.matmul(a, b)")


def _require_matrices(a: Any, b: Any, *kinds: tuple[DataType, ...]) -> None:
    """Two matrices whose sizes fit, of types of one kind."""
    for name, x in (("a", a), ("b", b)):
        require_tensor(name, x)
        if x.dim() != 2:
            found = str(list(x.shape))
            raise InputError(f"{name} has shape {found}, not two dimensions", name, found, "[_, _]")
    types = {type_of_torch(a.dtype), type_of_torch(b.dtype)}
    if not any(types <= {*kind} for kind in kinds):
        known = "; ".join(f"pairs of {torch_names(kind)}" for kind in kinds)
        raise UnsupportedError(f"a product of {a.dtype} and {b.dtype}", known)
    if a.shape[1] != b.shape[0]:
        text = f"a has {a.shape[1]} columns, b has {b.shape[0]} rows"
        raise InputError(text, "b", f"{b.shape[0]} rows", f"{a.shape[1]} rows")


def _blocks(scale_a: Any, scale_b: Any, sizes: tuple[int, int, int]) -> tuple[int, int] | None:
    """Rows and columns of the blocks that both scales are for; None of other scales."""
    shapes = [tuple(getattr(s, "shape", ())) for s in (scale_a, scale_b)]
    m, n, k = sizes
    if all(x == each or prod(x) == 1 for x, each in zip(shapes, ((m, 1), (1, n)), strict=True)):
        return None  # one block along K is all of it
    found = []
    for shape, size in zip((shapes[0], shapes[1][::-1]), (m, n), strict=True):
        found += [r for r in (1, BLOCK) if shape == (-(-size // r), -(-k // BLOCK))][:1]
    return (found[0], found[1]) if len(found) == 2 else None


def _scale(
    scale: Any, name: str, each: tuple[int, int], blocks: tuple[int, int] | None
) -> tuple[torch.Tensor, bool]:
    """A scale as the definition has it, and whether there is one for each row or column."""
    _require_scale(scale, name)
    if blocks is not None or (tuple(scale.shape) == each and scale.numel() != 1):
        return scale, True
    if scale.numel() == 1:
        return scale.reshape(1, 1), False
    found = str(list(scale.shape))
    if scale.dim() == 2:
        raise UnsupportedError(f"{name} of shape {found}", f"one number, or {list(each)}")
    raise InputError(f"{name} has shape {found}", name, found, f"one number, or {list(each)}")


def _number(scale: Any, name: str) -> torch.Tensor:
    """A scale that is a single number, as the definition has it."""
    _require_scale(scale, name)
    if scale.numel() != 1:
        found = str(list(scale.shape))
        raise InputError(f"{name} has shape {found}", name, found, "one number")
    made: torch.Tensor = scale.reshape(1, 1)
    return made


def _require_scale(scale: Any, name: str) -> None:
    import torch

    require_tensor(name, scale)
    if scale.dtype != torch.float32:
        text = f"{name} is {scale.dtype}, not {torch.float32}"
        raise InputError(text, name, str(scale.dtype), str(torch.float32))


def _bias(bias: Any, columns: int) -> DataType:
    """The type of a bias that fits."""
    require_tensor("bias", bias)
    dtype = type_of_torch(bias.dtype)
    if dtype not in RESULTS:
        raise UnsupportedError(f"a bias of {bias.dtype}", torch_names(RESULTS))
    if tuple(bias.shape) != (columns,):
        found = str(list(bias.shape))
        raise InputError(f"bias has shape {found}", "bias", found, f"[{columns}]")
    return dtype
