"""The hand-written kernels of tests/lowering/cuda on a real GPU."""

from __future__ import annotations

from typing import Any

import pytest

from lowering.cuda.emit import emit_cuda
from lowering.cuda.launch import LoadedKernel
from lowering.cuda.nvrtc import compilations, compile_cubin
from lowering.kernel.kernel import Kernel
from tests.lowering.cuda.kernels import batched_kernel, cooperative_kernel, copy_kernel

pytestmark = pytest.mark.gpu

GRID = 132


def load(k: Kernel) -> LoadedKernel:
    return LoadedKernel(k, compile_cubin(emit_cuda(k)).cubin)


@pytest.fixture(scope="module")
def cooperative() -> LoadedKernel:
    return load(cooperative_kernel())


def matrices(m: int, n: int, k: int, dtype: str, out: str) -> tuple[Any, Any, Any, Any]:
    """A, B, poisoned D and the exact result, for integers that every type here holds exactly."""
    import torch

    torch.manual_seed(m * n + k)
    a, b = (torch.randint(-2, 3, (rows, k), device="cuda") for rows in (m, n))
    wanted = (a.double() @ b.double().t()).float().to(getattr(torch, out))
    d = torch.full((m, n), float("nan"), device="cuda", dtype=getattr(torch, out))
    return a.to(getattr(torch, dtype)), b.to(getattr(torch, dtype)), d, wanted


def go(kernel: LoadedKernel, a: Any, b: Any, d: Any, grid: int = GRID) -> None:
    params = {"M": a.shape[0], "N": b.shape[0], "K": a.shape[1]}
    kernel.launch({"A": a, "B": b, "D": d}, params, grid)


def test_copy() -> None:
    import torch

    a = torch.randn(200, 136, device="cuda", dtype=torch.bfloat16)
    d = torch.full_like(a, float("nan"))
    load(copy_kernel()).launch({"A": a, "D": d}, {"M": 200, "N": 136}, 4)
    assert torch.equal(a, d)


@pytest.mark.parametrize("between", [False, True])
def test_batched(between: bool) -> None:
    """Three dimensions, clipped in each matrix; also with the batch between rows and columns."""
    import torch

    b, m, n = 5, 100, 136
    shape = (m, b, n) if between else (b, m + 3, n)
    storage = torch.randint(-9, 9, shape, device="cuda").bfloat16()
    x = storage.transpose(0, 1) if between else storage[:, 2:-1]
    bias = torch.randint(-9, 9, (b, 1, n), device="cuda").float()
    total = torch.randint(-9, 9, (n,), device="cuda").float()
    whole = torch.full((b, m + 2, n), 7.0, device="cuda", dtype=torch.bfloat16)
    tensors = {"X": x, "D": whole[:, 1:-1], "bias": bias, "total": total}
    load(batched_kernel()).launch(tensors, {"B": b, "M": m, "N": n}, 2 * b)
    assert torch.equal(whole[:, 1:-1], (x.float() + bias + total).bfloat16())
    assert (whole[:, 0] == 7).all() and (whole[:, -1] == 7).all()


@pytest.mark.parametrize(
    ("m", "n", "k"),
    [(128, 256, 64), (128, 256, 4096), (8, 8, 8), (136, 264, 200), (1000, 3000, 72)],
)
@pytest.mark.parametrize(("dtype", "out"), [("bf16", "bf16"), ("f16", "f16"), ("bf16", "f32")])
def test_cooperative(m: int, n: int, k: int, dtype: str, out: str) -> None:
    import torch

    names = {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}
    a, b, d, wanted = matrices(m, n, k, names[dtype], names[out])
    go(load(cooperative_kernel(dtype, out)), a, b, d)
    assert torch.equal(d, wanted)


def test_empty_k_stores_zero(cooperative: LoadedKernel) -> None:
    import torch

    a, b, d, _ = matrices(128, 256, 0, "bfloat16", "bfloat16")
    go(cooperative, a, b, d)
    assert torch.equal(d, torch.zeros_like(d))


def test_strided_operands(cooperative: LoadedKernel) -> None:
    import torch

    a, b, d, wanted = matrices(256, 512, 128, "bfloat16", "bfloat16")
    wide = [torch.nn.functional.pad(x, (8, 24)) for x in (a, b, d)]
    views = [w[:, 8 : 8 + x.shape[1]] for w, x in zip(wide, (a, b, d), strict=True)]
    go(cooperative, *views)
    assert torch.equal(views[2], wanted)
    assert not wide[2][:, :8].any() and not wide[2][:, -24:].any()


def test_new_shapes_compile_nothing(cooperative: LoadedKernel) -> None:
    import torch

    before = compilations()
    for m in (8, 1000, 2048):
        a, b, d, wanted = matrices(m, 512, 320, "bfloat16", "bfloat16")
        go(cooperative, a, b, d, grid=7)
        assert torch.equal(d, wanted)
    assert compilations() == before


def test_side_stream_and_graph(cooperative: LoadedKernel) -> None:
    import torch

    a, b, d, wanted = matrices(512, 512, 512, "bfloat16", "bfloat16")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        go(cooperative, a, b, d)
    side.synchronize()
    assert torch.equal(d, wanted)

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        go(cooperative, a, b, d)
    other = matrices(512, 512, 512, "bfloat16", "bfloat16")[0].flip(0).contiguous()
    a.copy_(other)
    d.fill_(float("nan"))
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(d, (a.float() @ b.float().t()).to(d.dtype))
