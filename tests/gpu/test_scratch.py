"""What lies between the kernels of a call, on a GPU: graphs, streams, and calls that fail."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import wsched
from lowering.ground.errors import InternalError
from tests.front.test_moe import layer
from tests.program.host_scratch import chains_that_run
from wsched.program.scratch import Scratch

pytestmark = pytest.mark.gpu


@pytest.fixture
def chains(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    return chains_that_run(monkeypatch)


def experts(tokens: int, seed: int = 0) -> tuple[list[Any], Callable[[], Any]]:
    """What tells tokens from others, and a layer on them."""
    x, ids, weights, up, down = layer(tokens, 8, 2, seed)
    given = [t.cuda() for t in (x, ids, weights)]
    both, third = (up[0].cuda(), up[1].cuda()), down.cuda()
    return given, lambda: wsched.moe(*given, both, third)


@pytest.mark.parametrize("before", [1, 3])
def test_a_graph_has_it_for_itself(before: int, chains: list[Any]) -> None:
    """Launches that are packed in the capture, and ones that were before, for other tokens as well;
    nobody else gets the memory meanwhile.
    """
    import torch

    tokens = 310 + before  # which nobody had before
    given, call = experts(tokens)
    for _ in range(before):
        call()
    torch.cuda.synchronize()
    chains.clear()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = call()
    assert len(chains) == 1 and chains[0]._scratch.nbytes
    for seed in range(1, 4):
        for kept, new in zip(given, layer(tokens, 8, 2, seed), strict=False):
            kept.copy_(new)
        right = call().clone()
        others = [torch.full((n,), 0xFF, dtype=torch.uint8, device="cuda")
                  for n in (*[chains[0]._scratch.nbytes] * 4, *[1 << 20] * 4)]  # fmt: skip
        found.fill_(float("nan"))
        graph.replay()
        assert torch.equal(found, right)
        assert all(t.eq(0xFF).all() for t in others)


def test_a_call_that_fails_gives_it_back(
    chains: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused by its second kernel: what is allocated is what was, and the next call is right."""
    import torch

    _, call = experts(300)
    right = [call().clone() for _ in range(3)][-1]
    (chain,) = set(chains)
    gc.collect()  # what other tests have left, which might go in between
    before = torch.cuda.memory_allocated()

    def refused() -> None:
        assert torch.cuda.memory_allocated() >= before + chain._scratch.nbytes > before
        raise InternalError("launch", "refused")

    class Refused:
        """A kernel that the driver does not launch."""

        def packed(self, inputs: Any, outputs: Any) -> Any:
            return refused

    first, second, *behind = chain._steps
    with monkeypatch.context() as patch:
        steps = first, replace(second, kernel=Refused(), launches={}), *behind
        patch.setattr(chain, "_steps", steps)
        failing(chain, call, InternalError)
    assert torch.cuda.memory_allocated() == before
    with monkeypatch.context() as patch:
        patch.setattr(Scratch, "take", lambda self: self._allocate(1 << 50, 0))
        failing(chain, call, torch.OutOfMemoryError)
    assert torch.cuda.memory_allocated() == before
    assert torch.equal(call(), right)


def failing(chain: Any, call: Callable[[], Any], error: type[Exception]) -> None:
    """A call that knows none of its launches fails, and none of what it found is kept."""
    for stage in chain._stages:
        stage.found.clear()
    with pytest.raises(error):
        call()
    for stage in chain._stages:
        stage.found.clear()
    gc.collect()  # the traceback's frames hold results


def test_streams_have_one_each(chains: list[Any]) -> None:
    """A call that has to wait, and one on another stream that is done by then."""
    import torch

    calls = [experts(300, seed)[1] for seed in range(2)]
    right = [[call().clone() for _ in range(2)][-1] for call in calls]
    streams = [torch.cuda.Stream() for _ in calls]
    torch.cuda.synchronize()
    chains.clear()
    for _ in range(5):
        found = []
        for n, (stream, call) in enumerate(zip(streams, calls, strict=True)):
            with torch.cuda.stream(stream):
                torch.cuda._sleep(20_000_000 * (1 - n))
                found.append(call())
        torch.cuda.synchronize()
        assert all(map(torch.equal, found, right))
    assert len(chains) == 10
