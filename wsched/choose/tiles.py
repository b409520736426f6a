"""The output tiles, clusters and parts of K that are candidates."""

from __future__ import annotations

from dataclasses import dataclass

from wsched.schedule.matmul.params import ClusterDims

__all__ = ["CLUSTERS", "LEAST_STEPS", "SPLITS", "TILES", "Tile"]


@dataclass(frozen=True, slots=True)
class Tile:
    """An output tile and who computes it.

    Args:
        m: rows (a warpgroup's in ping-pong).
        n: columns.
        warpgroups: that compute.
        ping_pong: whether each has tiles of its own.
        k: columns of a step.
        across: warpgroups that lie side by side along N.
    """

    m: int
    n: int
    warpgroups: int
    ping_pong: bool = False
    k: int = 64
    across: int = 1


TILES = (
    *(Tile(128, n, 2, ping_pong=True) for n in range(64, 193, 16)),
    *(Tile(64, n, 2, ping_pong=True) for n in range(48, 257, 16)),
    *(Tile(128, n, 2) for n in range(64, 257, 16)),
    *(Tile(128, n, 2, across=2) for n in (288, 320, 352, 384)),
    *(Tile(192, n, 3) for n in range(64, 193, 16)),
    *(Tile(256, n, 2) for n in range(64, 193, 16)),
    *(Tile(64, n, 1, k=128) for n in (16, 24, 32, 48, 64)),
    *(Tile(64, n, 1) for n in range(64, 257, 16)),
    *(Tile(64, n, 2, across=2) for n in (288, 320, 352, 384)),
    Tile(128, 128, 1),
)
"""Of ``legal_tiles()`` every way to share a tile, with columns so close that tiles and SMs come out
even for some of them; K as a rule one swizzle span, two for few columns."""

CLUSTERS = tuple(ClusterDims(m, n) for m in (1, 2, 4) for n in (1, 2, 4) if m * n <= 4)
"""CTAs along M and N."""

SPLITS = (2, 3, 4, 5, 6, 8, 10, 12)
"""Parts of K. Stream-K is no candidate: on 12 shapes from 256x768x768 to 64x8192x28672 whole tiles
or split-K were always faster, by 3 to 18 % (design/performance.md)."""

LEAST_STEPS = 4
"""Steps of the k loop that are worth a part of their own."""
