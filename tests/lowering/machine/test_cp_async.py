"""Rings that threads fill: ``cp.async`` with an arrival, rows by index, stores behind a fence."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from lowering.kernel.text import parse_kernel
from lowering.kernel.verify import verify
from lowering.machine import DeadlockError, MachineError, run_kernel
from tests.lowering.cuda.rings import FILLS, copy_text, ring_text
from tests.lowering.machine.kernels import from_dtype, integers

ADVERSARIES: tuple[Any, ...] = ("eager", "lazy", "random", "fair")


def run_ring(
    fill: str, text: str, adversary: Any = "random", seed: int = 0, races: bool = False
) -> bool:
    """100 rows out of 150, K of 200 that is no multiple of 64; whether all of it is right."""
    rng = np.random.default_rng(seed)
    x, b = integers(rng, 150, 200), integers(rng, 40, 200)
    order = rng.permutation(150)[:100].astype(np.int32)[:, None]
    d = np.full((100, 40), np.nan, np.float32)
    k = parse_kernel(text)
    assert verify(k) == []
    params = {"M": 100, "N": 40, "K": 200, "R": 150}
    tensors = {"x": x, "b": b, "d": d, "order": order}
    run_kernel(k, tensors, params, 2, adversary=adversary, seed=seed, races=races)
    rows = np.arange(100) if fill == "rows" else order[:, 0]
    return np.array_equal(d, from_dtype(x, "bf16")[rows] @ from_dtype(b, "bf16").T)


@pytest.mark.sampled
@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("fill", FILLS)
def test_a_ring_that_threads_fill(fill: str, adversary: Any) -> None:
    assert all(run_ring(fill, ring_text(fill), adversary, seed) for seed in range(3))


@pytest.mark.parametrize("fill", FILLS)
def test_without_a_fence_wgmma_does_not_see_it(fill: str) -> None:
    text = ring_text(fill)
    assert text.count("fence.proxy.async") == 1
    assert not run_ring(fill, text.replace("fence.proxy.async", ""), "lazy")


@pytest.mark.parametrize("fill", FILLS)
def test_who_waits_comes_behind_the_copies(fill: str) -> None:
    """No alarm of a race: the arrival tells of what its copies have written."""
    assert run_ring(fill, ring_text(fill), "eager", races=True)


def test_an_arrival_that_does_not_wait_for_the_copies() -> None:
    plain = ring_text("rows").replace("cp.async.mbarrier.arrive.noinc", "mbarrier.arrive")
    assert not run_ring("rows", plain, "lazy")


def test_a_fence_of_the_producers_comes_before_the_bytes() -> None:
    """It cannot order what has not been written: the consumers' own fence can."""
    text = ring_text("rows").replace("fence.proxy.async", "")
    text = text.replace(
        "        cp.async.mbarrier", "        fence.proxy.async\n cp.async.mbarrier"
    )
    assert not run_ring("rows", text, "lazy")


def test_an_arrival_too_few() -> None:
    text = ring_text("rows").replace("cp.async.mbarrier.arrive.noinc full[stage]", "")
    with pytest.raises(DeadlockError):
        run_ring("rows", text)


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize(
    ("dtype", "cols", "span", "at"),
    [("bf16", 128, 128, 8), ("u8", 64, 64, 16), ("u8", 256, 128, 0), ("f32", 32, 0, 4),
     ("f16", 64, 64, 0), ("f32", 64, 128, 60)],
)  # fmt: skip
def test_any_type_and_layout(dtype: str, cols: int, span: int, at: int, adversary: Any) -> None:
    """What lies outside of the tensor is zero, also within 16 bytes."""
    kind: Any = {"bf16": ml_dtypes.bfloat16}.get(dtype) or {"u8": "u1"}.get(dtype, dtype[0] + "4")
    kind = np.dtype("f2") if dtype == "f16" else np.dtype(kind)
    rng = np.random.default_rng(3)
    k = parse_kernel(copy_text(dtype, kind.itemsize, cols, span, at))
    assert verify(k) == []
    step = 16 // kind.itemsize
    m, n = 150, at + max(cols // 2, step) // step * step
    x = rng.integers(1, 99, (2, m, n)).astype(kind)
    d = np.zeros((256, 512), kind)
    d[:] = 7
    run_kernel(k, {"X": x, "D": d}, {"M": m, "N": n}, 1, adversary=adversary)
    want = np.zeros((128, cols), kind)
    want[: m - 64, : n - at] = x[1, 64:, at:]
    assert np.array_equal(d[128:, :cols], want)
    assert (d[:128] == 7).all() and (d[:, cols:] == 7).all()


def test_what_is_told_of_a_copy() -> None:
    """Its bytes, those behind the tensor's end among them, and whose arrival it is."""
    text = copy_text("bf16", 2, 64, 128, 0)
    x, d = np.ones((2, 150, 64), np.uint16), np.zeros((256, 512), np.uint16)
    found = run_kernel(parse_kernel(text), {"X": x, "D": d}, {"M": 150, "N": 64}, 1, trace=True)
    assert found.counts["load bytes"] == found.counts["store bytes"] == 128 * 64 * 2
    arrivals = [
        (r.warp, r.target, r.index) for r in found.trace if r.op.startswith("cp.async.mbar")
    ]
    assert sorted(arrivals) == [(warp, "full", 0) for warp in range(4)]


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("x[row, k * 64]", "x[row, k * 64 + 4]", "column 4 of x is no multiple of 8"),
        ("a_s[stage, 0, 0], x", "a_s[stage, 64, 0], x",
         "a_s[0, 64, 0] lies outside [2][64x64]"),
        ("a_s[stage, 0, 0], x", "a_s[stage, 1, 0], x", "64x64 at [1, 0] does not fit into a_s"),
    ],
)  # fmt: skip
def test_faults(before: str, after: str, why: str) -> None:
    text = ring_text("rows")
    assert text.count(before) == 1
    with pytest.raises(MachineError) as e:
        run_ring("rows", text.replace(before, after))
    assert e.value.what == why


def test_an_arrival_needs_a_barrier_while_its_copies_still_fly() -> None:
    text = copy_text("bf16", 2, 64, 128, 0).replace("mbarrier.init full[0], 128", "")
    x, d = np.ones((2, 192, 64), np.uint16), np.zeros((256, 512), np.uint16)
    with pytest.raises(MachineError) as e:
        run_kernel(parse_kernel(text), {"X": x, "D": d}, {"M": 192, "N": 64}, 1, adversary="lazy")
    assert e.value.what == "full[0] is arrived at but not initialized"
    assert e.value.line == "cp.async.mbarrier.arrive.noinc full[0]"


def test_a_copy_that_nobody_waits_for() -> None:
    text = copy_text("bf16", 2, 64, 128, 0).replace("cp.async.mbarrier.arrive.noinc full[0]", "")
    text = text.replace("mbarrier.wait full[0], 0", "")
    x, d = np.ones((2, 192, 64), np.uint16), np.zeros((256, 512), np.uint16)
    with pytest.raises(MachineError) as e:
        run_kernel(parse_kernel(text), {"X": x, "D": d}, {"M": 192, "N": 64}, 1, adversary="lazy")
    assert e.value.what == "the warp ends while a cp.async may still write shared memory"
