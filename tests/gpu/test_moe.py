"""Layers of experts on a GPU: rows by index, sums of a token's rows, graphs with other routings."""

from __future__ import annotations

from typing import Any

import pytest

import wsched
from tests.front.test_moe import close, layer, wanted
from tests.gpu.pages import alone_in_memory
from tests.run.test_sweep_index import combining

pytestmark = pytest.mark.gpu


def on_gpu(*tensors: Any) -> list[Any]:
    return [t.cuda() for t in tensors]


SIZES = [(1, 8, 2), (33, 5, 3), (700, 64, 8), (900, 3, 1), (257, 200, 6)]
"""Tokens, experts, and choices of a token."""


@pytest.mark.parametrize(("tokens", "experts", "choices"), SIZES)
@pytest.mark.parametrize("matrix", ["nk", "kn"])
def test_a_layer(tokens: int, experts: int, choices: int, matrix: str) -> None:
    """As torch computes it expert by expert; ids that are no expert add nothing; twice the same."""
    import torch

    x, ids, weights, up, down = layer(tokens, experts, choices, matrix=matrix)
    ids[0, 0] = -1
    right = wanted(x, ids, weights, up, down)
    rows, routed, scales, third = on_gpu(x, ids, weights, down)
    both = tuple(on_gpu(*up))
    found = wsched.moe(rows, routed, scales, both, third)
    assert close(found.cpu(), right)
    assert torch.equal(found, wsched.moe(rows, routed, scales, both, third))


def test_a_captured_graph_serves_other_tokens() -> None:
    """Routing and all: nothing of a launch depends on which expert has how many rows."""
    import torch

    x, ids, weights, up, down = layer(300, 8, 2)
    rows, routed, scales, third = on_gpu(x, ids, weights, down)
    both = tuple(on_gpu(*up))
    wsched.moe(rows, routed, scales, both, third)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = wsched.moe(rows, routed, scales, both, third)
    for seed in range(1, 4):
        other = layer(300, 8, 2, seed)
        for kept, new in zip((rows, routed, scales), other, strict=False):
            kept.copy_(new)
        if seed == 3:
            routed.fill_(5)
        graph.replay()
        assert close(found.cpu(), wanted(other[0], routed.cpu(), other[2], up, down))


@pytest.mark.parametrize("last", [False, True])
def test_nothing_around_a_table_need_be_mapped(last: bool) -> None:
    """Places that it does not have read zeros, and no memory."""
    import torch

    table, empty = torch.randn(300, 512).bfloat16(), torch.empty(90, 512).bfloat16()
    index = torch.randint(0, 300, (90,))
    index[::7] = torch.tensor([-1, 300, 2**31 - 1, -(2**31)]).repeat(4)[:13]
    with alone_in_memory(table, empty, last=last) as (rows, _):
        places, ones = index.cuda(), torch.ones(90, device="cuda")
        (found,) = combining(1, "BFloat16")(rows, places, ones)
        assert torch.equal(found[::7].cpu(), torch.zeros(13, 512).bfloat16())
        others = torch.arange(90) % 7 > 0
        assert torch.equal(found.cpu()[others], table[index[others]])


@pytest.mark.parametrize("index", ["int64", "int32"])
def test_rows_by_index(index: str) -> None:
    import torch

    x, w = torch.randn(100, 256).bfloat16().cuda(), torch.randn(4, 256, 512).bfloat16().cuda()
    ends = torch.tensor([40, 40, 200, 333], dtype=torch.int32, device="cuda")
    rows = torch.randint(0, 100, (333,), device="cuda").to(getattr(torch, index))
    found = wsched.grouped_mm(x, w, ends, rows=rows)
    assert torch.equal(found, wsched.grouped_mm(x[rows.long()], w, ends))
