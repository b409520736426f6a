"""Grouped matmuls for tests: texts, operands of small integers, and what comes out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch

__all__ = [
    "ADDED",
    "BIAS",
    "FORMS",
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


FORMS = {"rows": (2, 3), "columns": (3, 2), "sums": (2, 2)}
"""Dimensions of both operands, by what groups are."""


def grouped(
    *lines: str, dtype: str = "BFloat16", matrix: str = "nk", ranks: tuple[int, int] = (2, 3)
) -> str:
    """A definition of x, w (``nk``: K contiguous in memory) and ends o.

    Args:
        lines: what is computed, as in a text; the bare product without any.
        dtype: of the operands.
        matrix: how matrices of w lie in memory.
        ranks: dimensions of x and w.
    """
    orders = {"nk": {2: ", stride_order=[0, 1]", 3: ", stride_order=[2, 0, 1]"}}
    order = orders.get(matrix, {}).get(ranks[1], "")
    x, w = (", ".join(["-1"] * rank) for rank in ranks)
    lines = lines or ("d = fd.ops.grouped_mm(x, w, o)", "fd.add_output(d)")
    body = (
        f"x = fd.define_tensor(shape=[{x}], dtype=DataType.{dtype})",
        f"w = fd.define_tensor(shape=[{w}], dtype=DataType.{dtype}{order})",
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

ADDED = grouped(
    "i = fd.define_tensor(shape=[-1], dtype=DataType.Int)",
    "a = fd.define_tensor(shape=[-1, -1], dtype=DataType.BFloat16)",
    "y = fd.ops.grouped_mm(x, w, o, dtype=DataType.Float)",
    "v = fd.ops.cast(y, dtype=DataType.BFloat16)",
    "d = fd.ops.index_put_accumulate(a, i, v)", "fd.add_output(d)",
)  # fmt: skip
"""Rows of the product, each added to the row of ``a`` that ``i`` says."""

Given = tuple[Any, Any, Any]
"""Rows, matrices and ends."""


def given(
    sizes: Sequence[int], n: int, k: int, *, behind: int = 0, matrix: str = "nk",
    dtype: Any = torch.bfloat16, ranks: tuple[int, int] = (2, 3),
) -> Given:  # fmt: skip
    """Operands of integers whose products are exact; ``behind`` is what is of no group.

    Groups of rows: x [sum, k] and w [G, k, n]. Groups of columns: x [G, n, k] and w [k, sum]. Sums
    over groups: x [n, sum] and w [sum, k]. ``matrix`` says how w lies in memory, last but one and
    last dimension; what has groups in it and is x lies by groups.
    """
    torch.manual_seed(sum(sizes) + n + k)
    whole = sum(sizes) + behind
    shapes = {
        (2, 3): ((whole, k), (len(sizes), k, n)),
        (3, 2): ((len(sizes), n, k), (k, whole)),
        (2, 2): ((n, whole), (whole, k)),
    }
    x, w = (torch.randint(-2, 3, shape).to(dtype) for shape in shapes[ranks])
    ends = torch.tensor(sizes).cumsum(0).to(torch.int32)
    x = x.mT.contiguous().mT if ranks == (2, 2) else x
    return x, w if matrix == "kn" else w.mT.contiguous().mT, ends


def product(x: Any, w: Any, ends: Any) -> Any:
    """The product in fp32, of the rows or columns that are of some group, or of each group."""
    runs = list(enumerate(pairwise([0, *ends.tolist()])))
    x, w = x.float(), w.float()
    if w.dim() == 3:
        return torch.cat([x[a:b] @ w[g] for g, (a, b) in runs])
    if x.dim() == 3:
        return torch.cat([x[g] @ w[:, a:b] for g, (a, b) in runs], 1)
    return torch.stack([x[:, a:b] @ w[a:b] for _, (a, b) in runs])


def gated(x: Any, w: Any, u: Any, ends: Any) -> Any:
    """What :data:`GATE` makes, each step rounded as the definition says."""
    gate, up = (product(x, y, ends).bfloat16().float() for y in (w, u))
    return (torch.nn.functional.silu(gate).bfloat16().float() * up).bfloat16()


def check_rows(d: Any, x: Any, w: Any, ends: Any) -> None:
    """All that groups have is right, and nothing else is written: it is NaN as before."""
    wanted, d = product(x, w, ends).to(x.dtype), d.cpu()
    rows, columns = wanted.shape[-2:]
    assert torch.equal(d[..., :rows, :columns], wanted)
    assert d[..., rows:, :].isnan().all()
    assert d[..., columns:].isnan().all()
