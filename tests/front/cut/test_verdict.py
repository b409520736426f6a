"""Whether ``wsched.install`` takes a call: by its time call to call, and the GPU's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from wsched.front.cut.verdict import GAIN, Verdict


def said(us: float, gpu_us: float, count: int = 1) -> Verdict:
    """Beside nvFuser's 100 us, 60 of them on the GPU."""
    cost = SimpleNamespace(us=us, gpu_us=gpu_us, host_us=us - gpu_us)
    segments = [SimpleNamespace(matmul=n < count) for n in range(3)]
    chosen: Any = SimpleNamespace(cost=cost, cut=SimpleNamespace(segments=segments))
    nvfuser: Any = SimpleNamespace(us=100.0, gpu_us=60.0)
    return Verdict(chosen, nvfuser)


@pytest.mark.parametrize(
    ("us", "gpu_us", "why"),
    [
        (100 * GAIN, 60.0, ""), (100 * GAIN + 0.01, 60.0, "be no faster"),
        (50.0, 60.01, "keep the GPU longer"), (1.5, 1.0, ""), (100 * GAIN, 10.0, ""),
    ],
)  # fmt: skip
def test_limits(us: float, gpu_us: float, why: str) -> None:
    assert said(us, gpu_us).reason == (why and f"predicted to {why} by wsched")


def test_words() -> None:
    assert str(said(50.0, 40.0)) == (
        "1 kernel of wsched's, 50.0 us (GPU 40.0, host 10.0), nvFuser alone 100.0 us"
    )
    assert str(said(99.0, 40.0, 2)) == (
        "nvFuser runs it all, predicted to be no faster by wsched: 2 kernels of wsched's would "
        "take 99.0 us (GPU 40.0, host 59.0), nvFuser alone 100.0 us"
    )
    assert str(said(98.0, 61.0)) == (
        "nvFuser runs it all, predicted to keep the GPU longer by wsched: 1 kernel of wsched's "
        "would take 98.0 us (GPU 61.0, host 37.0), nvFuser alone 100.0 us (GPU 60.0)"
    )
