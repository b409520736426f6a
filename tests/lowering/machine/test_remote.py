"""Accumulators handed to a peer through shared memory, in four ways, and what goes wrong."""

from __future__ import annotations

import numpy as np
import pytest

from lowering.kernel.text import parse_kernel
from lowering.kernel.verify import verify
from lowering.machine import DeadlockError, MachineError, run_kernel
from tests.lowering.machine.kernels import from_dtype, integers
from tests.lowering.remotes import ADVERSARIES, ALL


def right(text: str, adversary: str = "random", seed: int = 0, races: bool = False) -> bool:
    rng = np.random.default_rng(seed)
    a, b = integers(rng, 64, 128), integers(rng, 64, 128)
    d = np.full((64, 64), np.nan, np.float32)
    kernel = parse_kernel(text)
    assert verify(kernel) == []
    tensors = {"a": a, "b": b, "d": d}
    run_kernel(kernel, tensors, {}, 2, seed=seed, adversary=adversary, races=races)
    return bool(np.array_equal(d, from_dtype(a, "bf16") @ from_dtype(b, "bf16").T))


@pytest.mark.sampled
@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("way", ALL)
def test_a_sum_over_two_ctas(way: str, adversary: str) -> None:
    assert all(right(ALL[way], adversary, seed) for seed in range(6))


def outcomes(text: str) -> set[str]:
    """What comes of a kernel under several adversaries."""
    found = set()
    for adversary, seed in [("eager", 0), ("lazy", 0), *(("random", s) for s in range(6))]:
        try:
            found.add("right" if right(text, adversary, seed) else "wrong")
        except DeadlockError:
            found.add("deadlock")
        except MachineError as error:
            found.add(error.what)
    return found - {"right"}


def edited(way: str, *edits: tuple[str, str]) -> str:
    text = ALL[way]
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return text


FULL = ("elect { mbarrier.arrive full[0], cta=0, order=", "release.cluster }", "relaxed.cluster }")
WAIT = "mbarrier.wait full[0], 0, order="
UNHEARD = "is read without an acquire at cluster scope behind what CTA 1 stored there"
NO_FREE = tuple(
    (f"    mbarrier.wait empty[{i % 2}], {1 - i // 2}, order=acquire.cluster\n", "")
    for i in range(4)
)
NO_END = ("  }\n  cluster.sync\n}", "  }\n}")

FAULTS = {
    "relaxed arrival": ("st.shared", ((FULL[0] + FULL[1], FULL[0] + FULL[2]),), f"sum_s {UNHEARD}"),
    "arrival for one thread's stores": (
        "st.shared", (("cta=0\n    warp.sync\n", "cta=0\n"),), f"sum_s {UNHEARD}",
    ),
    "relaxed wait": (
        "st.shared", ((WAIT + "acquire", WAIT + "relaxed"),), f"sum_s {UNHEARD}",
    ),
    "relaxed wait for st.async": (
        "st.async", ((WAIT + "acquire", WAIT + "relaxed"),), f"sum_s {UNHEARD}",
    ),
    "relaxed wait for a read at the peer": (
        "ld.shared", ((WAIT + "acquire", WAIT + "relaxed"),), f"own_s {UNHEARD}",
    ),
    "wait at the scope of the CTA": (
        "st.async", ((", order=acquire.cluster\n    other0", "\n    other0"),),
        "peers arrive at full[0], but it is waited for with acquire.cta",
    ),
    "stage filled before it has been read": ("st.shared", NO_FREE, "wrong"),
    "stage copied over before it has been read": (
        "bulk.copy", (("    fence.proxy.async\n    warp.sync\n", "    warp.sync\n"),),
        "a load overwrites what warp 0 may still be reading: no fence.proxy.async by all its "
        "threads and warp.sync behind the read",
    ),
    "no fence in front of a copy": (
        "bulk.copy", (("    fence.proxy.async\n    cta.sync", "    cta.sync"),), "wrong",
    ),
    "bytes that never come": ("st.async", (("bytes=4096", "bytes=4112"),), "deadlock"),
    "filler leaves before its last arrival comes": (
        "st.shared", (NO_END,), "an arrival at empty[0] reaches CTA 1, which has left",
    ),
    "filler leaves before it has been read": (
        "ld.shared", (NO_END,), "a read of own_s reaches CTA 1, which has left",
    ),
    "filler leaves before it has been copied": (
        "bulk.copy", (NO_END,), "the CTA ends while a bulk.copy may still read its shared memory",
    ),
    "rank outside the cluster": (
        "st.shared", (("let rank: i32 = %cluster.ctarank", "let rank: i32 = %cluster.ctarank\n"
        "  let to: i32 = rank + 1"), ("mine0, cta=0", "mine0, cta=to")),
        "rank 2 is not in a cluster of 2",
    ),
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("fault", FAULTS)
def test_faults(fault: str) -> None:
    way, edits, what = FAULTS[fault]
    assert what in outcomes(edited(way, *edits))


def test_a_relaxed_wait_for_a_copy_is_enough() -> None:
    """It tells of copies, which a bulk.copy is: no alarm of a race."""
    relaxed = edited("bulk.copy", (WAIT + "acquire", WAIT + "relaxed"))
    assert all(right(relaxed, way, races=True) for way in ADVERSARIES)


def test_a_second_store_to_the_same_words_comes_second() -> None:
    """A thread's own stores to a place stay in order, whenever they arrive."""
    store = "st.shared sum_s[0, 0, 0], mine0, cta=0"
    old = "old: frag<f32, 64x16> = frag.fill 0.0\n    st.shared sum_s[0, 0, 0], old, cta=0"
    assert outcomes(edited("st.shared", (store, f"{old}\n    {store}"))) == set()


WORD = """kernel k threads 128 cluster 2 grid 2 {
  shared tile: s32[1][64x8] at 0
  mbarrier full[1] arrivals 4 at 2048
  on %warp 0 { elect { mbarrier.init full[0], 4 fence.mbarrier_init } }
  cluster.sync
  if %cluster.ctarank == 1 {
    ones: frag<s32, 64x8> = frag.fill 1
    st.shared tile[0, 0, 0], ones, cta=0
    warp.sync
    elect { mbarrier.arrive full[0], cta=0, order=release.cluster }
  }
  if %cluster.ctarank == 0 {
    mbarrier.wait full[0], 0, order=acquire.cluster
    one: i32 = ld.word tile[0, 0, 0]
  }
  cluster.sync
}"""


def test_a_word_of_what_a_peer_stores() -> None:
    """It is known behind an acquire, and read by a thread alone as by all."""
    trace = run_kernel(parse_kernel(WORD), {}, {}, 2, trace=True).trace
    assert [r.value for r in trace if r.op == "ld.word"] == [1] * 4
    with pytest.raises(MachineError) as error:
        run_kernel(parse_kernel(WORD.replace("acquire", "relaxed")), {}, {}, 2)
    assert error.value.what == f"tile {UNHEARD}"


PASSED_ON = """kernel k threads 128 cluster 2 grid 2 {
  tensormap d: f32[64, 8] box 64x8
  shared tile: f32[1][64x8] at 0
  mbarrier full[1] arrivals 4 at 2048
  on %warp 0 { elect { mbarrier.init full[0], 4 fence.mbarrier_init } }
  cluster.sync
  if %cluster.ctarank == 1 {
    ones: frag<f32, 64x8> = frag.fill 1.0
    st.shared tile[0, 0, 0], ones, cta=0
    warp.sync
    elect { mbarrier.arrive full[0], cta=0, order=release.cluster }
  }
  if %cluster.ctarank == 0 {
    mbarrier.wait full[0], 0, order=acquire.cluster
    FENCE
    on %warp 0 { elect { tma.store d[0, 0], tile[0, 0, 0] bulk.commit bulk.wait 0 } }
  }
  cluster.sync
}"""


@pytest.mark.parametrize(("fence", "right"), [("fence.proxy.async", True), ("", False)])
def test_who_has_heard_of_a_store_passes_it_on_to_tma(fence: str, right: bool) -> None:
    """By a fence of its own: the one who stored it is in another CTA."""
    d = np.zeros((64, 8), np.float32)
    run_kernel(parse_kernel(PASSED_ON.replace("FENCE", fence)), {"d": d}, {}, 2, adversary="lazy")
    assert bool((d == 1).all()) is right


READER_LEAVES = """kernel k threads 128 cluster 2 grid 2 {
  shared tile: f32[1][64x8] at 0
  mbarrier full[1] arrivals 1 at 2048
  on %warp 0 { elect { mbarrier.init full[0], 1 fence.mbarrier_init } }
  cluster.sync
  if %cluster.ctarank == 1 {
    ones: frag<f32, 64x8> = frag.fill 1.0
    FILL
  }
  cluster.sync
}"""


@pytest.mark.parametrize(
    ("fill", "why"),
    [
        ("st.async tile[0, 0, 0], ones, full[0], 0",
         "the CTA ends while 4 copies of peers may write to it"),
        ("st.shared tile[0, 0, 0], ones, cta=2", "rank 2 is not in a cluster of 2"),
        ("bulk.copy tile[0, 0, 0], tile[0, 0, 0], full[0], 0",
         "a stage is copied by 32 threads, not by one"),
    ],
)  # fmt: skip
def test_reader_leaves(fill: str, why: str) -> None:
    """CTA 0 meets CTA 1, but does not wait for what is on its way."""
    with pytest.raises(MachineError) as error:
        kernel = parse_kernel(READER_LEAVES.replace("FILL", fill))
        run_kernel(kernel, {}, {}, 2, adversary="lazy")
    assert error.value.what == why


@pytest.mark.parametrize("first", [0, 4])
@pytest.mark.parametrize(
    "fill", ["st.async tile[0, 0, 0], x, full[0], 0", "st.shared tile[0, 0, 0], x, cta=0"]
)
def test_any_warpgroup_sends(fill: str, first: int) -> None:
    """A thread's own elements, whichever warpgroup of its CTA it is in."""
    counted = fill.startswith("st.async")
    behind = "" if counted else "warp.sync elect { mbarrier.arrive full[0], cta=0, ORDER }"
    expect = "on %warpgroup.warp 0 { elect { mbarrier.expect_tx full[0], bytes=2048 } }"
    text = f"""kernel k threads 256 cluster 2 grid 2 {{
      global a: f32[64, 8] align 8
      global d: f32[64, 8] align 8
      shared tile: f32[1][64x8] at 0
      mbarrier full[1] arrivals {1 if counted else 4} at 2048
      on %warp 0 {{ elect {{ mbarrier.init full[0], {1 if counted else 4} fence.mbarrier_init }} }}
      cluster.sync
      roles {{
        role idle warps {4 - first} .. {8 - first} {{ }}
        role work warps {first} .. {first + 4} {{
          if %cluster.ctarank == 1 {{
            x: frag<f32, 64x8> = frag.load_global a[0, 0]
            {fill} {behind.replace("ORDER", "order=release.cluster")}
          }} else {{
            {expect if counted else ""}
            mbarrier.wait full[0], 0, order=acquire.cluster
            y: frag<f32, 64x8> = ld.shared tile[0, 0, 0]
            frag.store_global d[0, 0], y
          }}
        }}
      }}
      cluster.sync
    }}"""
    kernel = parse_kernel(text)
    assert verify(kernel) == []
    a, d = np.arange(512, dtype=np.float32).reshape(64, 8), np.zeros((64, 8), np.float32)
    run_kernel(kernel, {"a": a, "d": d}, {}, 2, adversary="lazy")
    assert np.array_equal(a, d)


@pytest.mark.parametrize(
    ("fill", "what"),
    [
        ("st.async tile[0, 0, 0], ones, full[0], 0", "st.async to full[0]"),
        ("st.shared tile[0, 0, 0], ones, cta=0", "a store to tile"),
        ("on %warp 0 { elect { bulk.copy tile[0, 0, 0], tile[0, 0, 0], full[0], 0 } }",
         "bulk.copy to full[0]"),
    ],
)  # fmt: skip
def test_reader_has_left(fill: str, what: str) -> None:
    """Nothing is stored in a CTA that is over, and it is told where that begins."""
    text = READER_LEAVES.replace("  cluster.sync\n}", "}").replace("FILL", fill)
    with pytest.raises(MachineError) as error:
        run_kernel(parse_kernel(text), {}, {}, 2, adversary="lazy")
    assert error.value.what == f"{what} reaches CTA 0, which has left"
    assert str(error.value).endswith(fill.split(" { ")[-1].rstrip(" }"))


@pytest.mark.parametrize(
    ("use", "what"),
    [
        ("st.async tile[0, 0, 0], ones, full[0], 0", "given to st.async"),
        ("on %warp 0 { elect { mbarrier.arrive full[0], cta=0, order=release.cluster } }",
         "arrived at by a peer"),
    ],
)  # fmt: skip
def test_a_barrier_that_a_peer_may_not_see_yet(use: str, what: str) -> None:
    text = READER_LEAVES.replace("FILL", use)
    with pytest.raises(MachineError) as error:
        run_kernel(parse_kernel(text.replace(" fence.mbarrier_init", "")), {}, {}, 2)
    assert error.value.what == f"full[0] is {what} before a fence.mbarrier_init after its init"
