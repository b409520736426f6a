"""Arguments without content."""

from __future__ import annotations

import numpy as np

from lowering.kernel.text import parse_kernel
from lowering.machine.blank import blank_arguments

KERNEL = parse_kernel("""
kernel k threads 256 cluster 1 grid 2 {
  param M: i32
  param N: i32
  global x: bf16[M, N]
  global b: f32[1, N]
  trace spans[6](cta)
  roles {
    role compute warps 0 .. 8 { cta.sync }
  }
}
""")


def test_each_has_its_shape_type_and_aligned_rows() -> None:
    found = blank_arguments(KERNEL, {"M": 3, "N": 5}, 2)
    assert {n: (x.shape, x.dtype.name) for n, x in found.items()} == {
        "x": ((3, 5), "uint16"), "b": ((1, 5), "float32"), "spans": ((2, 8, 7, 2), "int64"),
    }  # fmt: skip
    assert found["x"].strides == (16, 2) and not any(map(np.any, found.values()))


def test_an_extent_of_nothing() -> None:
    assert blank_arguments(KERNEL, {"M": 0, "N": 5}, 2)["x"].shape == (0, 5)
