"""Whole kernels against NumPy."""

from __future__ import annotations

import re

import numpy as np
import pytest

from lowering.ground.errors import InternalError, UnsupportedError, WschedError
from lowering.kernel.text import parse_kernel
from lowering.machine import run_kernel
from tests.lowering.machine.kernels import integers, matmul_text, run_matmul

KINDS = {
    "two groups": {},
    "one group": {"groups": 1},
    "three stages": {"stages": 3},
    "swizzle 64": {"swizzle": 64, "store_swizzle": 64},
    "swizzle 32": {"swizzle": 32, "store_swizzle": 32},
    "no store swizzle": {"store_swizzle": 0, "cols": 128},
    "f16": {"dtype": "f16", "out": "f16"},
    "f32 out": {"out": "f32"},
    "f32 out, swizzle 64": {"out": "f32", "store_swizzle": 64},
}


@pytest.mark.sampled
@pytest.mark.parametrize("adversary", ["eager", "lazy", "random"])
@pytest.mark.parametrize("kind", KINDS)
def test_matmul_with_tails(kind: str, adversary: str) -> None:
    options = KINDS[kind]
    types = {key: value for key, value in options.items() if key in ("dtype", "out")}
    right, _ = run_matmul(matmul_text(**options), 200, 136, 200, adversary=adversary, **types)
    assert right


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(8))
def test_every_seed_gives_the_same_result(seed: int) -> None:
    assert run_matmul(matmul_text(), 136, 72, 136, seed=seed)[0]


def test_no_k_stores_zero() -> None:
    assert run_matmul(matmul_text(), 128, 64, 0)[0]


def test_a_cta_without_a_tile() -> None:
    right, result = run_matmul(matmul_text(), 64, 64, 64, trace=True)
    assert right
    assert {row.cta for row in result.trace} == {0}


def test_counters() -> None:
    _, result = run_matmul(matmul_text(), 256, 64, 128)
    counters = dict(result.counts)
    assert counters.pop("steps") > 0
    assert counters == {
        "tma.load": 2 * 2 * 2,
        "load bytes": 2 * 2 * (128 + 64) * 128,
        "wgmma": 2 * 2 * 4 * 2,
        "mbarrier.wait": 2 * 2 * (1 + 8),
        "mbarrier.arrive": 2 * 2 * 8,
        "stmatrix": 2 * 8,
        "tma.store": 2 * 2,
        "store bytes": 2 * 2 * 64 * 128,
    }


def test_strided_rows_and_ml_dtypes() -> None:
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    rng = np.random.default_rng(0)
    a = np.zeros((64, 80), np.uint16)
    a[:, :64] = integers(rng, 64, 64)
    b, d = integers(rng, 64, 64), np.full((64, 64), np.nan, bfloat16)
    tensors = {"a": a.view(bfloat16)[:, :64], "b": b.view(bfloat16), "d": d}
    run_kernel(parse_kernel(matmul_text()), tensors, {"M": 64, "N": 64, "K": 64}, 1)
    want = a.view(bfloat16)[:, :64].astype(np.float32) @ b.view(bfloat16).astype(np.float32).T
    assert np.array_equal(d.astype(np.float32), want)


def test_the_size_that_was_promised() -> None:
    """256x256x512 in 128x256x64 tiles; the promise is 5 s, the machine needs about 0.1."""
    _, result = run_matmul(matmul_text(cols=256, stages=3), 256, 256, 512)
    assert result.counts["steps"] < 5000


def refused(error: type[Exception], text: str = "", grid: int = 2, **params: int) -> str:
    d = np.zeros((64, 64), np.uint16)
    kernel = parse_kernel(text or matmul_text())
    with pytest.raises(error) as caught:
        run_kernel(kernel, {"a": d, "b": d, "d": d}, params, grid)
    return str(caught.value)


REPORT = "\nThis is a defect of wsched, please report it with the dump."


def test_refuses_missing_values() -> None:
    assert refused(InternalError, M=64) == "machine: no value for N, K" + REPORT


def test_refuses_a_grid_that_is_no_multiple_of_the_cluster() -> None:
    text = matmul_text().replace("cluster 1", "cluster 2")
    message = refused(InternalError, text, 3, M=64, N=64, K=64)
    assert message == "machine: a grid of 3 CTAs in clusters of 2" + REPORT


def test_refuses_a_statement_of_tile_level() -> None:
    text = (
        matmul_text()
        .replace("tma.load a_s", "load.tile a_s")
        .replace(
            "k * 64], bar=full[stage]\n            tma.load b", "k * 64]\n            tma.load b"
        )
    )
    message = refused(InternalError, text, M=64, N=64, K=64)
    assert message == (
        "machine: statement 'load.tile' cannot be executed; is a pass missing?"
        + REPORT
        + "\nload.tile a_s[stage, 0, 0], a[tile % rows * 128, k * 64]"
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (" at 0\n", "\n", "shared buffer a_s has no offset yet"),
        (" at 65536\n", "\n", "mbarrier array full has no offset yet"),
        (", bytes=24576", "", "expect_tx without bytes"),
        (", bar=full[stage]", "", "tma.load without an mbarrier"),
        ("swizzle 128 at 0", "at 0", "wgmma cannot read a row-major tile without a swizzle"),
        ("chunk0: frag<bf16", "chunk0: frag<f16", "stmatrix of frag<f16, 64x64> to bf16 elements"),
    ],
)
def test_refuses_an_unfinished_kernel(old: str, new: str, message: str) -> None:
    text = matmul_text()
    assert old in text
    found = refused(InternalError, text.replace(old, new), M=64, N=64, K=64)
    assert found.splitlines()[0].partition(": ")[2] == message


def test_refuses_a_run_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WSCHED_MACHINE_SECONDS", "0.001")
    text = refused(UnsupportedError, M=64, N=64, K=64)
    assert re.sub(r"about 0\.0\d+ s", "about N s", text) == (
        "a run of matmul on the machine that takes about N s is not supported; "
        "supported: runs of up to 0.001 s. "
        "Take a smaller problem, or raise the limit: limit_seconds or WSCHED_MACHINE_SECONDS"
    )
    monkeypatch.setenv("WSCHED_MACHINE_SECONDS", "2")
    text = refused(UnsupportedError, M=65536, N=65536, K=65536)
    assert re.sub(r"about \d{3} h", "about N h", text).startswith(
        "a run of matmul on the machine that takes about N h is not supported; "
        "supported: runs of up to 2 s. "
    )


@pytest.mark.parametrize("setting", ["abc", "-1", "nan", "inf", "1 s"])
def test_a_limit_that_is_no_number_of_seconds(
    setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WSCHED_MACHINE_SECONDS", setting)
    assert refused(WschedError, M=64, N=64, K=64) == (
        f"WSCHED_MACHINE_SECONDS={setting}: use a number of seconds, 0 or more, for example 60 or "
        "0.5"
    )
