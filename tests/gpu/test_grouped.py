"""Grouped matmuls on a GPU: hard sizes, every way to deal tiles out, graphs with other ends."""

from __future__ import annotations

from typing import Any

import pytest

import wsched
from tests.gpu.pages import alone_in_memory
from tests.grouped import FORMS, SIZES, check_rows, given, grouped
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


HARD = (0, 250, 1, 800, 65, 7)


@pytest.mark.parametrize("sizes", [*SIZES.values(), HARD, (3,) * 200, (129, 63, 1) * 40])
@pytest.mark.parametrize("form", ["columns", "sums"])
def test_other_forms(form: str, sizes: tuple[int, ...]) -> None:
    """Groups of columns that begin anywhere, and sums over groups."""
    matrix = "nk" if form == "columns" else "kn"
    x, w, ends = given(sizes, 200, 136, behind=11, matrix=matrix, ranks=FORMS[form])
    inputs = on_gpu(x, w, ends)
    shape = (200, w.shape[1]) if form == "columns" else (len(sizes), 200, 136)
    d = torch_full(shape)
    kernel = wsched.compile(grouped(ranks=FORMS[form]), inputs)
    for _ in range(3):
        kernel(*inputs, out=d)
    check_rows(d, x, w, ends)


def test_sums_over_nothing_at_all() -> None:
    """Operands without an element, whose address is null: each group's sum is zeros."""
    x, w, ends = given((0, 0), 64, 472, matrix="kn", ranks=FORMS["sums"])
    inputs = on_gpu(x, w, ends)
    d = torch_full((2, 64, 472))
    wsched.compile(grouped(ranks=FORMS["sums"]), inputs)(*inputs, out=d)
    assert not d.any()


def torch_full(shape: tuple[int, ...]) -> Any:
    import torch

    return torch.full(shape, float("nan"), device="cuda", dtype=torch.bfloat16)


@pytest.mark.parametrize("matrix", ["nk", "kn"])
@pytest.mark.parametrize("form", ["columns", "sums"])
def test_other_forms_as_torch(form: str, matrix: str) -> None:
    import torch

    sizes = (0, 248, 8, 800, 64)  # torch takes multiples of 16 bytes
    x, w, ends = on_gpu(*given(sizes, 512, 1024, matrix=matrix, ranks=FORMS[form]))
    wanted = torch._grouped_mm(x, w, offs=ends)
    assert torch.equal(wsched.grouped_mm(x, w, ends), wanted)


@pytest.mark.parametrize("last", [False, True])
def test_nothing_around_what_is_summed_need_be_mapped(last: bool) -> None:
    """A map of what is summed over reaches as many rows behind it as there are: none is asked
    for.
    """
    import torch

    x, w, ends = given(HARD, 512, 1024, matrix="kn", ranks=FORMS["sums"])
    empty = torch.full((len(HARD) * 512, 1024), float("nan"), dtype=x.dtype)
    with alone_in_memory(x.mT.contiguous(), w, empty, last=last) as (columns, rows, d):
        inputs = [columns.mT, rows, ends.cuda()]
        result = d.view(len(HARD), 512, 1024)
        wsched.compile(grouped(ranks=FORMS["sums"]), inputs)(*inputs, out=result)
        check_rows(result, x, w, ends)


@pytest.mark.parametrize("form", FORMS)
def test_a_captured_graph_serves_other_ends(form: str) -> None:
    import torch

    x, w, _ = given((1000, 0, 0, 0), 256, 128, ranks=FORMS[form])
    left, right, ends = on_gpu(x, w, torch.tensor([250, 500, 750, 1000], dtype=torch.int32))
    wsched.grouped_mm(left, right, ends)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        d = wsched.grouped_mm(left, right, ends)
    for found in ([1, 64, 65, 1000], [0, 0, 0, 0], [1000, 1000, 1000, 1000], [3, 3, 700, 990]):
        ends.copy_(torch.tensor(found))
        d.fill_(float("nan"))
        graph.replay()
        check_rows(d, x, w, torch.tensor(found))


def test_a_replayed_graph_tells_of_ends_that_are_none() -> None:
    """Nobody has to look at each replay: the word stays until somebody asks."""
    import torch

    x, w, _ = given((1000, 0, 0, 0), 256, 128)
    rows, matrices, ends = on_gpu(x, w, torch.tensor([250, 500, 750, 1000], dtype=torch.int32))
    wsched.grouped_mm(rows, matrices, ends)
    assert not wsched.wrong_ends()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        wsched.grouped_mm(rows, matrices, ends)
    for found in ([1, 64, 65, 1000], [9, 3, 700, 990], [3, 3, 700, 990]):
        ends.copy_(torch.tensor(found))
        graph.replay()
    assert wsched.wrong_ends()
    graph.replay()
    assert not wsched.wrong_ends()


@pytest.mark.parametrize("ends", [(900, 3, 1, 7), (-9, 1 << 30, 0, 5), (-(1 << 31),) * 4])
def test_ends_that_are_none_write_nothing_outside(ends: tuple[int, ...]) -> None:
    """What lies in front of the result, and behind it, stays."""
    import torch

    x, w, given_ends = on_gpu(*given((300, 300, 0, 0), 256, 128))
    memory = torch.full((1000, 256), 7.0, device="cuda", dtype=x.dtype)
    given_ends.copy_(torch.tensor(ends, dtype=torch.int32))
    wsched.compile(grouped(), [x, w, given_ends])(x, w, given_ends, out=memory[200:800])
    torch.cuda.synchronize()
    assert wsched.wrong_ends()
    assert (memory[:200] == 7).all() and (memory[800:] == 7).all()
