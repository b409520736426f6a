"""Kernels that share groups out on a GPU, in one grid where they are alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

import wsched
from tests.gpu.pages import alone_in_memory
from tests.grouped import GATE, SIZES, check_rows, gated, given, grouped, product
from tests.schedules import cooperative, dynamic, exchanged, ping_pong
from wsched.schedule.matmul.params import TileRasterizationOrder
from wsched.schedule.matmul.siblings import shared

pytestmark = pytest.mark.gpu

_COLUMNS = TileRasterizationOrder.ColumnMajor
LONG = dynamic(exchanged(ping_pong(128, 144, 64, stages=5)))
WHOLE = replace(dynamic(ping_pong(128, 128, 64, stages=5)), cta_order=_COLUMNS)
SHORT = dynamic(cooperative(64, 128, 64, stages=5, groups=1, registers=None, order=_COLUMNS))
SETS = {"two": (LONG, WHOLE), "three": (LONG, WHOLE, SHORT), "other kinds": (WHOLE, SHORT)}

HARD = (0, 250, 1, 800, 65, 7, 128, 144, 129, 288)
EVERY = (*SIZES.values(), HARD, (3,) * 1024, (129, 63, 1) * 40, tuple(range(0, 600, 7)))


def on_gpu(*tensors: Any) -> list[Any]:
    return [t.cuda() for t in tensors]


@pytest.mark.parametrize("sizes", EVERY)
@pytest.mark.parametrize("name", SETS)
def test_results(name: str, sizes: tuple[int, ...]) -> None:
    import torch

    x, w, ends = given(sizes, 200, 136, behind=3)
    inputs = on_gpu(x, w, ends)
    d = torch.full((len(x), 200), float("nan"), device="cuda", dtype=x.dtype)
    kernel = wsched.compile(grouped(), inputs, params=shared(SETS[name]))
    for _ in range(3):
        kernel(*inputs, out=d)
    check_rows(d, x, w, ends)


@pytest.mark.parametrize("name", SETS)
def test_a_trace_is_of_all(name: str) -> None:
    """And writes all groups."""
    import torch

    x, w, ends = given(HARD, 200, 136, behind=3)
    inputs = on_gpu(x, w, ends)
    d = torch.full((len(x), 200), float("nan"), device="cuda", dtype=x.dtype)
    kernel = wsched.compile(grouped(), inputs, params=shared(SETS[name]))
    trace = kernel.trace(*inputs, out=d)
    check_rows(d, x, w, ends)
    assert len(trace.kernels) == len(SETS[name]) and trace.unit == "ns"
    firsts = [int(n) for n in trace.about.rpartition("from ")[2].split(" on")[0].split(", ")]
    ctas = {s.cta for s in trace.spans}
    assert firsts[0] == 0 and ctas.issuperset(firsts) and len(ctas) > firsts[-1]


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("name", SETS)
def test_nothing_around_the_tensors_need_be_mapped(name: str, last: bool) -> None:
    import torch

    x, w, ends = given(HARD, 512, 1024)
    empty = torch.full((len(x), 512), float("nan"), dtype=x.dtype)
    with alone_in_memory(x, w.mT.contiguous(), empty, last=last) as (rows, matrices, d):
        inputs = [rows, matrices.mT, ends.cuda()]
        wsched.compile(grouped(), inputs, params=shared(SETS[name]))(*inputs, out=d)
        check_rows(d, x, w, ends)


def test_several_products() -> None:
    x, w, ends = given(HARD, 512, 1024)
    u = w.flip(0)
    tiles = (dynamic(exchanged(ping_pong(128, n, 64, stages=4))) for n in (104, 88))
    narrow = tuple(replace(p, num_registers="auto") for p in tiles)
    inputs = on_gpu(x, w, ends, u)
    (d,) = wsched.execute(GATE, inputs, params=shared(narrow))
    wanted = gated(x, w, u, ends).float()
    assert float((d.cpu().float() - wanted).norm() / wanted.norm()) < 1e-2


def _drawn(seed: int, groups: int, rows: int) -> list[int]:
    """Sizes of groups, which come to so many rows."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    cuts = torch.randint(0, rows + 1, (groups - 1,), generator=generator).sort().values.tolist()
    return [b - a for a, b in zip([0, *cuts], [*cuts, rows], strict=True)]


def _wanted(x: Any, first: Any, second: Any, sizes: Sequence[int]) -> Any:
    import torch

    ends = torch.tensor(sizes).cumsum(0)
    hidden = product(x, first, ends).bfloat16()
    return product(hidden, second, ends).bfloat16()


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("name", SETS)
def test_each_reads_what_those_in_front_have_made(name: str, captured: bool) -> None:
    """Two matmuls behind each other on memory that is written again each time: no kernel of either
    reads anything too early, and nobody writes what is still read.
    """
    import torch

    groups, rows, width, hidden = 12, 3000, 192, 256
    torch.manual_seed(1)
    first = torch.randint(-1, 2, (groups, hidden, width)).bfloat16().mT.cuda()
    second = torch.randint(-1, 2, (groups, width, hidden)).bfloat16().mT.cuda()
    all_x = torch.randint(-1, 2, (6, rows, width)).bfloat16().cuda()
    sizes = [_drawn(seed, groups, rows) for seed in range(6)]
    all_ends = torch.tensor(sizes).cumsum(1).to(torch.int32).cuda()
    x, ends = torch.empty_like(all_x[0]), torch.empty_like(all_ends[0])
    h = torch.empty(rows, hidden, device="cuda", dtype=x.dtype)
    d, found = torch.empty_like(x), torch.empty_like(all_x)
    params = shared(SETS[name])
    up, down = (wsched.compile(grouped(), [t, w, ends], params=params)
                for t, w in ((x, first), (h, second)))  # fmt: skip

    def run() -> None:
        for i in range(6):
            x.copy_(all_x[i])
            ends.copy_(all_ends[i])
            up(x, first, ends, out=h)
            down(h, second, ends, out=d)
            up(d, first, ends, out=h)  # what is written again at once
            down(h, second, ends, out=x)
            down(h, second, ends, out=d)
            up(all_x[i], first, ends, out=h)
            down(h, second, ends, out=found[i])

    run()
    if captured:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            run()
        found.zero_()
        for _ in range(5):
            graph.replay()
    for i, each in enumerate(sizes):
        wanted = _wanted(all_x[i].cpu(), first.cpu(), second.cpu(), each)
        assert torch.equal(found[i].cpu(), wanted)
