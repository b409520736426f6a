"""Rows of groups that a kernel adds to those of a tensor, on a GPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import wsched
from tests.grouped import SIZES
from tests.run.test_added_rows import added, inputs, wanted
from tests.schedules import SCHEDULES

pytestmark = pytest.mark.gpu

DYNAMIC = tuple(
    name for name, p in SCHEDULES.items() if "dynamic" in name and not p.exchange_operands
)


def on_gpu(*tensors: Any) -> list[Any]:
    return [t.cuda() for t in tensors]


@pytest.mark.parametrize("sizes", [*SIZES.values(), (3,) * 200, (129, 63, 1) * 40])
@pytest.mark.parametrize("name", [None, *DYNAMIC])
def test_results(name: str | None, sizes: tuple[int, ...]) -> None:
    """Of small integers, so that any order gives the same bits."""
    import torch

    operands = inputs(sizes, n=200, k=136, tokens=max(37, sum(sizes) // 4))
    params = None if name is None else replace(
        SCHEDULES[name], use_smem_epilogue=False, epilogue_input_stages=0
    )  # fmt: skip
    given = on_gpu(*operands)
    kernel = wsched.compile(added(), given, params=params)
    expected = wanted(*operands)
    for _ in range(3):
        (found,) = kernel(*given)
        assert torch.equal(found.cpu(), expected)
    kernel(*given, out=given[-1])
    assert torch.equal(given[-1].cpu(), expected)


@pytest.mark.parametrize("of", ["BFloat16", "Half", "Float"])
@pytest.mark.parametrize("n", [200, 15])
def test_types(of: str, n: int) -> None:
    """Pairs of columns and single ones, of 16 bits and of 32."""
    import torch

    from wsched.fusion import DataType

    dtype = "Half" if of == "Half" else "BFloat16"
    operands = inputs((3, 70, 0, 130), n=n, k=136, dtype=getattr(torch, DataType[dtype].torch))
    operands[5] = operands[5].to(getattr(torch, DataType[of].torch))
    (found,) = wsched.execute(added(dtype, of=of), on_gpu(*operands))
    assert torch.equal(found.cpu(), wanted(*operands))


def test_a_layer_in_a_graph() -> None:
    """Zeros are written, and rows added to them, in each replay, by the routing that is there."""
    import torch

    torch.manual_seed(0)
    tokens, experts, k = 300, 8, 256
    x, scales = torch.randn(tokens, k).bfloat16().cuda(), torch.rand(tokens, 2).cuda()
    gate, up = (torch.randn(experts, k, 512).mul(k**-0.5).bfloat16().cuda() for _ in range(2))
    down = torch.randn(experts, 512, k).mul(512**-0.5).bfloat16().cuda()

    def routing() -> wsched.Routing:
        return wsched.route(torch.rand(tokens, experts, device="cuda").topk(2).indices, experts)

    def layer(r: wsched.Routing, deterministic: bool) -> Any:
        return wsched.moe(x, r, scales, (gate, up), down, deterministic=deterministic)

    first, other = routing(), routing()
    near = {"rtol": 2e-2, "atol": 2e-2}
    torch.testing.assert_close(layer(first, False), layer(first, True), **near)
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.stream(stream), torch.cuda.graph(graph, stream=stream):
        found = layer(first, False)
    wish = layer(other, True)
    for a, b in zip(vars_of(first), vars_of(other), strict=True):
        a.copy_(b)
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(found, wish, **near)


def vars_of(r: wsched.Routing) -> list[Any]:
    return [r.ends, r.rows, r.places, r.choices, r.tokens]


def test_numbers_that_lie_apart_are_read_in_each_launch() -> None:
    """Of 64 bits in a column of a table: the copy of them is made again, with a bound call too."""
    import torch

    operands = inputs((30, 9, 100), n=200, k=136)
    both = torch.stack((operands[3], operands[3].flip(0)), 1)
    given = on_gpu(*operands)
    table = both.cuda()
    given[3] = table[:, 0]
    kernel = wsched.compile(added(), given)
    launch = kernel.bind(*given)
    for turn in range(4):
        numbers = both[:, turn % 2]
        table[:, 0] = numbers.cuda()
        expected = wanted(*operands[:3], numbers, *operands[4:])
        for (found,) in (kernel(*given), launch()):
            assert torch.equal(found.cpu(), expected)
