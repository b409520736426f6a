"""How long Python takes from a definition to CUDA text, in process time.

Machines differ and are busy, so a time is told by what a fixed loop takes in the same moments; the
best of several of both are taken, as process time counts what others do to the caches.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import FrameType

import pytest

from tests.epilogues import GELU, RESIDUAL, chain
from tests.schedules import SCHEDULES, definition
from wsched.importer import build_fusion, record_text
from wsched.run.compiled import compile_fusion

LOOP_MS = 5.0
"""What :func:`loop` takes on a machine with nothing else to do; the others are of that machine."""

BOUND_MS = 65
"""For any schedule, with a short epilogue; 22 to 50 when this was written."""

LONG_MS = 2000
"""For an epilogue of 500 operations; 600 when this was written."""


def milliseconds(run: Callable[[], object]) -> float:
    begin = time.process_time()
    run()
    return 1e3 * (time.process_time() - begin)


def loop() -> None:
    """What Python is like: tuples, dicts, calls."""
    found: dict[tuple[int, str], tuple[int, ...]] = {}
    for i in range(12_000):
        key = i % 97, str(i % 31)
        found[key] = (*found.get(key, ())[-3:], i)


def compiled(text: str, name: str) -> Callable[[], object]:
    def run() -> None:
        assert compile_fusion(build_fusion(record_text(text)), SCHEDULES[name]).source

    return run


def corrected(run: Callable[[], object], times: int) -> float:
    """The best of several, in milliseconds of a machine on which :func:`loop` takes LOOP_MS."""
    loops, runs = [], []
    for _ in range(times):
        loops += [milliseconds(loop), milliseconds(loop)]
        runs.append(milliseconds(run))
    return min(runs) / min(loops) * LOOP_MS


def long(operations: int) -> str:
    """An epilogue of so many operations, of one value, of numbers, of a row and of a matrix."""
    calls = ("add({0}, 1.5)", "mul({0}, {0})", "tanh({0})", "add({0}, b)", "mul({0}, r)")
    return chain(calls, operations, "r: [-1, -1]", "b: [-1]")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("text", [definition(), GELU], ids=["plain", "gelu"])
@pytest.mark.parametrize("name", ["coop_128x256", "dynamic_cluster_pingpong", "stream_k_pingpong"])
def test_before_nvrtc(name: str, text: str) -> None:
    assert corrected(compiled(text, name), 5) < BOUND_MS


SLOWEST = (
    "split_cluster", "split_pingpong", "stream_k_pingpong_cluster", "dynamic_cluster_2x2"
)  # fmt: skip
"""Of all schedules with GELU, beside those above."""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", SLOWEST)
def test_the_slowest_with_an_epilogue(name: str) -> None:
    assert corrected(compiled(GELU, name), 5) < BOUND_MS


def test_with_a_residual() -> None:
    """A matrix that is loaded: a ring more, and the most that any schedule here takes."""
    assert corrected(compiled(RESIDUAL, "dynamic_cluster_pingpong"), 5) < BOUND_MS


def calls(run: Callable[[], object]) -> int:
    """How many functions of Python and of C are called, which no other process changes.

    A time would not do: the collector's full passes read all that a process of tests holds, and a
    long run has more of them than a short one.
    """
    run()  # what is cached once stays out of the count
    count = 0

    def called(frame: FrameType, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(called)  # cProfile would want the tool that ``--raises`` has
    try:
        run()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.slow
def test_long_epilogues_take_linear_time() -> None:
    few, more, many = (calls(compiled(long(n), "pingpong_128x128")) for n in (100, 200, 400))
    assert many - more < 2.1 * (more - few)


@pytest.mark.slow
def test_five_hundred_operations() -> None:
    assert corrected(compiled(long(500), "pingpong_128x128"), 2) < LONG_MS
