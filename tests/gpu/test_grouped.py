"""Grouped matmuls on a GPU: hard sizes, every way to deal tiles out, graphs with other ends."""

from __future__ import annotations

from typing import Any

import pytest

import wsched
from tests.gpu.pages import alone_in_memory
from tests.grouped import SIZES, check_rows, given, grouped
from tests.schedules import SCHEDULES

pytestmark = pytest.mark.gpu

DYNAMIC = tuple(name for name in SCHEDULES if "dynamic" in name)


def on_gpu(*tensors: Any) -> list[Any]:
    return [t.cuda() for t in tensors]


@pytest.mark.parametrize("sizes", [*SIZES.values(), (3,) * 1024, (129, 63, 1) * 40])
@pytest.mark.parametrize("name", [None, *DYNAMIC])
def test_results(name: str | None, sizes: tuple[int, ...]) -> None:
    import torch

    x, w, ends = given(sizes, 200, 136, behind=3)
    inputs = on_gpu(x, w, ends)
    d = torch.full((len(x), 200), float("nan"), device="cuda", dtype=x.dtype)
    params = None if name is None else SCHEDULES[name]
    kernel = wsched.compile(grouped(), inputs, params=params)
    for _ in range(3):
        kernel(*inputs, out=d)
    check_rows(d, x, w, ends)


@pytest.mark.parametrize("matrix", ["nk", "kn"])
def test_as_torch(matrix: str) -> None:
    import torch

    x, w, ends = on_gpu(*given((0, 250, 1, 800, 65), 512, 1024, matrix=matrix))
    wanted = torch._grouped_mm(x, w, offs=ends)
    assert torch.equal(wsched.grouped_mm(x, w, ends), wanted)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("name", [None, *DYNAMIC])
def test_nothing_around_the_tensors_need_be_mapped(name: str | None, last: bool) -> None:
    """A map of results begins as many rows in front of them as there are, one of rows does not."""
    import torch

    x, w, ends = given((0, 250, 1, 800, 65), 512, 1024)
    empty = torch.full((len(x), 512), float("nan"), dtype=x.dtype)
    params = None if name is None else SCHEDULES[name]
    with alone_in_memory(x, w.mT.contiguous(), empty, last=last) as (rows, matrices, d):
        inputs = [rows, matrices.mT, ends.cuda()]
        wsched.compile(grouped(), inputs, params=params)(*inputs, out=d)
        check_rows(d, x, w, ends)


def test_a_captured_graph_serves_other_ends() -> None:
    import torch

    x, w, _ = given((1000, 0, 0, 0), 256, 128)
    rows, matrices, ends = on_gpu(x, w, torch.tensor([250, 500, 750, 1000], dtype=torch.int32))
    wsched.grouped_mm(rows, matrices, ends)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        d = wsched.grouped_mm(rows, matrices, ends)
    for found in ([1, 64, 65, 1000], [0, 0, 0, 0], [1000, 1000, 1000, 1000], [3, 3, 700, 990]):
        ends.copy_(torch.tensor(found))
        d.fill_(float("nan"))
        graph.replay()
        check_rows(d, x, w, torch.tensor(found))


@pytest.mark.parametrize("ends", [(900, 3, 1, 7), (-9, 1 << 30, 0, 5), (-(1 << 31),) * 4])
def test_ends_that_are_none_write_nothing_outside(ends: tuple[int, ...]) -> None:
    """What lies in front of the result, and behind it, stays."""
    import torch

    x, w, given_ends = on_gpu(*given((300, 300, 0, 0), 256, 128))
    memory = torch.full((1000, 256), 7.0, device="cuda", dtype=x.dtype)
    given_ends.copy_(torch.tensor(ends, dtype=torch.int32))
    wsched.compile(grouped(), [x, w, given_ends])(x, w, given_ends, out=memory[200:800])
    torch.cuda.synchronize()
    assert (memory[:200] == 7).all() and (memory[800:] == 7).all()
