"""Threads that call wsched: new ones, in which torch has done nothing yet, and many at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from typing import Any

import pytest

import wsched
from tests.schedules import SCHEDULES, definition

pytestmark = pytest.mark.gpu

THREADS, STREAMS, CALLS = 8, 4, 1000

SHARED = ("coop_128x128", "stream_k", "dynamic", "cluster_2x1", "split_3_traversal")
"""Kernels with and without counters, workspaces and clusters."""


def operands(m: int, n: int, k: int, seed: int = 0) -> tuple[Any, Any, Any]:
    """x, w and the exact product, of integers; rows of x lie 72 elements further apart than k."""
    import torch

    generator = torch.Generator(device="cuda").manual_seed(seed)
    x, w = (
        torch.randint(-2, 3, (rows, k + 72), generator=generator, device="cuda").bfloat16()
        for rows in (m, n)
    )
    x, w = x[:, :k], w[:, :k].contiguous()
    return x, w, (x.double() @ w.double().T).bfloat16()


def in_a_new_thread(work: Any) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


@pytest.mark.parametrize("k", [264, 261], ids=["in place", "copied"])
@pytest.mark.parametrize("known", [False, True], ids=["new", "known"])
@pytest.mark.parametrize("schedule", SHARED)
def test_a_thread_in_which_torch_has_done_nothing(schedule: str, known: bool, k: int) -> None:
    """It encodes tensor maps, counts clusters and finds workspaces."""
    import torch

    text, params = definition(), SCHEDULES[schedule]
    if known:
        x, w, _ = operands(520, 776, k, 1)
        wsched.execute(text, [x, w], params=params)
    x, w, wanted = operands(136, 520, k)
    torch.cuda.synchronize()
    (d,) = in_a_new_thread(lambda: wsched.execute(text, [x, w], params=params))
    torch.cuda.synchronize()
    assert torch.equal(d, wanted)


def test_a_thread_in_which_torch_has_done_nothing_writes_where_it_is_told() -> None:
    import torch

    x, w, wanted = operands(136, 520, 264)
    d = torch.full_like(wanted, float("nan"))
    kernel = wsched.compile(definition(), [x, w], params=SCHEDULES["stream_k"])
    torch.cuda.synchronize()
    in_a_new_thread(lambda: kernel(x, w, out=[d]))
    torch.cuda.synchronize()
    assert torch.equal(d, wanted)


@pytest.mark.parametrize("threads", [1, 4, 16])
def test_kernels_are_made_in_any_number_of_threads(threads: int) -> None:
    import torch

    shapes = [(136, 520, 264), (136, 520, 261), (2056, 2056, 520), (33, 640, 256)]
    cases = [operands(*shape, i) for i, shape in enumerate(shapes)]
    wsched.prepare([(definition(), case[:2]) for case in cases], threads=threads).wait(50)
    for *inputs, wanted in cases:
        (d,) = wsched.execute(definition(), inputs)
        assert torch.equal(d, wanted)


def test_threads_with_streams_of_their_own() -> None:
    """All call the same kernels at once, and each result is looked at."""
    import torch

    cases = [operands(136 + 64 * i, 520, 264, i) for i in range(len(SHARED))]
    torch.cuda.synchronize()

    def calls(number: int) -> list[int]:
        streams = [torch.cuda.Stream() for _ in range(STREAMS)]
        wrong = []
        for stream in streams:
            with torch.cuda.stream(stream):
                wrong.append(torch.zeros((), dtype=torch.int64, device="cuda"))
        which = islice(cycle(range(len(SHARED))), number, number + CALLS)
        for at in which:
            x, w, wanted = cases[at]
            for stream, count in zip(streams, wrong, strict=True):
                with torch.cuda.stream(stream):
                    params = SCHEDULES[SHARED[at]]
                    (d,) = wsched.execute(definition(), [x, w], params=params)
                    count += (d != wanted).sum()
        for stream in streams:
            stream.synchronize()
        return [int(count) for count in wrong]

    with ThreadPoolExecutor(THREADS) as pool:
        assert list(pool.map(calls, range(THREADS))) == [[0] * STREAMS] * THREADS
