"""What a sweep takes on the GPU: by bytes, the accesses that move them, and what it computes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from wsched.choose.arithmetic import busy_us
from wsched.choose.nvfuser_cost import KERNEL_US, POINTWISE_BYTES_PER_US

__all__ = ["accesses_us", "once"]

BESIDE_PER_US, TURNED_PER_US = 62e3, 53e3
"""Accesses by 32 lanes in a microsecond: where these lie side by side, as nvFuser's of 2 bytes
(201 MB in 53.5 us, of which 3 are the start), and where eight of them do, four times, in a tensor
that is read turned (``transposed``: 67 MB of 2 bytes read so and 67 written in 38.4 us;
``python -m wsched.bench.sweeps``, H200, 2026-11-22)."""


def accesses_us(tensors: Iterable[tuple[int, int, bool]], instructions: float = 0.0) -> float:
    """A kernel that accesses each element once.

    Args:
        tensors: of each its bytes, the bytes of an access by 32 lanes, and whether it is turned.
        instructions: lanes of them (:mod:`wsched.choose.arithmetic`).
    """
    memory = 0.0
    for moved, wide, turned in tensors:
        accesses = moved / wide / (TURNED_PER_US if turned else BESIDE_PER_US)
        memory += max(moved / POINTWISE_BYTES_PER_US, accesses)
    return KERNEL_US + busy_us(memory, instructions)


def once(
    sources: Sequence[str], has: Mapping[str, int], accessed: Iterable[tuple[int, int, bool]]
) -> tuple[tuple[int, int, bool], ...]:
    """What :func:`accesses_us` takes, of several views of one tensor no more bytes than that has:
    what is read of it again is in a cache.

    Args:
        sources: of the first of what is accessed what it is a view of, by name.
        has: the bytes of each.
        accessed: as if nothing were.
    """
    found, left = list(accessed), dict(has)
    for at, name in enumerate(sources if found else ()):
        size, wide, turned = found[at]
        found[at] = min(size, left[name]), wide, turned
        left[name] -= found[at][0]
    return tuple(found)
