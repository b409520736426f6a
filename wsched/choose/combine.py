"""What it costs to add up parts of K: by the CTAs of a tile, or by a kernel behind."""

from __future__ import annotations

from wsched.choose.problem import Problem
from wsched.choose.shape import Number, either

__all__ = ["COMBINE_COMPUTED", "COMBINE_TILE", "NUMBERED_US", "added_us", "combine_us"]

COMBINE, COMBINE_TILE, COMBINE_PART = 1.2, 0.4, 0.4
"""Microseconds that parts of a tile cost: the way of a flag through the L2; for 8192 elements of
the tile, once and for each part that is added. 213 kernels with 2, 3, 4 and 8 parts beside the same
without (H200, 2026-11-21) had 1.4 for a tile of 64x64 in two parts, 2.3 for 128x128, 10.2 for
128x256 in eight; in the problems of ``bench random`` each part takes a third more."""

COMBINE_COMPUTED = 1.1
"""What they cost more for 8192 elements of a tile where threads compute an operand. 15 kernels of
bf16 by int8 and e4m3 with 128 rows, 128x128x128 to 256x128x64 in two to four parts and most stages,
took 1 to 5 us more than all the rest says, tiles of 64x128 without parts 1 less to 0.8 more (H200,
2026-11-28)."""

NUMBERED_US = {True: 1.5, False: 0.6}
"""Microseconds until CTAs that wait for each other have their numbers (0019), by whether they are
in clusters: their first loads wait for the grid in front, an atomic and a second meeting of the
cluster. 40 kernels in parts beside whole tiles at problems of 10 to 25 us (H200, 2026-11-24)."""

ADDED_US, ADDED_PART, ADDED_BYTES = 1.4, 0.13, 1.5e7
"""What parts that are results cost: microseconds of the kernel that adds them, of each part, and
the bytes of parts that are stored and read in one. 99 kernels of 20 problems with 2 to 66 parts
(H200, 2026-11-28) took 0.9 and 0.17 for each part beside the prediction of the first kernel, 7 %
off; the second kernel alone takes 1.1 to 7, at least 1.2 of few parts; cuBLAS's own 1.7 to 5."""


def combine_us(elements: Number, parts: Number, clustered: Number) -> Number:
    """Microseconds to add up ``parts`` of a tile of so many elements, and to number CTAs for it."""
    each = COMBINE_TILE + COMBINE_PART * (parts - 1)
    numbered = either(clustered, NUMBERED_US[True], NUMBERED_US[False])
    return either(parts > 1, COMBINE + numbered + each * (elements / 8192), 0.0)


def added_us(problem: Problem, parts: Number) -> Number:
    """Microseconds of the kernel that adds ``parts`` of K which are results of fp32."""
    bytes_ = 4.0 * problem.batch * problem.m * problem.n * parts  # no integer of 64 bits holds all
    return either(parts > 1, ADDED_US + ADDED_PART * parts + bytes_ / ADDED_BYTES, 0.0)
