"""Definitions of matmuls whose results are masked, with inputs and what comes out."""

from __future__ import annotations

from typing import Any

import torch

from tests.epilogues import epilogue, tensor

__all__ = [
    "BATCHED", "BF16", "CASES", "KEPT", "K", "M", "N", "W", "X", "Y", "bools", "integers",
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

CASES: dict[str, tuple[str, list[Any], Any]] = {
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
