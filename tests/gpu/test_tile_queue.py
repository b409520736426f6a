"""Tiles dealt out at run time on a GPU: beside other kernels, in graphs, on several streams."""

from __future__ import annotations

from typing import Any

import pytest

import wsched
from tests.gpu.test_streams import operands
from tests.schedules import SCHEDULES, definition
from wsched.bench.method.hold import Held

pytestmark = pytest.mark.gpu

DYNAMIC = tuple(name for name in SCHEDULES if name.startswith("dynamic"))
SHAPE = (2056, 3080, 520)


def compiled(name: str, x: Any, w: Any) -> Any:
    return wsched.compile(definition(), [x, w], params=SCHEDULES[name])


@pytest.mark.parametrize("name", DYNAMIC)
@pytest.mark.parametrize("shape", [(8, 8, 64), (136, 264, 0), (1000, 72, 4096), SHAPE])
def test_results(name: str, shape: tuple[int, int, int]) -> None:
    """One tile, no K, few tiles and many; again with the counter that the first launch left."""
    import torch

    x, w, wanted = operands(*shape)
    kernel = compiled(name, x, w)
    for _ in range(3):
        (d,) = kernel(x, w)
        assert torch.equal(d, wanted)


@pytest.mark.parametrize("name", DYNAMIC)
@pytest.mark.parametrize("count", [1, 40, 100])
def test_while_another_kernel_holds_multiprocessors(name: str, count: int) -> None:
    import torch

    x, w, wanted = operands(*SHAPE)
    kernel = compiled(name, x, w)
    results = [torch.full_like(wanted, float("nan")) for _ in range(4)]
    kernel(x, w, out=[results[0]])
    # A cluster starts where a GPC has places for all of it: of 32 multiprocessors that are left,
    # spread as the holder's CTAs left them, four in one were not found on every GPU.
    with Held(count if kernel.kernel.cluster == 1 else min(count, 64)):
        for d in results:
            kernel(x, w, out=[d])
        torch.cuda.current_stream().synchronize()
        assert all(torch.equal(d, wanted) for d in results)


@pytest.mark.parametrize("name", DYNAMIC)
def test_beside_a_large_matmul(name: str) -> None:
    import torch

    x, w, wanted = operands(*SHAPE)
    kernel, other = compiled(name, x, w), torch.cuda.Stream()
    big = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    torch.cuda.synchronize()
    for _ in range(5):
        with torch.cuda.stream(other):
            big @ big
        results = [kernel(x, w)[0] for _ in range(10)]
        assert all(torch.equal(d, wanted) for d in results)
    torch.cuda.synchronize()


@pytest.mark.parametrize("name", DYNAMIC)
def test_graph_replays(name: str) -> None:
    """Twice in a graph, replayed 20 times beside launches on the stream that it was captured on."""
    import torch

    x, w, wanted = operands(*SHAPE)
    kernel = compiled(name, x, w)
    first, second, third = (torch.empty_like(wanted) for _ in range(3))
    kernel(x, w, out=[first])
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=stream):
        kernel(x, w, out=[first])
        kernel(x, w, out=[second])
    for _ in range(20):
        for d in (first, second, third):
            d.fill_(float("nan"))
        torch.cuda.synchronize()
        graph.replay()
        with torch.cuda.stream(stream):
            kernel(x, w, out=[third])
        torch.cuda.synchronize()
        assert all(torch.equal(d, wanted) for d in (first, second, third))


@pytest.mark.parametrize("name", DYNAMIC)
def test_two_streams_have_counters_of_their_own(name: str) -> None:
    import torch

    x, w, wanted = operands(*SHAPE)
    kernel = compiled(name, x, w)
    streams = [torch.cuda.Stream() for _ in range(2)]
    results = [[torch.empty_like(wanted) for _ in range(20)] for _ in streams]
    kernel(x, w)
    torch.cuda.synchronize()
    for i in range(20):
        for stream, mine in zip(streams, results, strict=True):
            with torch.cuda.stream(stream):
                kernel(x, w, out=[mine[i]])
    torch.cuda.synchronize()
    assert all(torch.equal(d, wanted) for mine in results for d in mine)


def test_kernels_of_one_stream_share_a_counter() -> None:
    """Of different grids and clusters, behind each other, launched dependently."""
    import torch

    x, w, wanted = operands(*SHAPE)
    kernels = [compiled(name, x, w) for name in DYNAMIC]
    results = [kernel(x, w)[0] for _ in range(10) for kernel in kernels]
    assert all(torch.equal(d, wanted) for d in results)
