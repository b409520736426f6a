"""Counters on the machine: CTAs in any order, waits between them, and zeros at the end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lowering.ground.errors import InternalError
from lowering.kernel.text import parse_kernel
from lowering.machine import DeadlockError, MachineError, run_kernel
from lowering.machine.trace import TraceRow

ADVERSARIES = ("eager", "lazy", "random", "fair")


def run(
    body: str, grid: int = 4, adversary: str = "random", seed: int = 0, dependent: str = ""
) -> tuple[np.ndarray, tuple[TraceRow, ...]]:
    """The counters behind a run of one warp a CTA, and its events."""
    text = f"""kernel k threads 32 cluster 1 {dependent} grid 4 {{
      counter next[2]
      {body}
    }}"""
    words = np.zeros(2, np.int32)
    options: dict[str, Any] = {"seed": seed, "adversary": adversary, "trace": True}
    result = run_kernel(parse_kernel(text), {"next": words}, {}, grid, **options)
    return words, result.trace


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_inc_comes_back_to_zero(adversary: str) -> None:
    """8 times ``inc`` with limit 7, by 4 CTAs."""
    body = "elect { for i in 0 .. 2 { x: i32 = atom inc, next[0], 7 } }"
    words, trace = run(body, adversary=adversary)
    assert not words.any()
    assert len([r for r in trace if r.op == "atom"]) == 8


def test_ctas_come_in_many_orders() -> None:
    body = "elect { for i in 0 .. 2 { x: i32 = atom inc, next[0], 7 } }"
    orders = {tuple(r.cta for r in run(body, seed=seed)[1]) for seed in range(20)}
    assert len(orders) > 5


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_the_last_one_waits_for_all_and_clears(adversary: str) -> None:
    body = """elect {
      if %ctaid.x == 0 {
        counter.wait next[1], 3
        clear: i32 = atom exch, next[1], 0
      } else {
        x: i32 = atom add, next[1], 1, order=release.gpu
      }
    }"""
    assert not run(body, adversary=adversary)[0].any()


@pytest.mark.parametrize(
    ("op", "value", "left"), [("add", -3, -3), ("max", 5, 5), ("min", -2, -2), ("exch", 9, 9)]
)
def test_what_is_left_is_reported(op: str, value: int, left: int) -> None:
    with pytest.raises(MachineError) as e:
        run(f"elect {{ x: i32 = atom {op}, next[1], {value} }}", grid=1)
    assert str(e.value).startswith(f"machine: k: the grid leaves next[1] = {left}, not 0"), str(
        e.value
    )


def test_the_result_is_the_old_value() -> None:
    body = (
        "elect { a: i32 = atom add, next[0], 5 b: i32 = atom exch, next[0], a "
        "counter.wait next[b - 5], a }"
    )
    assert not run(body, grid=1)[0].any()


def test_a_wait_that_nobody_ends() -> None:
    with pytest.raises(DeadlockError) as e:
        run("counter.wait next[0], 1", grid=1)
    assert e.value.waits == (
        "CTA 0, warp 0: next[0] is 0, not yet 1 (at: counter.wait next[0], 1)",
    )


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("x: i32 = atom add, next[0], 0", "atom is executed by 32 threads, not by one"),
        ("griddepcontrol.wait elect { x: i32 = atom add, next[2], 0 }",
         "next[2] lies outside next[2]"),
        ("elect { x: i32 = atom add, next[0], 0 }",
         "global memory before griddepcontrol.wait: earlier grids may still use it"),
    ],
)  # fmt: skip
def test_faults(body: str, why: str) -> None:
    with pytest.raises(MachineError) as e:
        run(body, grid=1, dependent="dependent")
    assert e.value.what == why


def test_counters_of_another_size_are_refused() -> None:
    kernel = parse_kernel("kernel k threads 32 cluster 1 grid 1 { counter next[2] }")
    with pytest.raises(InternalError) as e:
        run_kernel(kernel, {"next": np.zeros(1, np.int32)}, {}, 1)
    assert e.value.why == "next is int32 [1], not int32 [2]"
