"""What a sweep takes on the GPU: by the bytes it moves, and by the accesses that move them."""

from __future__ import annotations

from collections.abc import Iterable

from wsched.choose.nvfuser_cost import KERNEL_US, POINTWISE_BYTES_PER_US

__all__ = ["accesses_us"]

BESIDE_PER_US, APART_PER_US = 62e3, 16.6e3
"""Accesses by 32 lanes in a microsecond: where these lie side by side, as nvFuser's of 2 bytes
(201 MB in 53.5 us, of which 3 are the start), and where they do not, as those of 2 bytes that lay
16 apart (1.06 TB/s; ``odd rows`` of ``python -m wsched.bench.sweeps``, H200, 2026-11-22)."""


def accesses_us(tensors: Iterable[tuple[int, int, bool]]) -> float:
    """A kernel that accesses each element once.

    Args:
        tensors: of each its bytes, the bytes of an access by 32 lanes, and whether these lie apart.
    """
    busy = 0.0
    for moved, wide, apart in tensors:
        accesses = moved / wide / (APART_PER_US if apart else BESIDE_PER_US)
        busy += max(moved / POINTWISE_BYTES_PER_US, accesses)
    return KERNEL_US + busy
