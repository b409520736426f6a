"""Runs on the machine model: what they need of the process, and what not."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from lowering.kernel.text import parse_kernel
from wsched.run.cpu import run_arrays

KERNEL = """
kernel prints threads 32 cluster 1 grid 1 {
  roles {
    role compute warps 0 .. 1 as group {
      elect { for i in 7 .. 8 { print compute, T3, i, i, when=0 <= i } }
    }
  }
}
"""


def test_what_a_kernel_prints_goes_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    run_arrays(parse_kernel(KERNEL), dict[str, np.ndarray[tuple[int], np.dtype[np.int8]]](), {})
    assert capsys.readouterr().out.endswith(" 7\n")


def test_a_closed_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under ``>&-``: there is nothing to print to."""
    monkeypatch.setattr(sys, "stdout", None)
    assert run_arrays(parse_kernel(KERNEL), {}, {}).printed
