"""The machine's instructions are those of the kernel's target."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lowering.kernel.text import parse_kernel
from lowering.machine import run_kernel
from lowering.target.hopper import HOPPER, WGMMA
from tests.lowering.machine.kernels import from_dtype, integers, matmul_text, to_dtype

HALF = replace(HOPPER, mma=replace(WGMMA, k_bytes=16))
"""A target whose matrix instruction takes 8 of K in 16 bits."""


def test_k_of_one_instruction() -> None:
    """Steps of 16 of K with one instruction each, which takes them all, or the first 8."""
    rng = np.random.default_rng(0)
    m, n, k = 64, 64, 32
    a, b = integers(rng, m, k), integers(rng, n, k)
    first = np.arange(k) % 16 < 8
    for target, taken in ((HOPPER, np.ones(k, bool)), (HALF, first)):
        kernel = parse_kernel(matmul_text(groups=1, swizzle=32, store_swizzle=128))
        d = to_dtype(np.full((m, n), np.nan, np.float32), "bf16")
        tensors = {"a": a, "b": b, "d": d}
        run_kernel(replace(kernel, target=target), tensors, {"M": m, "N": n, "K": k}, 2)
        left, right = (from_dtype(x, "bf16")[:, taken] for x in (a, b))
        assert np.array_equal(from_dtype(d, "bf16"), left @ right.T)
