"""The hand-written kernels are right on the machine: a wrong GPU result is the emitter's."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.machine import MachineError
from lowering.machine.run import run_kernel
from tests.lowering.cuda.epilogues import (
    Compute,
    add_residual,
    bias_gelu,
    epilogue_kernel,
    everything,
)
from tests.lowering.cuda.kernels import cooperative_kernel, copy_kernel

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


def gelu(x: np.ndarray) -> np.ndarray:
    return x * 0.5 * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))


def wanted_of(compute: Compute, t: dict[str, np.ndarray]) -> np.ndarray:
    t = {name: x.astype(np.float64) for name, x in t.items()}
    d = t["A"] @ t["B"].T
    if compute is bias_gelu:
        return gelu(d + t["bias"])
    if compute is add_residual:
        return d + t["R"]
    g = gelu(d * t["scale"] + t["odd"])
    return np.where(g < 0, g * 0.1, g) + t["res"]


def run_epilogue(kernel: Kernel, seed: int = 0) -> dict[str, np.ndarray]:
    """All tensors of a run on 136x264x200; D is the result."""
    m, n, k = 136, 264, 200
    rng = np.random.default_rng(0)
    shapes = {"A": (m, k), "B": (n, k), "R": (m, n), "bias": (1, n), "odd": (1, n), "res": (m, n)}
    tensors = {name: (rng.standard_normal(shape) / 8).astype(ml_dtypes.bfloat16)
               for name, shape in shapes.items()}  # fmt: skip
    tensors["scale"] = rng.standard_normal((m, 1)).astype(np.float32)
    tensors["D"] = np.full((m, n), np.nan, ml_dtypes.bfloat16)
    run_kernel(kernel, tensors, {"M": m, "N": n, "K": k}, 2, seed=seed)
    return tensors


@pytest.mark.parametrize("compute", [bias_gelu, add_residual, everything])
def test_epilogue(compute: Compute) -> None:
    tensors = run_epilogue(epilogue_kernel(compute, stages=2))
    got, wanted = tensors["D"].astype(np.float64), wanted_of(compute, tensors)
    assert np.linalg.norm(got - wanted) < 3e-3 * np.linalg.norm(wanted)


@pytest.mark.parametrize("fault", ["mbarrier.wait res_full[group], 1", "bar.sync store[group]"])
def test_fault_in_the_protocol_of_a_residual_shows(fault: str) -> None:
    """Without the wait for its bytes; without the barrier that frees its buffer."""
    lines = [line for line in print_kernel(epilogue_kernel(add_residual, stages=2)).splitlines()
             if line.strip() != fault]  # fmt: skip
    kernel = parse_kernel("\n".join(lines))
    wrong = 0
    for seed in range(3):
        try:
            tensors = run_epilogue(kernel, seed)
        except MachineError:  # a warp that is too late waits for ever
            wrong += 1
            continue
        got, wanted = tensors["D"].astype(np.float64), wanted_of(add_residual, tensors)
        wrong += not np.allclose(got, wanted, rtol=1e-2, atol=1e-2)
    assert wrong
