"""Runs on the machine model: what they need of the process, and what not."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from lowering.kernel.text import parse_kernel
from wsched.run.cpu import array_of, run_arrays

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


@pytest.mark.parametrize("kind", ["float32", "float16", "float8_e5m2"])
def test_a_tensor_that_gradients_are_wanted_for(kind: str) -> None:
    """A parameter of fp32 beside operands of 16 bits, say."""
    torch: Any = pytest.importorskip("torch", reason="torch is not installed")
    values = torch.ones(3).to(getattr(torch, kind)).requires_grad_()
    array_of(values)[1] = 0
    assert values.tolist() == [1, 0, 1]


def test_a_closed_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under ``>&-``: there is nothing to print to."""
    monkeypatch.setattr(sys, "stdout", None)
    assert run_arrays(parse_kernel(KERNEL), {}, {}).printed
