"""Lane exchange on the machine: every element where its layout has it, in tiles that are stored."""

from __future__ import annotations

import numpy as np
import pytest

from lowering.ground.dtypes import DType
from lowering.ground.layouts import RegisterLayout
from lowering.ground.types import FragmentType
from lowering.kernel.text import parse_kernel
from lowering.kernel.verify import verify
from lowering.machine import run_kernel
from lowering.machine.fragment import element_index
from lowering.machine.shuffle import redealt


@pytest.mark.parametrize(("source", "target"), [(1, 2), (2, 1), (2, 4), (4, 2)])
@pytest.mark.parametrize("warp", [0, 3])
def test_elements(source: int, target: int, warp: int) -> None:
    kinds = [FragmentType(DType.S32, 128, 32, layout=RegisterLayout(n)) for n in (source, target)]
    before, after = (
        np.broadcast_to(100 * rows + cols, (32, *kind.held))
        for kind in kinds for rows, cols in [element_index(kind, warp)]
    )  # fmt: skip
    assert not np.array_equal(before.ravel(), after.ravel())
    assert np.array_equal(redealt(before, kinds[1]), after)


def exchange(dtype: str, span: int, other: int) -> str:
    """A matrix that goes through two layouts on its way to another."""
    first, second = (
        f"frag<{dtype}, 128x32{f', span {n}' if n != 2 else ''}>" for n in (span, other)
    )
    return f"""
    kernel k threads 128 cluster 1 grid 1 {{
      param M: i32
      param N: i32
      global x: {dtype}[M, N]
      global d: {dtype}[M, N]
      t: {first} = frag.load_global x[0, 0]
      u: {second} = frag.shuffle t
      frag.store_global d[0, 0], u
    }}
    """


@pytest.mark.parametrize(("span", "other"), [(1, 2), (2, 1), (2, 4), (4, 2)])
@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_tiles(dtype: str, span: int, other: int) -> None:
    """At odd extents; were a lane to store another's columns, they would stand elsewhere."""
    kernel = parse_kernel(exchange(dtype, span, other))
    assert verify(kernel) == []
    kind = np.float32 if dtype == "f32" else np.uint16
    x = np.arange(101 * 29).reshape(101, 29).astype(kind)
    d = np.zeros_like(x)
    run_kernel(kernel, {"x": x, "d": d}, {"M": 101, "N": 29}, 1)
    assert np.array_equal(d, x)


BYTES = """
kernel bytes threads 128 cluster 1 grid 1 {
  tensormap x: e4m3[64, 64] box 64x64 swizzle 64
  tensormap d: e4m3[64, 64] box 64x64 swizzle 64
  shared S: e4m3[1][64x64] swizzle 64 at 0
  shared D: e4m3[1][64x64] swizzle 64 at 4096
  mbarrier full[1] arrivals 1 at 8192
  on %warp 0 { elect { mbarrier.init full[0], 1 fence.mbarrier_init } }
  cta.sync
  on %warp 0 { elect { mbarrier.expect_tx full[0], bytes=4096
    tma.load S[0, 0, 0], x[0, 0], bar=full[0] } }
  mbarrier.wait full[0], 0
  t: frag<e4m3, 64x64, span 4> = ldmatrix S[0, 0, 0]
  pairs: frag<e4m3, 64x64> = frag.shuffle t
  low: frag<e4m3, 64x32> = frag.columns pairs, 0
  high: frag<e4m3, 64x32> = frag.columns pairs, 32
  right: frag<e4m3, 64x32, span 4> = frag.shuffle low
  left: frag<e4m3, 64x32, span 4> = frag.shuffle high
  stmatrix D[0, 0, 0], left
  stmatrix D[0, 0, 32], right
  fence.proxy.async
  cta.sync
  on %warp 0 { elect { tma.store d[0, 0], D[0, 0, 0] bulk.commit bulk.wait 0
    mbarrier.inval full[0] } }
}
"""


def test_bytes() -> None:
    """8-bit values as ``ldmatrix`` has them, as columns of an accumulator, and back."""
    kernel = parse_kernel(BYTES)
    assert verify(kernel) == []
    x = np.random.default_rng(0).integers(0, 256, (64, 64)).astype(np.uint8)
    d = np.zeros_like(x)
    run_kernel(kernel, {"x": x, "d": d}, {}, 1)
    assert np.array_equal(d, np.roll(x, 32, 1))
