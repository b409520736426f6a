"""Grouped matmuls for tests: texts, operands of small integers, and what comes out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch

__all__ = [
    "BIAS",
    "GATE",
    "SIZES",
    "WEIGHTS",
    "Given",
    "check_rows",
    "gated",
    "given",
    "grouped",
    "product",
]

SIZES: dict[str, tuple[int, ...]] = {
    "hard": (0, 1, 63, 65, 129, 0),
    "all in one": (0, 0, 200, 0),
    "one group": (70,),
    "a row each": (1,) * 9,
    "last is largest": (2, 0, 1, 150),
    "none": (0, 0),
}
"""Rows of groups: empty ones, tiles that are full but for a row or have a row too many."""

WEIGHTS = "fd.define_tensor(shape=[-1, -1, -1], dtype=DataType.BFloat16, stride_order=[2, 0, 1])"
"""Further matrices, as w lies."""


def grouped(*lines: str, dtype: str = "BFloat16", matrix: str = "nk") -> str:
    """A definition of x [M, K], w [G, K, N] (``nk``: K contiguous in memory) and ends o.

    Args:
        lines: what is computed, as in a text; the bare product without any.
        dtype: of the operands.
        matrix: how those of w lie in memory.
    """
    order = ", stride_order=[2, 0, 1]" if matrix == "nk" else ""
    lines = lines or ("d = fd.ops.grouped_mm(x, w, o)", "fd.add_output(d)")
    body = (
        f"x = fd.define_tensor(shape=[-1, -1], dtype=DataType.{dtype})",
        f"w = fd.define_tensor(shape=[-1, -1, -1], dtype=DataType.{dtype}{order})",
        "o = fd.define_tensor(shape=[-1], dtype=DataType.Int32)",
        *lines,
    )
    head = "def nvfuser_fusion(fd : FusionDefinition) -> None :\n"
    return head + "".join(f"    {line}\n" for line in body)


GATE = grouped(
    f"u = {WEIGHTS}",
    "g = fd.ops.grouped_mm(x, w, o)", "h = fd.ops.grouped_mm(x, u, o)", "s = fd.ops.silu(g)",
    "f = fd.ops.mul(s, h)", "d = fd.ops.cast(f, dtype=DataType.BFloat16)", "fd.add_output(d)",
)  # fmt: skip
"""The product of silu of one and of another, of the same rows."""

BIAS = grouped(
    "b = fd.define_tensor(shape=[-1, -1], dtype=DataType.BFloat16)",
    "r = fd.define_tensor(shape=[-1, -1], dtype=DataType.BFloat16)",
    "s = fd.define_tensor(shape=[-1], dtype=DataType.Float)",
    "e = fd.ops.grouped_mm(x, w, o, bias=b)",
    "v = fd.ops.broadcast(s, is_broadcast_dim=[True, False])",
    "f = fd.ops.mul(e, v)", "t = fd.ops.add(f, r)",
    "d = fd.ops.cast(t, dtype=DataType.BFloat16)", "fd.add_output(d)",
)  # fmt: skip
"""A row of a bias for each group, a scale of columns, and a residual."""

Given = tuple[Any, Any, Any]
"""Rows, matrices and ends."""


def given(
    sizes: Sequence[int], n: int, k: int, *, behind: int = 0, matrix: str = "nk",
    dtype: Any = torch.bfloat16,
) -> Given:  # fmt: skip
    """Operands of integers whose products are exact; ``behind`` rows are of no group."""
    torch.manual_seed(sum(sizes) + n + k)
    x = torch.randint(-2, 3, (sum(sizes) + behind, k)).to(dtype)
    w = torch.randint(-2, 3, (len(sizes), n, k)).to(dtype).mT
    ends = torch.tensor(sizes).cumsum(0).to(torch.int32)
    return x, w.contiguous() if matrix == "kn" else w, ends


def product(x: Any, w: Any, ends: Any) -> Any:
    """The product in fp32, of the rows that are of some group."""
    runs = pairwise([0, *ends.tolist()])
    return torch.cat([x[a:b].float() @ w[g].float() for g, (a, b) in enumerate(runs)])


def gated(x: Any, w: Any, u: Any, ends: Any) -> Any:
    """What :data:`GATE` makes, each step rounded as the definition says."""
    gate, up = (product(x, y, ends).bfloat16().float() for y in (w, u))
    return (torch.nn.functional.silu(gate).bfloat16().float() * up).bfloat16()


def check_rows(d: Any, x: Any, w: Any, ends: Any) -> None:
    """All rows of groups are right, and no others are written: they are NaN as before."""
    wanted = product(x, w, ends).to(x.dtype)
    assert torch.equal(d[: len(wanted)].cpu(), wanted)
    assert d[len(wanted) :].isnan().all()
