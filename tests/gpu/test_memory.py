"""What only the device knows, on a real GPU: bounds and rows from memory, tensor maps that change,
rings that threads fill.
"""

from __future__ import annotations

from typing import Any

import pytest

from lowering.cuda.driver import driver_api
from lowering.cuda.emit import emit_cuda
from lowering.cuda.launch import LoadedKernel
from lowering.cuda.nvrtc import compile_cubin
from lowering.cuda.tensormap import encode, layout_of
from lowering.kernel.text import parse_kernel
from tests.lowering.cuda.descriptors import GROUPS, LISTS
from tests.lowering.cuda.rings import FILLS, copy_text, ring_text

pytestmark = pytest.mark.gpu


def load(text: str) -> LoadedKernel:
    k = parse_kernel(text)
    return LoadedKernel(k, compile_cubin(emit_cuda(k)).cubin)


def launch(text: str, tensors: dict[str, Any], params: dict[str, int], grid: int) -> None:
    load(text).launch(tensors, params, grid)


@pytest.mark.parametrize("fill", FILLS)
def test_a_ring_that_threads_fill(fill: str) -> None:
    import torch

    torch.manual_seed(0)
    m, n, k, rows = 8000, 64, 1000, 9000
    x = torch.randint(-2, 3, (rows, k), device="cuda").bfloat16()
    b = torch.randint(-2, 3, (n, k), device="cuda").bfloat16()
    order = torch.randperm(rows, device="cuda")[:m].int()[:, None].contiguous()
    d = torch.full((m, n), float("nan"), device="cuda")
    tensors = {"x": x, "b": b, "d": d, "order": order}
    launch(ring_text(fill), tensors, {"M": m, "N": n, "K": k, "R": rows}, -(-m // 64))
    taken = x[:m] if fill == "rows" else x[order[:, 0].long()]
    assert torch.equal(d, (taken.double() @ b.double().t()).float())


@pytest.mark.parametrize(
    ("dtype", "size", "cols", "span", "at"),
    [("bf16", 2, 128, 128, 8), ("u8", 1, 64, 64, 16), ("u8", 1, 256, 128, 0), ("f32", 4, 32, 0, 4)],
)
def test_any_type_and_layout(dtype: str, size: int, cols: int, span: int, at: int) -> None:
    import torch

    kind = {"bf16": torch.bfloat16, "u8": torch.uint8, "f32": torch.float32}[dtype]
    step = 16 // size
    n = at + max(cols // 2, step) // step * step
    x = torch.randint(1, 99, (2, 150, n), device="cuda").to(kind)
    d = torch.full((256, 512), 7, device="cuda", dtype=kind)
    launch(copy_text(dtype, size, cols, span, at), {"X": x, "D": d}, {"M": 150, "N": n}, 1)
    wanted = torch.zeros((128, cols), device="cuda", dtype=kind)
    wanted[:86, : n - at] = x[1, 64:, at:]
    assert torch.equal(d[128:, :cols], wanted)


def test_a_list_of_tensors() -> None:
    import torch

    widths = (128, 64, 192)
    xs = [torch.randn(1000, n, device="cuda") for n in widths]
    ds = [torch.full_like(x, float("nan")) for x in xs]
    tensors = {f"X[{i}]": x for i, x in enumerate(xs)} | {f"D[{i}]": d for i, d in enumerate(ds)}
    launch(LISTS, tensors, {"M": 1000, "N0": 128, "N1": 64, "N2": 192}, 16)
    assert all(torch.equal(x, d) for x, d in zip(xs, ds, strict=True))


def test_descriptors_that_end_with_a_group() -> None:
    import torch

    rows, starts = 300, [0, 100, 101, 101, 300]
    x = torch.randn(rows, 32, device="cuda")
    d = torch.full_like(x, float("nan"))
    groups = load(GROUPS)
    m = groups.kernel.tensor_map("D")
    one = encode(driver_api(), m, layout_of(m, d))
    maps = torch.frombuffer(bytearray(2 * one), dtype=torch.uint8).cuda()
    start = torch.tensor(starts, dtype=torch.int32, device="cuda")
    tensors = {"X": x, "D": maps, "d": d, "x": x, "start": start}
    for _ in range(20):
        d.fill_(float("nan"))
        groups.launch(tensors, {"M": rows, "G": 4}, 2)
        assert torch.equal(d, x)
