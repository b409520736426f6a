"""Stamps on the machine: records, the clock, and what there is no room for."""

from __future__ import annotations

import numpy as np
import pytest

from lowering.ground.errors import InternalError
from lowering.kernel.text import parse_kernel
from lowering.machine import run_kernel

KERNEL = """
kernel stamps threads 128 cluster 1 grid n {
  param n: i32
  trace spans[3](cta, loop)
  stamp spans, cta, begin, %smid, clock=globaltimer
  for i in 0 .. n {
    stamp spans, loop, begin, i
    stamp spans, loop, end, i * 2
  }
}
"""


def records(n: int, grid: int = 1, adversary: str = "fair") -> np.ndarray:
    words = np.zeros((grid, 4, 4, 2), np.int64)
    run_kernel(parse_kernel(KERNEL), {"spans": words}, {"n": n}, grid, adversary=adversary)
    return words


def test_code_and_value_of_each_record() -> None:
    words = records(1, grid=2)
    assert (words[:, :, 0] == (3, 0)).all()
    assert (words[:, :, 1:, 1] & 0xFFFFFFFF == (2, 4, 5)).all()
    assert (words[:, :, 1:, 1] >> 32 == [[[0, 0, 0]], [[1, 0, 0]]]).all()


def test_ctas_of_a_grid_of_three_axes() -> None:
    """Each has a part of the buffer, x fastest; its place is in the registers."""
    text = KERNEL.replace("grid n", "splits 2 grid n, n + 1").replace(
        "begin, i\n", "begin, %ctaid.x + 10 * %ctaid.y + 100 * %ctaid.z + 1000 * %nctaid.y\n"
    )
    words = np.zeros((2 * 3 * 2, 4, 4, 2), np.int64)
    run_kernel(parse_kernel(text), {"spans": words}, {"n": 2}, 2)
    places = [x + 10 * y + 100 * z + 3000 for z in range(2) for y in range(3) for x in range(2)]
    assert (words[:, :, 2, 1] >> 32).tolist() == [[place] * 4 for place in places]


@pytest.mark.parametrize("adversary", ["eager", "lazy", "random", "fair"])
def test_the_clock_is_never_the_same_twice(adversary: str) -> None:
    times = records(1, adversary=adversary)[0, :, 1:, 0]
    assert len(set(times.ravel())) == 12
    assert (np.diff(times, axis=1) > 0).all()


def test_fair_warps_run_side_by_side_and_eager_ones_do_not() -> None:
    fair, eager = (records(1, adversary=a)[0, :, 1:, 0] for a in ("fair", "eager"))
    assert (fair[:-1, 1] < fair[1:, 1]).all() and (fair[-1, 0] < fair[0, 1]).all()
    assert (eager[:-1, -1] < eager[1:, 0]).all()


def test_later_stamps_are_counted_and_dropped() -> None:
    words = records(5)
    assert (words[:, :, 0] == (11, 0)).all()
    assert (words[0, :, 1:, 1] & 0xFFFFFFFF == (2, 4, 5)).all()


def test_a_second_run_writes_over_the_first() -> None:
    words = records(1)
    again = words.copy()
    run_kernel(parse_kernel(KERNEL), {"spans": again}, {"n": 1}, 1, adversary="fair")
    assert np.array_equal(again, words)


def test_a_buffer_of_another_shape_is_refused() -> None:
    words = np.zeros((1, 4, 3, 2), np.int32)
    with pytest.raises(InternalError) as e:
        run_kernel(parse_kernel(KERNEL), {"spans": words}, {"n": 1}, 1)
    assert e.value.why == "spans is int32 [1, 4, 3, 2], not int64 [1, 4, 4, 2]"
    with pytest.raises(InternalError) as e:
        run_kernel(parse_kernel(KERNEL), {}, {"n": 1}, 1)
    assert e.value.why == "no value for spans"
