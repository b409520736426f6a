"""Reductions, lane exchange and random numbers on a real GPU: the same bits as on the machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lowering.cuda.emit import emit_cuda
from lowering.cuda.launch import LoadedKernel
from lowering.cuda.nvrtc import compile_cubin
from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel
from lowering.machine import run_kernel
from tests.lowering.machine.conversions import LARGEST, arrays, conversions, expected
from tests.lowering.machine.reductions import four_shapes, tensors
from tests.lowering.machine.test_random import KERNEL
from tests.lowering.machine.test_shuffle import BYTES, exchange

pytestmark = pytest.mark.gpu


def on_gpu(
    kernel: Kernel, arrays: dict[str, np.ndarray], params: dict[str, int], grid: int
) -> dict[str, np.ndarray]:
    """The tensors after a launch."""
    import torch

    there: dict[str, Any] = {name: torch.from_numpy(a).cuda() for name, a in arrays.items()}
    LoadedKernel(kernel, compile_cubin(emit_cuda(kernel)).cubin).launch(there, params, grid)
    return {name: t.cpu().numpy() for name, t in there.items()}


@pytest.mark.parametrize("op", ["sum", "max", "min"])
@pytest.mark.parametrize(("m", "n"), [(128, 64), (200, 130), (301, 67), (1, 1)])
def test_four_shapes(op: str, m: int, n: int) -> None:
    """All but the sum over CTAs bit for bit; with infinities, both zeros and a NaN among them."""
    arrays = tensors(m, n, op)
    arrays["x"].flat[:: 7 if op == "sum" else 1] *= 1e20
    arrays["x"].flat[3::50] = 0.0
    arrays["x"].flat[4::50] = -0.0
    arrays["x"].flat[60::2000] = np.nan if op != "sum" else np.inf
    kernel, params = four_shapes(op, 8 if n % 2 == 0 else 4), {"M": m, "N": n}
    grid = -(-m // 128)
    found = on_gpu(kernel, {name: a.copy() for name, a in arrays.items()}, params, grid)
    run_kernel(kernel, arrays, params, grid)
    for name in ("d", "column", "row"):
        np.testing.assert_array_equal(found[name], arrays[name], strict=True)
        numbers = ~np.isnan(found[name])
        assert (np.signbit(found[name]) == np.signbit(arrays[name]))[numbers].all()
    exact = op != "sum" or grid == 1
    np.testing.assert_allclose(found["one"], arrays["one"], rtol=0 if exact else 1e-5)


@pytest.mark.parametrize(("span", "other"), [(1, 2), (2, 1), (2, 4), (4, 2)])
def test_exchange(span: int, other: int) -> None:
    x = np.arange(101 * 29, dtype=np.float32).reshape(101, 29)
    arrays = {"x": x, "d": np.zeros_like(x)}
    found = on_gpu(parse_kernel(exchange("f32", span, other)), arrays, {"M": 101, "N": 29}, 1)
    assert np.array_equal(found["d"], x)


def test_bytes() -> None:
    import torch

    x = torch.randint(0, 120, (64, 64), device="cuda", dtype=torch.uint8)
    d = torch.zeros_like(x)
    kernel = parse_kernel(BYTES)
    arrays = {"x": x.view(torch.float8_e4m3fn), "d": d.view(torch.float8_e4m3fn)}
    LoadedKernel(kernel, compile_cubin(emit_cuda(kernel)).cubin).launch(arrays, {}, 1)
    assert torch.equal(d, x.roll(32, 1))


def test_random() -> None:
    m, n = 65, 33
    shapes = {"d": (m, n), "column": (m, 1), "row": (1, n)}
    arrays = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    arrays["state"] = np.array([-12345, 4 * 99 + 3])
    kernel, params = parse_kernel(KERNEL), {"M": m, "N": n, "fixed": 7}
    found = on_gpu(kernel, {name: a.copy() for name, a in arrays.items()}, params, 2)
    run_kernel(kernel, arrays, params, 2)
    for name in shapes:
        assert np.array_equal(found[name], arrays[name])


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("span", [1, 2, 4])
def test_conversions_of_rows_and_columns(dtype: str, span: int) -> None:
    """All columns of a row, also where a thread's groups are single ones."""
    import torch

    columns = LARGEST * span - 3
    given = arrays(dtype, columns)
    there = {
        name: torch.from_numpy(a.view(np.int16) if a.itemsize == 2 else a).cuda()
        for name, a in given.items()
    }
    of = {"bf16": torch.bfloat16, "f16": torch.float16}[dtype]
    there = {n: t.view(of) if t.element_size() == 2 else t for n, t in there.items()}
    kernel = parse_kernel(conversions(dtype, span))
    LoadedKernel(kernel, compile_cubin(emit_cuda(kernel)).cubin).launch(there, {"n": columns}, 1)
    for found, right in zip((there["out"], there["half"]), expected(given), strict=True):
        np.testing.assert_array_equal(found.float().cpu().numpy(), right.astype(np.float32))
