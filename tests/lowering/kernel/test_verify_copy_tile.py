"""Each rule of ``copy.tile``, broken on its own."""

from __future__ import annotations

import pytest

from lowering.kernel.text import parse_kernel
from lowering.kernel.verify import verify

KERNEL = """\
kernel good threads 128 cluster 1 grid 1 {
  param M: i32
  global x: bf16[M, M]
  global z: bf16[M]
  tensormap T: bf16[M, M]
  shared S: bf16[2][128x64] swizzle 128
  shared F: f32[2][128x64] swizzle 128
  copy.tile S[1, 0, 0], x[M, 8], 128, 64
}
"""
COPY = "copy.tile S[1, 0, 0], x[M, 8], 128, 64"


@pytest.mark.parametrize("size", ["128, 64", "1, 64", "64, 8", "64, 1"])
def test_good(size: str) -> None:
    assert verify(parse_kernel(KERNEL.replace("128, 64\n", f"{size}\n"))) == []


@pytest.mark.parametrize(
    ("after", "problem"),
    [
        ("copy.tile S[1, 0, 0], x[M, 8], 0, 64", "copy.tile of a tile of 0x64"),
        ("copy.tile S[1, 0, 0], x[M, 8], 64, 0", "copy.tile of a tile of 64x0"),
        ("copy.tile S[1, 0, 0], z[8], 64, 64", "copy.tile of z, which has one dimension"),
        ("copy.tile S[1, 0, 0], T[M, 8], 64, 64", "T is a tensor map, copy.tile takes a global"),
        ("copy.tile F[1, 0, 0], x[M, 8], 64, 64", "x holds bf16, F f32"),
        ("copy.tile S[1, 0, 0], x[M, 8], 192, 64",
         "a tile of 192x64 does not fit into S of 128x64"),
        ("elect { copy.tile S[1, 0, 0], x[M, 8], 64, 64 }", "copy.tile under elect"),
    ],
)  # fmt: skip
def test_broken(after: str, problem: str) -> None:
    assert problem in " ".join(verify(parse_kernel(KERNEL.replace(COPY, after))))
