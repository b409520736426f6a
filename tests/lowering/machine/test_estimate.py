"""The estimate of a run's time."""

from __future__ import annotations

from dataclasses import replace
from time import process_time

import pytest

from lowering.kernel.text import parse_kernel
from lowering.machine import estimate_seconds
from tests.lowering.machine.kernels import matmul_text
from tests.on_machine import kernel
from tests.schedules import SCHEDULES

KERNEL = parse_kernel(matmul_text())


def estimate(m: int, n: int, k: int, grid: int = 2) -> float:
    return estimate_seconds(KERNEL, {"M": m, "N": n, "K": k}, grid)


def test_grows_with_the_work_of_a_cta() -> None:
    one = estimate(256, 64, 1024)
    assert 1.8 < estimate(256, 64, 2048) / one < 2.1
    assert 1.8 < estimate(512, 64, 1024) / one < 2.1
    assert 1.8 < estimate(512, 64, 1024, grid=4) / one < 2.1


def test_grows_with_the_ctas_along_z() -> None:
    extents = {"M": 256, "N": 64, "K": 1024}
    split = replace(KERNEL, splits=3)
    assert estimate_seconds(split, extents, 2) == pytest.approx(3 * estimate(256, 64, 1024))


def test_takes_no_longer_for_more_work() -> None:
    """Of each loop some iterations are walked, with tiles of its own or dealt out."""
    sizes = {"M": 1 << 16, "N": 1 << 16, "K": 1 << 16}
    begin = process_time()
    large, dealt = estimate(*sizes.values()), kernel(SCHEDULES["dynamic"]).kernel
    assert large == pytest.approx(estimate(4096, 4096, 4096) * 16**3, rel=0.1)
    assert estimate_seconds(dealt, sizes, 2) > 1e5
    assert process_time() - begin < 1.0


def test_tiles_that_are_dealt_out_are_counted_once() -> None:
    """As if one CTA took them all, however many there are."""
    sizes = {"M": 1024, "N": 1024, "K": 512}
    for name, static in (("dynamic", "coop_traversal"), ("dynamic_cluster", "cluster_2x1")):
        dealt = kernel(SCHEDULES[name]).kernel
        two, four = (estimate_seconds(dealt, sizes, grid) for grid in (2, 4))
        assert two == four
        in_turn = estimate_seconds(kernel(SCHEDULES[static]).kernel, sizes, 4)
        assert 0.5 < two / in_turn < 2


def test_what_each_statement_costs() -> None:
    """15 us each, and 10 ns for each of a warp's elements; in a loop as often as it is executed,
    in a branch that is taken, and four times, for the warps of a warpgroup.
    """
    text = """kernel k threads 128 cluster 1 grid 1 {
      param n: i32
      global x: f32[64, 64]
      mbarrier full[1] arrivals 1 at 0
      shared s: f32[1][64x32] swizzle 128 at 128
      BODY
    }"""
    a = "a: frag<f32, 64x64> = frag.load_global x[0, 0]"
    quarter = 64 * 64 // 4
    for body, statements, elements in (
        ("cta.sync", 1, 0),
        (a, 1, quarter),
        (f"{a} frag.store_global x[0, 0], a", 2, 2 * quarter),
        (f"for i in 0 .. n {{ {a} cta.sync }}", 2 * 5, 5 * quarter),
        ("if n < 5 { cta.sync } else { cta.sync cta.sync }", 2, 0),
        ("on %warp 0 { elect { mbarrier.init full[0], 1 } }", 1, 0),
        ("on %warp 1 { elect { mbarrier.init full[0], 1 } }", 0, 0),
        (f"{a} b: frag<f32, 64x32> = frag.columns a, 0 st.shared s[0, 0, 0], b", 3,
         quarter + quarter // 2),
    ):  # fmt: skip
        k = parse_kernel(text.replace("BODY", body))
        found = estimate_seconds(k, {"n": 5}, 3)
        assert found == pytest.approx(4 * 3 * (statements * 1.5e-5 + elements * 1e-8))
