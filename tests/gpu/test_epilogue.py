"""Pointwise operations and the inputs of an epilogue on a real GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lowering.cuda.emit import emit_cuda
from lowering.cuda.launch import LoadedKernel
from lowering.cuda.nvrtc import compile_cubin
from lowering.kernel.kernel import Kernel
from lowering.kernel.pointwise import OPS
from tests.lowering.cuda.epilogues import (
    Compute,
    add_residual,
    bias_gelu,
    epilogue_kernel,
    everything,
)
from tests.lowering.machine.epilogues import LOAD, LOAD32, chain, epilogue, inputs, run_epilogue

pytestmark = pytest.mark.gpu

SMALL = """
b: frag<bf16, 1x64> = frag.load_global row[0, c]
e: frag<bf16, 1x64> = frag.load_global pairs[0, c]
f: frag<f32, 64x1> = frag.load_global column[r, 0]
g: frag<f16, 64x1> = frag.load_global half[r, 0]
h: frag<f32, 1x1> = frag.load_global one[0, 0]
f2: frag<f32, 64x1> = frag.pointwise mul, f, h
f3: frag<bf16, 64x1> = frag.cast f2
"""
BODIES = {
    "small": SMALL
    + chain("t1 = add acc, b", "t2 = sub t1, e", "t3 = mul t2, f3", "out = add t3, g"),
    "loads": "y: frag<bf16, 64x64> = frag.load_global y[r, c]\n" + chain("out = add acc, y"),
    "ldmatrix": LOAD + chain("out = add acc, before"),
    "ld.shared": LOAD32 + "left: frag<f32, 64x32> = frag.columns acc, 0\n"
    "sum: frag<f32, 64x32> = frag.pointwise add, left, before\n" + chain("out = neg acc"),
}


def load(k: Kernel) -> LoadedKernel:
    return LoadedKernel(k, compile_cubin(emit_cuda(k)).cubin)


def to_torch(name: str, array: np.ndarray) -> Any:
    import torch

    if array.dtype == np.uint16:
        return torch.from_numpy(array.view(np.int16).copy()).cuda().view(torch.bfloat16)
    return torch.from_numpy(array.copy()).cuda()


def on_gpu(k: Kernel, tensors: dict[str, np.ndarray]) -> np.ndarray:
    m, n = tensors["x"].shape
    given = {name: to_torch(name, array) for name, array in tensors.items()}
    load(k).launch(given, {"M": m, "N": n}, -(-m // 64) * -(-n // 64))
    return given["d"].cpu().numpy()  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize(("m", "n"), [(64, 64), (100, 72), (1, 8), (200, 136)])
def test_inputs_as_on_the_machine(name: str, m: int, n: int) -> None:
    k = epilogue(BODIES[name], left="sum" if name == "ld.shared" else "part0")
    tensors = inputs(m, n)
    got = on_gpu(k, tensors)
    np.testing.assert_allclose(got, run_epilogue(k, tensors), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("op", [op for op, entry in OPS.items() if not entry.predicate])
def test_operation_against_float64(op: str) -> None:
    """Relative error at most 4e-7 (sigmoid 1e-7 |x| more, pow and erfc 1e-6), NaN as in torch."""
    import torch

    entry = OPS[op]
    loads = "z: frag<f32, 1x1> = frag.load_global one[0, 0]\n"
    arguments = [*(["q"] * entry.conditions), "acc", "s", "0.75"][: entry.arity]
    loads += "s: frag<f32, 64x1> = frag.load_global column[r, 0]\n" + chain("q = ge acc, z")
    body = loads + "\n" + chain(f"out = {op} {', '.join(arguments)}")
    tensors = inputs(128, 256)
    rng = np.random.default_rng(1)
    special = np.array([0, -0.0, 1e-30, -1e-6, 88, -88, 1e4, -1e4, np.inf, -np.inf, np.nan])
    tensors["x"] = (rng.standard_normal((128, 256)) * 6).astype(np.float32)
    tensors["x"][0, : special.size] = special
    tensors["column"][:4, 0] = (np.nan, np.inf, 0.0, 2.0)
    got = torch.from_numpy(on_gpu(epilogue(body), tensors)).double()
    x, s = (torch.from_numpy(tensors[name]) for name in ("x", "column"))
    wide = [a.double() for a in (x, s.expand_as(x), torch.full_like(x, 0.75))]
    if entry.conditions:
        wide = [x >= float(tensors["one"][0, 0]), *wide]
    names = {"neg": "negative", "silu": "nn.functional.silu"}
    function: Any = torch
    for part in names.get(op, op).split("."):
        function = getattr(function, part)
    wanted = function(*wide[: entry.arity])
    single = wanted.float().double()
    assert torch.equal(got.isnan(), single.isnan())
    # Below: results, and with silu a sigmoid, that flush to zero.
    finite = single.isfinite() & (single.abs() > 2e-36)
    assert torch.equal(got[single.isinf()], single[single.isinf()])
    limit = 4e-7 + (
        1e-7 * wide[0].abs() if op in ("sigmoid", "silu") else 6e-7 * (op in ("pow", "erfc"))
    )
    error = (got - wanted).abs() / wanted.abs()
    assert (error <= limit)[finite].all(), error[finite].max()
    tiny = single.isfinite() & ~finite
    assert (got[tiny] - wanted[tiny]).abs().max() < 2e-36 if tiny.any() else True


def matmul(m: int, n: int, k: int) -> dict[str, Any]:
    """Operands and inputs of the cooperative kernel's epilogues; D is NaN."""
    import torch

    torch.manual_seed(m + n + k)

    def normal(*shape: int, dtype: Any = torch.bfloat16) -> Any:
        return torch.randn(shape, device="cuda").to(dtype)

    return {
        "A": normal(m, k), "B": normal(n, k), "R": normal(m, n), "bias": normal(1, n),
        "odd": normal(1, n), "scale": normal(m, 1, dtype=torch.float32), "res": normal(m, n),
        "D": torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16),
    }  # fmt: skip


def wanted_of(compute: Compute, t: dict[str, Any]) -> Any:
    from torch.nn.functional import gelu

    t = {name: x.double() for name, x in t.items()}
    d = t["A"] @ t["B"].t()
    if compute is bias_gelu:
        return gelu(d + t["bias"], approximate="tanh")
    if compute is add_residual:
        return d + t["R"]
    g = gelu(d * t["scale"] + t["odd"], approximate="tanh")
    return g.where(g >= 0, g * 0.1) + t["res"]


@pytest.mark.parametrize("compute", [bias_gelu, add_residual, everything])
@pytest.mark.parametrize(("m", "n", "k"), [(128, 256, 64), (136, 264, 200), (1000, 3000, 72)])
def test_epilogue_of_the_cooperative_kernel(compute: Compute, m: int, n: int, k: int) -> None:
    import torch

    tensors = matmul(m, n, k)
    load(epilogue_kernel(compute)).launch(tensors, {"M": m, "N": n, "K": k}, 132)
    wanted = wanted_of(compute, tensors)
    error = (tensors["D"].double() - wanted).norm() / wanted.norm()
    assert error < 4e-3
    assert torch.isfinite(tensors["D"]).all()
