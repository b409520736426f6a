"""Prints of a schedule in kernels of every kind: right lines, and kernels that are still right."""

from __future__ import annotations

import numpy as np
import pytest

from tests.on_machine import NUMPY, Problem, exact, operands
from tests.rungs import ran, scheduled
from wsched import Schedule
from wsched.front.own import kernel_of
from wsched.ladder.rungs import RUNGS

pytestmark = pytest.mark.filterwarnings("ignore::wsched.run.prints.PrintWarning")

SIZES = Problem(300, 136, 136, 2)


def printed(s: Schedule) -> tuple[list[str], np.ndarray]:
    """The lines without their times, and what is exact."""
    k = kernel_of(s)
    assert k.proof().proved
    whole = exact(*operands(SIZES, "bf16", 5, integer=True))
    return [line.partition(" ")[2] for line in ran(k, SIZES, 5).printed], whole


@pytest.mark.sampled(1)
@pytest.mark.parametrize("rung", [1, 4, 5, 8, 10])
def test_loads_and_sums(rung: int) -> None:
    """Of the first tile of a CTA: each slice, and an element of the result from the sums."""
    s, held = scheduled(rung), "T8" if rung == 1 else "T9"
    s.debug_print("T6", "Ko", cta=0, tile=0)
    s.debug_print(held, f"{held}[3, 5]", cta=0, tile=0, group=0)
    lines, whole = printed(s)
    slices = -(-SIZES.k // RUNGS[rung - 1].decided.slice)
    role = "compute" if rung < 5 else "load"
    loads = [x for x in lines if ": T6: " in x]
    assert [x.split(" = ")[1] for x in loads] == [str(k) for k in range(slices)]
    assert all(x.startswith(f"cta 0 {role} warp ") for x in loads)
    value = next(x for x in lines if f"{held}_3_5" in x)
    expected = float(whole[3, 5].astype(NUMPY["bf16"]))
    assert value.endswith(f": {held}: {held}_3_5 = {expected:g}")


def test_a_step_and_a_thread_of_the_sums() -> None:
    """Behind the last step of a tile the sums are whole: thread 37 holds row 17, column 2."""
    s = scheduled(8)
    s.debug_print("compute", "T4", cta=0, step=2, thread=37)
    lines, whole = printed(s)
    assert lines == [f"cta 0 compute warp 1: T4: T4_17_2 = {whole[17, 2]:g}"]


@pytest.mark.slow
def test_each_warpgroup_prints_its_own() -> None:
    s = scheduled(10)
    s.debug_print("compute", "K", cta=0, step=0)
    s.debug_print("compute", "group", cta=0, step=0, thread=32)
    lines, _ = printed(s)
    assert sorted(lines) == [
        "cta 0 compute warp 0: T4: K = 136", "cta 0 compute warp 1: T4: group = 0",
        "cta 0 compute warp 4: T4: K = 136", "cta 0 compute warp 5: T4: group = 1",
    ]  # fmt: skip
