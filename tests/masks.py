"""Definitions of matmuls whose results are masked, with inputs and what comes out."""

from __future__ import annotations

from typing import Any

import torch

import wsched
from tests.epilogues import epilogue, tensor
from tests.schedules import SCHEDULES
from wsched.schedule.matmul.params import MatmulParams

__all__ = [
    "BATCHED",
    "BATCHED_INDICES",
    "BF16",
    "CASES",
    "COMPUTING",
    "INDICES",
    "KEPT",
    "ONE_MASK",
    "PLACES",
    "K",
    "M",
    "N",
    "W",
    "X",
    "Y",
    "bools",
    "check",
    "check_one_kernel",
    "integers",
]  # fmt: skip

M, N, K = 137, 72, 40
BF16 = torch.bfloat16
ROUNDED = "d = fd.ops.cast(z, dtype=DataType.BFloat16)"
KEPT = ("z = fd.ops.where(m, y, 0.0)", ROUNDED)


def integers(*shape: int, seed: int = 0) -> Any:
    """So small, products are exact."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-2, 3, shape, generator=generator).to(BF16)


def bools(*shape: int, seed: int = 0) -> Any:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 0.6


X, W, R = integers(M, K), integers(N, K, seed=1), integers(M, N, seed=2)
Y = X.float() @ W.float().T
FULL, ROW, COLUMN = bools(M, N), bools(N, seed=1), bools(M, 1, seed=2)

COMPUTING = [s for s in SCHEDULES if s not in ("across_128x384", "across_2x2")]
"""Schedules that have registers for an epilogue that computes."""

Case = tuple[str, list[Any], Any]
"""A definition of ``x``, ``w`` and further inputs, these, and the result in fp32."""


def check(case: Case, params: MatmulParams | None, dtype: torch.dtype | None = None) -> None:
    """A case's result is exact, of whatever type it has, or of this one."""
    text, inputs, wanted = case
    (d,) = wsched.execute(text, [X, W, *inputs], params=params)
    assert torch.equal(d, wanted.to(dtype or d.dtype))


def check_one_kernel(case: Case, dtype: torch.dtype | None = None) -> None:
    """The same of the kernel that a call gets, which has the epilogue whole."""
    check(case, None, dtype)
    text, inputs, _ = case
    said = str(wsched.explain(text, [X, W, *inputs])).splitlines()[0]
    assert "matmul_bfloat16_bfloat16_epilogue" in said, said


CASES: dict[str, Case] = {
    "matrix": (epilogue("m: [-1, -1] Bool", *KEPT), [FULL], Y * FULL),
    "row": (epilogue("m: [-1] Bool", *KEPT), [ROW], Y * ROW),
    "row of a matrix": (epilogue("m: [1, -1] Bool", *KEPT), [ROW[None]], Y * ROW),
    "column": (epilogue("m: [-1, 1] Bool", *KEPT), [COLUMN], Y * COLUMN),
    "column by a broadcast": (
        epilogue("c: [-1] Bool", "m = fd.ops.broadcast(c, [False, True])", *KEPT),
        [COLUMN[:, 0]],
        Y * COLUMN,
    ),
    "both vectors": (
        epilogue("c: [-1, 1] Bool", "r: [1, -1] Bool", "m = fd.ops.logical_and(c, r)", *KEPT),
        [COLUMN, ROW[None]],
        Y * (COLUMN & ROW),
    ),
    "one element": (epilogue("m: [1] Bool", *KEPT), [torch.tensor([True])], Y),
    "what is not": (
        epilogue("f: [-1, -1] Bool", "m = fd.ops.logical_not(f)", *KEPT), [FULL], Y * ~FULL,
    ),
    "dropout": (
        epilogue("m: [-1, -1] Bool", "f = fd.ops.cast(m, dtype=DataType.Float)",
                 "g = fd.ops.mul(y, f)", "z = fd.ops.mul(g, 2.0)", ROUNDED),
        [FULL],
        Y * FULL * 2,
    ),
    "beside a residual": (
        epilogue("m: [-1, -1] Bool", "r: [-1, -1]", "g = fd.ops.where(m, y, 0.0)",
                 "z = fd.ops.add(g, r)", ROUNDED),
        [FULL, R],
        Y * FULL + R,
    ),
    "summed": (
        epilogue("m: [-1, -1] Bool", "z = fd.ops.where(m, y, 0.0)",
                 "d = fd.ops.sum(z, dims=[0])"),
        [FULL],
        (Y * FULL).sum(0),
    ),
}  # fmt: skip

ROWS, COLUMNS = torch.arange(M)[:, None], torch.arange(N)
INDICES = (
    f"i = fd.ops.iota({M}, 0, 1, dtype=DataType.Int)",
    f"r = fd.ops.broadcast_in_dim(i, shape=[{M}, 1], broadcast_dims=[0])",
    f"j = fd.ops.iota({N}, 0, 1, dtype=DataType.Int)",
    f"c = fd.ops.broadcast_in_dim(j, shape=[1, {N}], broadcast_dims=[1])",
)
"""Rows and columns of a result of [M, N]."""


_V, _BELOW = integers(N, K, seed=7), ROWS >= COLUMNS
ONE_MASK: tuple[str, list[Any], list[Any]] = (epilogue(
    f"v: [{N}, {K}]", *INDICES, "m = fd.ops.ge(r, c)",
    "y = fd.ops.linear(x, w)", *KEPT,
    "u = fd.ops.linear(x, v)", "e = fd.ops.where(m, u, 0.0)",
    "f = fd.ops.cast(e, dtype=DataType.BFloat16)", outputs="d f",
), [X, W, _V], [(y * _BELOW).to(BF16) for y in (Y, X.float() @ _V.float().T)])  # fmt: skip
"""Two matmuls of ``x`` behind one mask, which nobody's tensors make; inputs, and results."""

PLACES: dict[str, Case] = {
    name: (epilogue(*indices, *lines, *KEPT), inputs, Y * kept)
    for name, (indices, lines, inputs, kept) in {
        "below the diagonal": (INDICES, ["m = fd.ops.ge(r, c)"], [], ROWS >= COLUMNS),
        "above it": (
            INDICES, ["s = fd.ops.add(r, 3)", "m = fd.ops.lt(s, c)"], [], ROWS + 3 < COLUMNS,
        ),
        "on it": (INDICES, ["m = fd.ops.eq(r, c)"], [], ROWS == COLUMNS),
        "off it": (INDICES, ["m = fd.ops.ne(c, r)"], [], ROWS != COLUMNS),
        "a band": (
            INDICES,
            ["s = fd.ops.sub(r, c)", "a = fd.ops.le(s, 9)", "b = fd.ops.gt(s, -7)",
             "m = fd.ops.logical_and(a, b)"],
            [],
            (ROWS - COLUMNS <= 9) & (ROWS - COLUMNS > -7),
        ),
        "a corner": (
            INDICES, ["s = fd.ops.add(r, c)", "m = fd.ops.gt(101, s)"], [], ROWS + COLUMNS < 101,
        ),
        "another slope": (
            INDICES,
            ["d3 = fd.ops.mul(r, 3)", "n = fd.ops.neg(c)", "s = fd.ops.add(d3, n)",
             "m = fd.ops.ge(s, 40)"],
            [],
            3 * ROWS - COLUMNS >= 40,
        ),
        "columns in front": (INDICES[2:], ["m = fd.ops.lt(c, 50)"], [], COLUMNS < 50),
        "rows behind": (INDICES[:2], ["m = fd.ops.ge(r, 60)"], [], ROWS >= 60),
        "steps": (
            [f"i = fd.ops.iota({M}, 5, 2, dtype=DataType.Int32)",
             "r = fd.ops.broadcast(i, [False, True])", *INDICES[2:]],
            ["m = fd.ops.le(r, c)"],
            [],
            5 + 2 * ROWS <= COLUMNS,
        ),
        "an index of one element": (
            ["i = fd.ops.iota(1, 4, 1, dtype=DataType.Int)",
             "b = fd.ops.broadcast(i, [False, True])", *INDICES[2:]],
            ["m = fd.ops.le(b, c)"],
            [],
            COLUMNS >= 4,
        ),
        "the size of a tensor": (
            ["n = fd.ops.size(x, 0)", "i = fd.ops.iota(n, 0, 1, dtype=DataType.Int)",
             "r = fd.ops.broadcast(i, [False, True])", *INDICES[2:]],
            ["m = fd.ops.ge(r, c)"],
            [],
            ROWS >= COLUMNS,
        ),
        "beside an input": (
            ["q: [1, -1] Bool", *INDICES],
            ["a = fd.ops.ge(r, c)", "m = fd.ops.logical_and(a, q)"],
            [ROW[None]],
            (ROWS >= COLUMNS) & ROW,
        ),
        "as numbers": (
            INDICES,
            ["a = fd.ops.ge(r, c)", "f = fd.ops.cast(a, dtype=DataType.Float)",
             "m = fd.ops.gt(f, 0.5)"],
            [],
            ROWS >= COLUMNS,
        ),
    }.items()
}  # fmt: skip
"""Masks by indices."""


BATCHED = f"""
def nvfuser_fusion(fd: FusionDefinition):
    x = {tensor("[-1, -1, -1]")}
    w = {tensor("[-1, -1, -1]")}
    m = {tensor("[-1, 1, -1]", "Bool")}
    y = fd.ops.matmul(x, w)
    z = fd.ops.where(m, y, -1.0)
    d = fd.ops.cast(z, dtype=DataType.BFloat16)
    fd.add_output(d)
"""

BATCHED_INDICES = f"""
def nvfuser_fusion(fd: FusionDefinition):
    x = {tensor("[-1, -1, -1]")}
    w = {tensor("[-1, -1, -1]")}
    y = fd.ops.matmul(x, w)
    n = fd.ops.size(x, 0)
    b = fd.ops.iota(n, 0, 1, dtype=DataType.Int)
    b3 = fd.ops.broadcast(b, is_broadcast_dim=[False, True, True])
    j = fd.ops.iota({N}, 0, 1, dtype=DataType.Int)
    s = fd.ops.mul(b3, 20)
    m = fd.ops.gt(j, s)
    z = fd.ops.where(m, y, -1.0)
    d = fd.ops.cast(z, dtype=DataType.BFloat16)
    fd.add_output(d)
"""
"""Matrices of a batch from another column on each."""
