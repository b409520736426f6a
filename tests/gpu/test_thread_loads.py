"""Operands that threads load, on a real GPU: at sizes of which TMA takes none, to the bit."""

from __future__ import annotations

from typing import Any

import pytest

from lowering.cuda.emit import emit_cuda
from lowering.cuda.launch import LoadedKernel
from lowering.cuda.nvrtc import compile_cubin
from lowering.kernel.text import parse_kernel
from tests.lowering.cuda.tiles import tile_text
from tests.run.test_thread_loads import by_columns, kernel, params
from wsched.schedule.matmul.params import BufferingLoopLevel, ThreadLoads, TilingStrategy

pytestmark = pytest.mark.gpu

TURNS = {"buffering_loop_level": BufferingLoopLevel.WarpTiles}
STREAM = {"tiling_strategy": TilingStrategy.DistributeStagesAcrossSMs}

CASES: dict[str, tuple[Any, tuple[int, int, int]]] = {
    "few rows": (params(ThreadLoads(2, 2), (64, 64, 128)), (7, 4097, 4095)),
    "two warpgroups": (params(ThreadLoads(2, 2, 2), (128, 128, 64)), (1001, 1023, 777)),
    "pairs": (params(ThreadLoads(4, 4)), (333, 1025, 1022)),
    "a alone": (params(ThreadLoads(2, 0, 2), (128, 128, 64)), (515, 2049, 1032)),
    "b alone": (params(ThreadLoads(0, 2), (128, 64, 64)), (515, 2049, 1032)),
    "ping-pong": (params(ThreadLoads(2, 2), **TURNS), (2000, 1031, 515)),
    "exchanged": (params(ThreadLoads(2, 2), exchange_operands=True), (31, 4001, 1001)),
    "parts of K": (params(ThreadLoads(2, 2), splitk_factor=4), (64, 129, 8191)),
    "stream-K": (params(ThreadLoads(2, 2), **STREAM), (129, 1001, 4097)),
}


def integers(rows: int, cols: int) -> Any:
    import torch

    return torch.randint(-2, 3, (rows, cols), device="cuda").bfloat16()


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_right_to_the_bit(name: str, columns: bool) -> None:
    """Sums of small integers are exact; operands by rows, and by columns at odd M and N."""
    import torch

    p, (m, n, k) = CASES[name]
    torch.manual_seed(0)
    x, w = integers(m, k), integers(n, k)
    if columns and p.thread_loads.a == p.thread_loads.b == 2:
        x, w = by_columns(x), by_columns(w)
    made = kernel(p, x, w)
    for _ in range(3):
        (y,) = made(x, w)
        assert torch.equal(y, (x.float() @ w.float().T).bfloat16())


@pytest.mark.parametrize("align", [1, 2, 4, 8, 16])
def test_a_copy(align: int) -> None:
    import torch

    m, n = 150, 128
    text = tile_text("bf16", 2, 64, 128, 48, align, 128)
    x = torch.randint(-9, 10, (2, m, n), device="cuda").bfloat16()
    d = torch.zeros(256, 512, device="cuda", dtype=torch.bfloat16)
    made = parse_kernel(text)
    loaded = LoadedKernel(made, compile_cubin(emit_cuda(made)).cubin)
    loaded.launch({"X": x, "D": d}, {"M": m, "N": n}, 1)
    torch.cuda.synchronize()
    assert torch.equal(d[128:214, :64], x[1, 64:, 48:112])
    assert not d[214:, :64].any()
