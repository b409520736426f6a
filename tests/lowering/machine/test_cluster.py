"""Two CTAs of a cluster: a multicast load, an arrival at a peer, and who may leave when."""

from __future__ import annotations

import numpy as np
import pytest

from lowering.kernel.text import parse_kernel
from lowering.machine import DeadlockError, MachineError, run_kernel
from lowering.machine.adversary import RunLast
from tests.lowering.machine.kernels import from_dtype, integers

# Each CTA loads its rows of A; CTA 0 loads B for both and waits until both have read it.
TEXT = """
kernel pair threads 128 cluster 2 grid 2 {
  tensormap a: bf16[128, 64] box 64x64 swizzle 128
  tensormap b: bf16[64, 64] box 64x64 swizzle 128
  tensormap d: f32[128, 64] box 64x32 swizzle 128
  shared a_s: bf16[1][64x64] swizzle 128 at 0
  shared b_s: bf16[1][64x64] swizzle 128 at 8192
  shared d_s: f32[1][64x64] swizzle 128 at 16384
  mbarrier full[1] arrivals 1 at 32768
  mbarrier empty[1] arrivals 8 at 32776
  on %warp 0 { elect {
    mbarrier.init full[0], 1
    mbarrier.init empty[0], 8
    fence.mbarrier_init
  } }
  cluster.sync
  on %warp 0 { elect {
    mbarrier.expect_tx full[0], bytes=16384
    tma.load a_s[0, 0, 0], a[%cluster.ctarank * 64, 0], bar=full[0]
    if %cluster.ctarank == 0 {
      tma.load b_s[0, 0, 0], b[0, 0], bar=full[0], multicast=3, ctas=2
    }
  } }
  mbarrier.wait full[0], 0
  zero: frag<f32, 64x64> = frag.fill 0.0
  wgmma.fence
  w0: frag<f32, 64x64, async> = wgmma zero, a_s[0, 0, 0], b_s[0, 0, 0], accumulate=false
  w1: frag<f32, 64x64, async> = wgmma w0, a_s[0, 0, 16], b_s[0, 0, 16]
  w2: frag<f32, 64x64, async> = wgmma w1, a_s[0, 0, 32], b_s[0, 0, 32]
  w3: frag<f32, 64x64, async> = wgmma w2, a_s[0, 0, 48], b_s[0, 0, 48]
  wgmma.commit
  sum: frag<f32, 64x64> = wgmma.wait w3, 0
  elect { mbarrier.arrive empty[0], cta=0, order=release.cluster }
  if %cluster.ctarank == 0 { mbarrier.wait empty[0], 0, order=acquire.cluster }
  st.shared d_s[0, 0, 0], sum
  fence.proxy.async
  cta.sync
  on %warp 0 { elect {
    tma.store d[%ctaid.x * 64, 0], d_s[0, 0, 0]
    tma.store d[%ctaid.x * 64, 32], d_s[0, 0, 32]
    bulk.commit
    bulk.wait 0
  } }
  cluster.sync
}
"""


def run(text: str, adversary: str = "random", seed: int = 0) -> bool:
    rng = np.random.default_rng(seed)
    a, b = integers(rng, 128, 64), integers(rng, 64, 64)
    d = np.full((128, 64), np.nan, np.float32)
    tensors = {"a": a, "b": b, "d": d}
    run_kernel(parse_kernel(text), tensors, {}, 2, seed=seed, adversary=adversary)
    return bool(np.array_equal(d, from_dtype(a, "bf16") @ from_dtype(b, "bf16").T))


@pytest.mark.parametrize("adversary", ["eager", "lazy", "random"])
def test_multicast_and_remote_arrival(adversary: str) -> None:
    assert all(run(TEXT, adversary, seed) for seed in range(4))


def fault(old: str, new: str) -> str:
    assert old in TEXT
    with pytest.raises(MachineError) as error:
        for adversary in ("eager", "lazy", "random", "random", "random", "random"):
            for seed in range(3):
                run(TEXT.replace(old, new), adversary, seed)
    return error.value.what


def test_scope_of_a_wait_that_peers_satisfy() -> None:
    assert fault(", order=acquire.cluster", "") == (
        "peers arrive at empty[0], but it is waited for with acquire.cta"
    )


def test_peer_that_has_left() -> None:
    """CTA 0 neither waits for the arrivals of CTA 1 nor meets it at the end."""
    leave = TEXT.replace("    bulk.wait 0\n  } }\n  cluster.sync", "    bulk.wait 0\n  } }")
    text = leave.replace(
        "  if %cluster.ctarank == 0 { mbarrier.wait empty[0], 0, order=acquire.cluster }\n", ""
    )
    with pytest.raises(MachineError) as error:
        for seed in range(8):
            run(text, "random", seed)
    assert error.value.what == "an arrival at empty[0] reaches CTA 0, which has left"


def test_a_load_for_a_cta_that_has_left() -> None:
    """CTA 0 loads for both, once CTA 1 is over: an atom lets others come first."""
    text = """kernel k threads 32 cluster 2 grid 2 {
      counter turn[1]
      tensormap a: f32[8, 8] box 8x8
      shared s: f32[1][8x8] at 0
      mbarrier full[1] arrivals 1 at 256
      elect { mbarrier.init full[0], 1 fence.mbarrier_init }
      cluster.sync
      if %cluster.ctarank == 0 {
        elect {
          was: i32 = atom add, turn[0], 0
          tma.load s[0, 0, 0], a[0, 0], bar=full[0], multicast=3, ctas=2
        }
      }
      SYNC
    }"""
    tensors = {"a": np.zeros((8, 8), np.float32), "turn": np.zeros(1, np.int32)}
    with pytest.raises(MachineError) as error:
        kernel = parse_kernel(text.replace("SYNC", ""))
        run_kernel(kernel, tensors, {}, 2, adversary=RunLast(0, 0))
    assert error.value.what == "a load that completes on full[0] reaches CTA 1, which has left"
    waits = "elect { mbarrier.expect_tx full[0], bytes=256 } mbarrier.wait full[0], 0 cluster.sync"
    kernel = parse_kernel(text.replace("SYNC", waits))
    run_kernel(kernel, tensors, {}, 2, adversary=RunLast(0, 0))


def test_multicast_before_the_peer_is_ready() -> None:
    message = fault(
        "  cluster.sync\n  on %warp 0 { elect {\n    mbarrier.expect_tx",
        "  cta.sync\n  on %warp 0 { elect {\n    mbarrier.expect_tx",
    )
    assert "full[0] is given to a load but not initialized" in message


def test_multicast_mask_outside_the_cluster() -> None:
    assert fault("multicast=3", "multicast=5") == "multicast mask 0b101 for a cluster of 2"


def test_multicast_mask_of_another_number_of_ctas() -> None:
    assert (
        fault("multicast=3", "multicast=1 << %cluster.ctarank")
        == "multicast mask 0b1 of a copy to 2 CTAs"
    )


def test_rank_outside_the_cluster() -> None:
    assert fault("cta=0", "cta=2") == "rank 2 is not in a cluster of 2"


def test_bytes_of_a_peer_must_be_announced() -> None:
    text = TEXT.replace("bytes=16384", "bytes=24576")
    with pytest.raises(DeadlockError) as error:
        run(text, "lazy")
    assert any(
        "full[0] parity 0: phase 0 lacks 0 of 1 arrivals and 8192 bytes" in w
        for w in error.value.waits
    )
