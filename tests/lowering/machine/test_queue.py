"""Words in shared memory, and loops that end early, on the machine."""

from __future__ import annotations

import numpy as np
import pytest

from lowering.kernel.text import parse_kernel
from lowering.machine import MachineError, run_kernel
from lowering.machine.run import RunResult


def run(
    body: str, cluster: int = 1, threads: int = 32, races: bool = False, seed: int = 0
) -> RunResult:
    text = f"""kernel k threads {threads} cluster {cluster} grid {cluster} {{
      param n: i32
      mbarrier there[2] arrivals 1 at 0
      shared tile: s32[2][1] at 16
      named_barrier turn[1] id 1 threads 64
      {body}
    }}"""
    return run_kernel(parse_kernel(text), {}, {"n": 3}, cluster, trace=True, races=races, seed=seed)


def reads(found: RunResult) -> list[int]:
    """Indices of the words that are read, in order."""
    return [r.index for r in found.trace if r.op == "ld.word"]


def test_a_word_is_what_was_stored() -> None:
    body = """
    elect { st.word tile[1, 0], n - 2 st.word tile[0, 0], n }
    a: i32 = ld.word tile[1, 0]
    b: i32 = ld.word tile[a - 1, 0]
    c: i32 = ld.word tile[b - 3, 0]
    """
    assert reads(run(body)) == [1, 0, 0]


def test_a_word_of_a_peer() -> None:
    """Behind a release and an acquire of the cluster."""
    body = """
    on %warp 0 { elect { mbarrier.init there[0], 1 fence.mbarrier_init } }
    cluster.sync
    if %cluster.ctarank == 0 {
      elect { for rank in 0 .. 2 unroll {
        st.word tile[0, 0], rank, cta=rank
        mbarrier.arrive there[0], cta=rank, order=release.cluster
      } }
    }
    mbarrier.wait there[0], 0, order=acquire.cluster
    a: i32 = ld.word tile[0, 0]
    b: i32 = ld.word tile[a - %cluster.ctarank, 0]
    cluster.sync
    """
    assert len(reads(run(body, cluster=2))) == 4


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("a: i32 = ld.word tile[0, 0]", "tile[0, 0] is read, but nobody has written it"),
        ("a: i32 = ld.word tile[n, 0]", "tile[3, 0] lies outside [2][1]"),
        ("st.word tile[0, 0], 1", "a word is stored by 32 threads, not by one"),
        ("elect { st.word tile[2, 0], 1 }", "tile[2, 0] lies outside [2][1]"),
        ("elect { st.word tile[0, 0], 1, cta=1 }", "rank 1 is not in a cluster of 1"),
    ],
)  # fmt: skip
def test_faults(body: str, why: str) -> None:
    with pytest.raises(MachineError) as error:
        run(body)
    assert error.value.what == why


def test_a_word_for_a_cta_that_has_left() -> None:
    """Whose memory is another's by now; one's own is there as long as one runs."""
    body = "elect { st.word tile[0, 0], 1, cta=%cluster.ctarank WORD }"
    run(body.replace("WORD", ""), cluster=2)
    late = body.replace("WORD", "if %cluster.ctarank == 1 { st.word tile[1, 0], 1, cta=0 }")
    with pytest.raises(MachineError) as error:
        for seed in range(8):
            run(late, cluster=2, seed=seed)
    assert error.value.what == "a store to tile reaches CTA 0, which has left"


def test_a_word_that_nothing_orders() -> None:
    """Two warps, and no barrier between the store and the load: a fault whoever comes first."""
    body = """
    on %warp 0 { elect { st.word tile[0, 0], 0 } }
    cta.sync
    on %warp 0 { elect { st.word tile[0, 0], 1 } }
    SYNC on %warp 1 { a: i32 = ld.word tile[0, 0] }
    """
    assert reads(run(body.replace("SYNC", "cta.sync"), threads=64, races=True)) == [0]
    with pytest.raises(MachineError, match="nothing orders the two"):
        run(body.replace("SYNC", ""), threads=64, races=True)


def test_a_barrier_is_used_behind_its_init() -> None:
    """By whoever announces bytes, as by whoever arrives or waits; who comes in front of the init is
    told from who comes behind it by chance.
    """
    body = """
    on %warp 0 { elect { mbarrier.init there[0], 1 fence.mbarrier_init } }
    SYNC on %warp 1 { elect { mbarrier.expect_tx there[0], bytes=0 } }
    """
    said = set[str]()
    for seed in range(8):
        run(body.replace("SYNC", "cta.sync"), threads=64, races=True, seed=seed)
        with pytest.raises(MachineError) as error:
            run(body.replace("SYNC", ""), threads=64, races=True, seed=seed)
        said.add(error.value.what)
    assert said == {
        "there[0] is arrived at but not initialized",
        "there[0] is arrived at, but nothing orders that behind its init",
    }


def test_a_loop_that_ends_early_has_the_carried_values_of_its_last_trip() -> None:
    body = """
    elect { st.word tile[0, 0], 0 st.word tile[1, 0], 1 }
    for i in 0 .. 9 carry (x: i32 = 5 -> last) {
      break n <= i
      a: i32 = ld.word tile[0, 0]
      break x == 99
      yield x - 1
    }
    b: i32 = ld.word tile[last - 1, 0]
    """
    assert reads(run(body)) == [0, 0, 0, 1]


def test_a_loop_that_breaks_at_once() -> None:
    body = """
    elect { st.word tile[0, 0], 0 st.word tile[1, 0], 1 }
    for i in 0 .. 9 carry (x: i32 = 1 -> last) { break true yield x + 5 }
    b: i32 = ld.word tile[last, 0]
    """
    assert reads(run(body)) == [1]


def test_a_barrier_that_is_left_half_full() -> None:
    with pytest.raises(MachineError) as error:
        run("bar.arrive turn[0]")
    assert error.value.what == (
        "the CTA ends with a barrier half full: turn[0]: 32 of 64 threads (CTA 0, warp 0)"
    )


def test_a_word_of_a_stage_that_a_load_overwrites() -> None:
    """It has certainly been read behind a fence and a meeting of the warp, as what others read."""
    text = """kernel k threads 32 cluster 1 grid 1 {
      tensormap x: s32[8, 4] box 8x4
      mbarrier full[1] arrivals 1 at 0
      shared tile: s32[1][8x4] at 128
      elect { mbarrier.init full[0], 1 fence.mbarrier_init }
      warp.sync
      for i in 0 .. 2 {
        elect {
          mbarrier.expect_tx full[0], bytes=128
          tma.load tile[0, 0, 0], x[0, 0], bar=full[0]
        }
        mbarrier.wait full[0], i
        a: i32 = ld.word tile[0, 3, 1]
        FENCE
      }
      b: i32 = ld.word tile[0, 7, a - 13]
    }"""
    x = np.arange(32, dtype=np.int32).reshape(8, 4)
    right = parse_kernel(text.replace("FENCE", "fence.proxy.async warp.sync"))
    found = run_kernel(right, {"x": x}, {}, 1, trace=True)
    assert [r.value for r in found.trace if r.op == "ld.word"] == [13, 13, 28]
    for missing in ("", "fence.proxy.async", "warp.sync"):
        with pytest.raises(MachineError, match="a load overwrites what warp 0 may"):
            run_kernel(parse_kernel(text.replace("FENCE", missing)), {"x": x}, {}, 1)
