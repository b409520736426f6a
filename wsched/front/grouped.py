"""Matmuls of groups with torch's meaning, without a definition written by hand.

========= ========= ========= ================================================================
x         w         result    group ``g`` is
========= ========= ========= ================================================================
[M, K]    [G, K, N] [M, N]    rows ``offsets[g - 1]`` (0 of the first) to ``offsets[g]`` of
                              ``x`` and of the result
[G, M, K] [K, N]    [M, N]    so many columns of ``w`` and of the result
[M, K]    [K, N]    [G, M, N] so many columns of ``x`` and rows of ``w``, summed over; zeros of
                              an empty group
========= ========= ========= ================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wsched.front.again import Again
from wsched.front.operations import (
    Epilogue,
    Operations,
    computed,
    kept,
    listed,
    named,
    require_16_bits,
    require_hashable,
    require_tensors,
    written,
)
from wsched.fusion.names import COLS, ROWS, SUMMED
from wsched.fusion.types import DataType
from wsched.importer.definition import Definition, Node, Ref, Value, definition_text
from wsched.importer.input_error import InputError, is_fake, wrong_rank, wrong_type
from wsched.importer.ops import FORMS, GROUPED
from wsched.importer.products import UNROUNDED
from wsched.importer.watched import is_traced

if TYPE_CHECKING:
    import torch

__all__ = ["Operations", "by_rows", "grouped_mm"]

_AGAIN = Again()


def grouped_mm(
    x: torch.Tensor,
    w: torch.Tensor | Sequence[torch.Tensor],
    offsets: torch.Tensor,
    *,
    bias: torch.Tensor | Sequence[torch.Tensor] | None = None,
    epilogue: Epilogue | None = None,
    inputs: torch.Tensor | Sequence[torch.Tensor] = (),
    out_dtype: torch.dtype | None = None,
    rows: torch.Tensor | None = None,
) -> torch.Tensor:
    """Multiply groups, as ``torch._grouped_mm`` does, in its forms: see the module.

    On a GPU the ends are read there: the host neither waits nor knows them, so that a captured
    graph serves other ends. They may lie anywhere: torch wants multiples of 16 bytes of columns. Of
    a row or column of the result behind the last end nothing is known. Ends that fall, or lie
    behind the matrix, are refused for tensors on the CPU; on a GPU no memory but that of the result
    is written then, and ``wsched.wrong_ends`` tells.

    Args:
        x: bf16 or fp16, of any order of the last two dimensions in memory. What is in groups is
            copied where a group is not rows of it there.
        w: likewise; or several, whose products the epilogue takes.
        offsets: [G] of int32.
        bias: [G, N], added to the rows of the groups in fp32; as many as there are of ``w``.
        epilogue: what to compute of the product, from operations of nvFuser's by name:
            ``lambda ops, d: ops.silu(d)``, of two products
            ``lambda ops, gate, up: ops.mul(ops.silu(gate), up)``. Pass the same function each time:
            kernels are kept by it, with the numbers that it had when it was called first.
        inputs: what the epilogue takes behind the products, one or several: [M, N], [N], or [M]
            that it broadcasts,
            ``lambda ops, d, s: ops.mul(d, ops.broadcast(s, is_broadcast_dim=[False, True]))``.
        out_dtype: of the result, by default that of ``x``.
        rows: [M] of int64 or int32, of groups of rows: the products are those of ``x[rows]``, which
            a kernel in front puts together; a row that ``x`` does not have is zeros.

    Returns:
        [M, N], or [G, M, N] where groups are summed over. Gradients stop here: those of a
        definition go on (:func:`wsched.execute`, ``gradients=True``).

    Raises:
        InputError: the tensors do not fit each other.
        UnsupportedError: other types than these, or an operation of the epilogue that nobody has.
    """
    matrices, inputs = listed("w", w), listed("inputs", inputs)
    added = [] if bias is None else listed("bias", bias)
    beside = epilogue, len(matrices), len(added), out_dtype, rows is None
    read = _inputs(x, rows, offsets, matrices, added, inputs)
    if (run := _AGAIN.run(read, beside)) is not None:
        _require_ends(x, matrices, offsets, rows)
        return run(read)[0]
    require_tensors(x=[x], offsets=[offsets], w=matrices, bias=added, inputs=inputs)
    _require(x, matrices, offsets, added, epilogue, rows)
    kinds, more = ([(t.dim(), named(t.dtype)) for t in given] for given in (added, inputs))
    index = None if rows is None else named(rows.dtype)
    operands = _Operands(named(x.dtype), (x.dim(), matrices[0].dim()), len(matrices), index)
    text = _definition(operands, tuple(kinds), tuple(more), epilogue, named(out_dtype or x.dtype))
    selected = x if rows is None else by_rows(x)
    read = _inputs(selected, rows, offsets.contiguous(), matrices, added, inputs)
    return _AGAIN.first(text, read, beside)[0]


def _inputs(
    x: torch.Tensor, rows: torch.Tensor | None, offsets: torch.Tensor, w: list[Any],
    bias: list[Any], inputs: Sequence[torch.Tensor],
) -> list[Any]:  # fmt: skip
    """What the definition reads."""
    return [x, *(() if rows is None else (rows,)), offsets, *w, *bias, *inputs]


def by_rows(x: torch.Tensor) -> torch.Tensor:
    """A table of rows as kernels select from, which know of rows that there are not: nvFuser, which
    is faster by columns, reads memory that is nobody's there.
    """
    import torch

    return x if x.stride(1) == 1 else x.clone(memory_format=torch.contiguous_format)


def _require(
    x: torch.Tensor, w: list[Any], offsets: torch.Tensor, bias: list[Any], epilogue: object,
    rows: torch.Tensor | None,
) -> None:  # fmt: skip
    """Refuse what a definition cannot say, and ends that are known to be none."""
    import torch

    require_hashable(epilogue)
    if (len(w) != 1 and epilogue is None) or not w:
        text = f"w has {len(w)} tensors, whose products no epilogue takes"
        raise InputError(text, "w", str(len(w)), "one, or an epilogue")
    require_16_bits(x=[x], w=w)
    if bias and len(bias) != len(w):
        text = f"bias has {len(bias)} tensors, w has {len(w)}"
        raise InputError(text, "bias", str(len(bias)), str(len(w)))
    for rank in (b.dim() for b in bias if b.dim() != 2):
        text = f"bias has {rank} dimensions"
        raise InputError(text, "bias", f"{rank} dimensions", "[G, N]")
    if offsets.dtype != torch.int32:
        raise wrong_type("offsets", offsets.dtype, torch.int32)
    ranks = x.dim(), w[0].dim()
    if ranks not in FORMS:
        text = f"x has {ranks[0]} dimensions and w has {ranks[1]}"
        raise InputError(text, "w", f"{ranks[0]}, {ranks[1]}", "2 and 3, 3 and 2, or 2 and 2")
    if rows is not None:
        _require_rows(rows, FORMS[ranks])
    _require_ends(x, w, offsets, rows)


def _require_ends(
    x: torch.Tensor, w: list[Any], offsets: torch.Tensor, rows: torch.Tensor | None
) -> None:
    """Refuse ends that are known to be none; nobody knows them who traces, or of fake tensors."""
    if is_traced() or is_fake(offsets):
        return
    if offsets.device.type == "cpu" and offsets.dim() == 1:
        form = FORMS[x.dim(), w[0].dim()]
        ends, what = [0, *offsets.tolist()], _SHARED_OUT[form]
        all_rows = len(x if rows is None else rows)
        most = {ROWS: all_rows, COLS: w[0].shape[1], SUMMED: w[0].shape[0]}[form]
        if ends != sorted(ends) or ends[-1] > most:
            text = f"offsets are {ends[1:]}, which do not rise from 0 to at most {most} {what}"
            raise InputError(text, "offsets", str(ends[1:]), f"0 to {most}, rising")


def _require_rows(rows: torch.Tensor, form: str) -> None:
    """Refuse an index that says no rows of groups."""
    import torch

    require_tensors(rows=[rows])
    if rows.dtype not in (torch.int64, torch.int32):
        raise wrong_type("rows", rows.dtype, torch.int64)
    if rows.dim() != 1:
        raise wrong_rank("rows", tuple(rows.shape), 1)
    if form != ROWS:
        text = f"rows of x by index where groups are {_SHARED_OUT[form]}"
        raise InputError(text, "rows", _SHARED_OUT[form], "groups of rows")


_SHARED_OUT = {ROWS: "rows", COLS: "columns", SUMMED: "rows of w"}
"""What groups are, in words."""


_Kind = tuple[int, DataType]
"""Dimensions and type of a tensor."""


@dataclass(frozen=True, slots=True)
class _Operands:
    """What is multiplied.

    Args:
        dtype: of all.
        ranks: dimensions of x and of each w.
        count: how many of w there are.
        index: type of what says the rows of x; None of x as it is.
    """

    dtype: DataType
    ranks: tuple[int, int]
    count: int
    index: DataType | None = None


@kept
def _definition(
    operands: _Operands,
    bias: tuple[_Kind, ...],
    inputs: tuple[_Kind, ...],
    epilogue: Epilogue | None,
    out: DataType,
) -> str:
    """The text of it: x, ends, matrices and their biases, and what the epilogue takes beside."""
    nodes: list[Node] = []

    def tensor(rank: int, dtype: DataType) -> Ref:
        return written(nodes, "define_tensor", shape=(-1,) * rank, dtype=dtype)

    first, second = operands.ranks
    x = tensor(first, operands.dtype)
    if operands.index is not None:
        x = written(nodes, "index_select", x, tensor(1, operands.index), dim=0)
    ends = tensor(1, DataType.Int32)
    matrices = [tensor(second, operands.dtype) for _ in range(operands.count)]
    added = [tensor(*kind) for kind in bias]
    others = [tensor(*kind) for kind in inputs]
    more: list[dict[str, Value]] = [{"bias": b} for b in added] or [{} for _ in matrices]
    pairs = zip(matrices, more, strict=True)
    products = [written(nodes, GROUPED, x, m, ends, **b, **UNROUNDED) for m, b in pairs]
    made = products[0] if epilogue is None else computed(epilogue, nodes, *products, *others)
    result = written(nodes, "cast", made, dtype=out)
    return definition_text(Definition(tuple(nodes), (result.name,)))
