"""Reductions on a real GPU: the same bits as on the machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lowering.cuda.emit import emit_cuda
from lowering.cuda.launch import LoadedKernel
from lowering.cuda.nvrtc import compile_cubin
from lowering.kernel.kernel import Kernel
from lowering.machine import run_kernel
from tests.lowering.machine.reductions import four_shapes, tensors

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
