"""Lines that kernels print, on the machine: who, when, the number, and when not."""

from __future__ import annotations

import numpy as np
import pytest

from lowering.kernel.text import parse_kernel
from lowering.machine import run_kernel
from lowering.machine.errors import MachineError

KERNEL = """
kernel prints threads 128 cluster 1 grid n {
  param n: i32
  roles {
    role compute warps 0 .. 4 as group {
      value: frag<f32, 128x16> = frag.fill 2.5
      for i in 0 .. 3 {
        on %warpgroup.warp 2 { elect { print compute, T3, i, i * 2, when=1 <= i } }
      }
      on %warpgroup.warp 1 { frag.print compute, T4, e, value, 81, 9, when=%ctaid.x == 1 }
    }
  }
}
"""


def lines(n: int, text: str = KERNEL) -> list[str]:
    found = run_kernel(parse_kernel(text), {}, {"n": n}, n, adversary="eager").printed
    return [line.partition(" ")[2] for line in found]


def test_numbers() -> None:
    assert lines(1) == [
        "cta 0 compute warp 2: T3: i = 2", "cta 0 compute warp 2: T3: i = 4",
    ]  # fmt: skip


def test_elements() -> None:
    assert [x for x in lines(2) if "T4" in x] == ["cta 1 compute warp 1: T4: e = 2.5"]


def test_time_goes_on() -> None:
    found = run_kernel(parse_kernel(KERNEL), {}, {"n": 1}, 1, adversary="eager").printed
    first, second = (int(line.partition(" ")[0]) for line in found)
    assert 0 < first < second


@pytest.mark.parametrize(("row", "col"), [(0, 0), (17, 2), (71, 15), (127, 8)])
def test_every_element_is_of_one_thread(row: int, col: int) -> None:
    """The value of an element is what a store to memory puts there."""
    text = """
kernel prints threads 128 cluster 1 grid 1 {
  global A: f32[128, 16]
  roles {
    role compute warps 0 .. 4 {
      value: frag<f32, 128x16> = frag.load_global A[0, 0]
      on %warpgroup.warp WARP { frag.print compute, T4, e, value, ROW, COL }
    }
  }
}
"""
    for name, number in (("WARP", row % 64 // 16), ("ROW", row), ("COL", col)):
        text = text.replace(name, str(number))
    a = np.arange(128 * 16, dtype=np.float32).reshape(128, 16)
    (line,) = run_kernel(parse_kernel(text), {"A": a}, {}, 1).printed
    assert line.endswith(f"T4: e = {a[row, col]:g}")


def test_another_warp_has_no_such_element() -> None:
    with pytest.raises((MachineError, ValueError)):
        lines(2, KERNEL.replace("on %warpgroup.warp 1", "on %warpgroup.warp 3"))
