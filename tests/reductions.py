"""Definitions with results that are reductions, and what these results should be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["ALL", "Reduced", "definition", "expected"]


@dataclass(frozen=True, slots=True)
class Reduced:
    """A reduction of ``linear(x, w, bias)`` in fp32.

    Args:
        op: ``sum``, ``max`` or ``min``.
        dims: that it is over.
        of: a pointwise operation in front: ``abs``, or ``square`` for a product with itself.
        keepdim: whether what is reduced stays as a dimension of size 1.
        dtype: what it is cast to.
    """

    op: str
    dims: tuple[int, ...]
    of: str = ""
    keepdim: bool = False
    dtype: str = "Float"


ALL = (
    Reduced("sum", (0,)), Reduced("sum", (1,)), Reduced("max", (0,), "abs"), Reduced("min", (1,)),
    Reduced("sum", (-1, 0), "square"),
)  # fmt: skip
"""Over rows, columns and both, each operation."""


def definition(
    reduced: Sequence[Reduced], result: bool = True, columns: bool = False, batched: bool = False
) -> str:
    """The text of a linear with a bias and reductions of it.

    Args:
        reduced: its further results.
        result: whether the linear is a result, the first one.
        columns: whether that is stored by columns.
        batched: whether the activations have three dimensions.
    """
    shape, flags = ("[-1, -1, -1]", "[True] * 3") if batched else ("[-1, -1]", "[True] * 2")
    flags = {"[True] * 3": "[True, True, True]", "[True] * 2": "[True, True]"}[flags]
    lines = [
        "def nvfuser_fusion(fd : FusionDefinition) -> None :",
        f"    x = fd.define_tensor(shape={shape}, contiguity={flags}, dtype=DataType.BFloat16)",
        "    w = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], "
        "dtype=DataType.BFloat16)",
        "    bias = fd.define_tensor(shape=[-1], contiguity=[True], dtype=DataType.BFloat16)",
        "    y = fd.ops.linear(x, w, bias)",
        "    wide = fd.ops.cast(y, dtype=DataType.Float)",
        "    abs = fd.ops.abs(wide)",
        "    square = fd.ops.mul(wide, wide)",
    ]
    for at, r in enumerate(reduced):
        dims = f"dims={list(r.dims)}, keepdim={r.keepdim}, dtype=DataType.Null"
        lines.append(f"    r{at} = fd.ops.{r.op}({r.of or 'wide'}, {dims})")
        if r.dtype != "Float":
            lines.append(f"    r{at} = fd.ops.cast(r{at}, dtype=DataType.{r.dtype})")
    if columns:
        lines.append("    y = fd.ops.stride_order(y, stride_order=[0, 1])")
    lines += ["    fd.add_output(y)"] * result
    lines += [f"    fd.add_output(r{at})" for at in range(len(reduced))]
    return "\n".join([*lines, ""])


def expected(reduced: Sequence[Reduced], x: Any, w: Any, bias: Any) -> list[Any]:
    """The linear in its operands' type, and the reductions; exact where fp32 holds all sums."""
    import torch

    wide = x.float() @ w.float().T + bias.float()
    made = {"": wide, "abs": wide.abs(), "square": wide * wide}
    found = [wide.to(x.dtype)]
    for r in reduced:
        function = {"sum": torch.sum, "max": torch.amax, "min": torch.amin}[r.op]
        value = function(made[r.of], r.dims, keepdim=r.keepdim)
        found.append(
            value.to(getattr(torch, {"Float": "float32", "BFloat16": "bfloat16"}[r.dtype]))
        )
    return found
