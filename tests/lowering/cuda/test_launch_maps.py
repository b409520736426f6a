"""Where tensors without elements lie for TMA."""

from __future__ import annotations

from typing import Any

import pytest

from lowering.cuda import launch_maps
from lowering.cuda.launch_maps import Descriptors
from lowering.cuda.tensormap import Layout
from lowering.kernel.text import parse_kernel

torch = pytest.importorskip("torch", reason="torch is not installed")

KERNEL = parse_kernel(
    """kernel k threads 32 cluster 1 grid 1 {
  param M: i32
  param K: i32
  tensormap T0: bf16[M, K] box 64x64 swizzle 128
}
"""
)


def test_a_map_of_nothing_is_of_memory_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also boxes out of bounds fault where the address of their map is not mapped."""
    seen: list[Layout] = []

    class Empty:
        device = torch.device("cpu", 0)

    def encode(driver: Any, m: Any, layout: Layout) -> bytes:
        seen.append(layout)
        return b""

    class Nothing:
        def __enter__(self) -> None: ...
        def __exit__(self, *error: object) -> None: ...

    addresses = iter((0, 0, 4096))
    monkeypatch.setattr(launch_maps, "encode", encode)
    monkeypatch.setattr(launch_maps, "primary", lambda *_: Nothing())
    layout = lambda m, t: Layout(next(addresses), (0, 64), (128,))  # noqa: E731
    monkeypatch.setattr(launch_maps, "layout_of", layout)
    maps = Descriptors(None, KERNEL, torch)
    for _ in range(3):
        maps.encode(0, Empty())
    first, again, given = (x.address for x in seen)
    assert first == again != 0 and given == 4096
    assert first % 16 == 0
