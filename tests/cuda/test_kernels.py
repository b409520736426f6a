"""The hand-written kernels are right on the machine: a wrong GPU result is the emitter's."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from lowering.machine.run import run_kernel
from tests.cuda.kernels import cooperative_kernel, copy_kernel

TYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32}


def test_copy() -> None:
    a = np.arange(100 * 72).reshape(100, 72).astype(np.float32).astype(ml_dtypes.bfloat16)
    d = np.zeros_like(a)
    run_kernel(copy_kernel(), {"A": a, "D": d}, {"M": 100, "N": 72}, 2)
    assert (a == d).all()


@pytest.mark.parametrize(("dtype", "out"), [("bf16", "bf16"), ("f16", "f32")])
@pytest.mark.parametrize("k", [0, 200])
def test_cooperative(dtype: str, out: str, k: int) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, (rows, k)).astype(TYPES[dtype]) for rows in (136, 264))
    d = np.full((136, 264), np.nan, TYPES[out])
    kernel = cooperative_kernel(dtype, out, stages=2)
    run_kernel(kernel, {"A": a, "B": b, "D": d}, {"M": 136, "N": 264, "K": k}, 2)
    wanted = (a.astype(np.float32) @ b.astype(np.float32).T).astype(TYPES[out])
    assert (d == wanted).all()
