"""A TMA load may only overwrite what ``ld.shared`` has certainly read.

On an H200 a release right behind ``ld.shared`` let the next load overtake reads that stood in line
behind stores to global memory.
"""

from __future__ import annotations

import numpy as np
import pytest

from lowering.kernel.text import parse_kernel
from lowering.kernel.verify import verify
from lowering.machine import MachineError, run_kernel
from lowering.machine.adversary import Adversary

KERNEL = """
kernel read_twice threads 256 cluster 1 grid 1 {
  param N: i32
  tensormap x: f32[128, N] box 64x32 swizzle 128
  global y: f32[128, N]
  shared x_s: f32[1][64x32] swizzle 128 at 0
  mbarrier full[1] arrivals 1 at 8192
  mbarrier empty[1] arrivals 4 at 8200
  on %warp 0 { elect {
    mbarrier.init full[0], 1
    mbarrier.init empty[0], 4
    fence.mbarrier_init
  } }
  cta.sync
  roles {
    role compute warps 0 .. 4 {
      for step in 0 .. 2 {
        mbarrier.wait full[0], step
        t: frag<f32, 64x32> = ld.shared x_s[0, 0, 0]
        fence.proxy.async
        warp.sync
        elect { mbarrier.arrive empty[0] }
        frag.store_global y[step * 64, 0], t
      }
    }
    role load warps 4 .. 8 {
      on %warpgroup.warp 0 {
        for fill in 0 .. 2 {
          elect {
            mbarrier.wait empty[0], (fill + 1) % 2
            mbarrier.expect_tx full[0], bytes=8192
            tma.load x_s[0, 0, 0], x[fill * 64, 0], bar=full[0]
          }
        }
      }
    }
  }
  cta.sync
}
"""


def run(text: str, adversary: Adversary = "lazy", seed: int = 0) -> None:
    kernel = parse_kernel(text)
    assert not verify(kernel)
    x = np.arange(128 * 32, dtype=np.float32).reshape(128, 32)
    y = np.zeros_like(x)
    run_kernel(kernel, {"x": x, "y": y}, {"N": 32}, 1, adversary=adversary, seed=seed)
    np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("adversary", ["eager", "lazy", "random"])
def test_fence_and_warp_sync(adversary: Adversary) -> None:
    run(KERNEL, adversary)


@pytest.mark.parametrize("missing", ["        fence.proxy.async\n", "        warp.sync\n"])
@pytest.mark.parametrize("adversary", ["eager", "lazy", "random"])
def test_one_of_them_is_missing(missing: str, adversary: Adversary) -> None:
    with pytest.raises(MachineError, match=r"load overwrites what warp [0-3] may still be reading"):
        run(KERNEL.replace(missing, ""), adversary)


def test_a_fence_behind_the_arrival_is_too_late() -> None:
    late = KERNEL.replace("        fence.proxy.async\n        warp.sync\n", "").replace(
        "y[step * 64, 0], t\n", "y[step * 64, 0], t\n        fence.proxy.async\n        warp.sync\n"
    )
    with pytest.raises(MachineError, match="may still be reading"):
        for seed in range(200):
            run(late, "random", seed)


def test_a_barrier_of_all_orders_as_well() -> None:
    text = KERNEL.replace("        warp.sync\n", "        bar.sync readers[0]\n")
    run(
        text.replace(
            "  mbarrier full", "  named_barrier readers[1] id 1 threads 128\n  mbarrier full"
        )
    )


TWICE = """
kernel stored_twice threads 256 cluster 1 grid 1 {
  tensormap d: f32[64, 8] box 64x8
  shared tile: f32[1][64x8] at 0
  named_barrier both[1] id 1 threads 256
  named_barrier own[1] id 2 threads 128
  roles {
    role first warps 0 .. 4 {
      ones: frag<f32, 64x8> = frag.fill 1.0
      st.shared tile[0, 0, 0], ones
      fence.proxy.async
      bar.sync both[0]
      bar.sync both[0]
      fence.proxy.async
      bar.sync own[0]
      on %warp 0 { elect { tma.store d[0, 0], tile[0, 0, 0] bulk.commit bulk.wait 0 } }
    }
    role second warps 4 .. 8 {
      twos: frag<f32, 64x8> = frag.fill 2.0
      bar.sync both[0]
      st.shared tile[0, 0, 0], twos
      FENCE
      bar.sync both[0]
    }
  }
}
"""


@pytest.mark.parametrize(("fence", "stored"), [("", 1.0), ("fence.proxy.async", 2.0)])
def test_a_fence_is_for_what_its_own_warp_wrote_since_the_last_one(
    fence: str, stored: float
) -> None:
    """What others write to the same bytes behind it they have to fence themselves."""
    kernel, d = parse_kernel(TWICE.replace("FENCE", fence)), np.zeros((64, 8), np.float32)
    assert verify(kernel) == []
    run_kernel(kernel, {"d": d}, {}, 1, adversary="lazy")
    assert (d == stored).all()
