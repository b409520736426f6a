"""Masks in epilogues on a GPU."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import wsched
from tests.masks import (
    BATCHED,
    BATCHED_INDICES,
    CASES,
    ONE_MASK,
    PLACES,
    K,
    M,
    N,
    W,
    X,
    bools,
    integers,
)
from tests.schedules import SCHEDULES
from wsched.front.known import known

pytestmark = pytest.mark.gpu


def on_gpu(*tensors: Any) -> list[Any]:
    return [t.cuda() for t in tensors]


@pytest.mark.parametrize("schedule", [None, "coop_128x256", "pingpong_128x128", "exchanged_boxes"])
@pytest.mark.parametrize("name", CASES)
def test_masks(name: str, schedule: str | None) -> None:
    import torch

    text, inputs, wanted = CASES[name]
    params = SCHEDULES[schedule] if schedule and name != "beside a residual" else None
    (d,) = wsched.execute(text, on_gpu(X, W, *inputs), params=params)
    assert torch.equal(d.cpu(), wanted.to(d.dtype))


@pytest.mark.parametrize("schedule", [None, "coop_128x256", "pingpong_128x128", "exchanged_boxes"])
@pytest.mark.parametrize("name", PLACES)
def test_masks_by_indices(name: str, schedule: str | None) -> None:
    import torch

    text, inputs, wanted = PLACES[name]
    params = SCHEDULES[schedule] if schedule else None
    (d,) = wsched.execute(text, on_gpu(X, W, *inputs), params=params)
    assert torch.equal(d.cpu(), wanted.to(d.dtype))


@pytest.mark.parametrize("runner", ["torch", "nvfuser"])
def test_a_mask_of_no_tensor(runner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who makes it knows where it is read; a captured graph makes it, too."""
    import torch

    if runner == "torch":
        monkeypatch.setitem(sys.modules, "nvfuser_direct", None)
    else:
        pytest.importorskip("nvfuser_direct", reason="nvFuser is not installed")
    text, given, wanted = ONE_MASK
    known(text).routes.clear()
    inputs = on_gpu(*given)
    assert f"{runner}:  -> m" in str(wsched.explain(text, inputs))
    graph = torch.cuda.CUDAGraph()
    for _ in range(2):
        assert all(map(torch.equal, (t.cpu() for t in wsched.execute(text, inputs)), wanted))
    with torch.cuda.graph(graph):
        found = wsched.execute(text, inputs)
    for t in found:
        t.fill_(7)
    graph.replay()
    assert all(map(torch.equal, (t.cpu() for t in found), wanted))
    known(text).routes.clear()


def test_an_index_of_a_batch() -> None:
    import torch

    x, w = integers(3, M, K), integers(3, K, N)
    (d,) = wsched.execute(BATCHED_INDICES, on_gpu(x, w))
    kept = torch.arange(N) > 20 * torch.arange(3)[:, None, None]
    assert torch.equal(d.cpu(), torch.where(kept, x.float() @ w.float(), -1).to(d.dtype))


def test_batches() -> None:
    import torch

    x, w, m = integers(3, M, K), integers(3, K, N), bools(3, 1, N)
    (d,) = wsched.execute(BATCHED, on_gpu(x, w, m))
    assert torch.equal(d.cpu(), torch.where(m, x.float() @ w.float(), -1).to(d.dtype))
