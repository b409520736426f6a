"""What the laws of the cost model are about: a tile in a cluster, or many of them at once.

Each law is written once. Of one schedule it is asked with numbers, of all candidates together with
arrays of them (:mod:`wsched.choose.bound`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from lowering.ground.frozen import quick
from wsched.choose.tiles import Tile
from wsched.schedule.matmul.params import ClusterDims, MatmulParams

__all__ = ["Number", "Shape", "either", "least", "most"]

Number: TypeAlias = Any
"""An int, a float or a bool; or an array of them."""

_ARRAY = np.ndarray


def most(a: Number, b: Number) -> Number:
    """The larger one of two numbers, or of each two."""
    if type(a) is _ARRAY or type(b) is _ARRAY:
        return np.maximum(a, b)
    return b if b > a else a


def least(a: Number, b: Number) -> Number:
    """The smaller one of two numbers, or of each two."""
    if type(a) is _ARRAY or type(b) is _ARRAY:
        return np.minimum(a, b)
    return b if b < a else a


def either(where: Number, a: Number, b: Number) -> Number:
    """One of two numbers, by whether something is so; or of each two."""
    return np.where(where, a, b) if type(where) is _ARRAY else a if where else b


@quick
@dataclass(frozen=True, slots=True)
class Shape:
    """Tiles in clusters, each field a number, or an array of all of them.

    Args:
        m: rows of a tile, which one load step belongs to.
        n: columns.
        k: columns of K in a step.
        warpgroups: that compute.
        ping_pong: whether each has tiles of its own.
        across: warpgroups side by side.
        warp_m: rows of each.
        warp_n: columns of each.
        cluster_m: CTAs of a cluster along M.
        cluster_n: and along N.
        exchanged: whether it is the transposed product; of all of them.
        chunk: columns that the epilogue stores at a time; 0 for as many as a power of two leaves.
        apart: whether each chunk has a buffer of its own.
    """

    m: Number
    n: Number
    k: Number
    warpgroups: Number
    ping_pong: Number
    across: Number
    warp_m: Number
    warp_n: Number
    cluster_m: Number
    cluster_n: Number
    exchanged: bool
    chunk: Number = 0
    apart: Number = False

    @classmethod
    def of(cls, params: MatmulParams) -> Shape:
        """That of a schedule."""
        tile, warp, cluster = params.output_tile, params.tile_sizes.warp_tile, params.cluster_dims
        return cls(
            tile.m, tile.n, tile.k, params.warpgroups, params.ping_pong, params.across,
            warp.m, warp.n, cluster.m, cluster.n, params.exchange_operands,
        )  # fmt: skip

    @classmethod
    def of_all(cls, tried: Sequence[tuple[Tile, ClusterDims]], exchanged: bool) -> Shape:
        """Those of a list of one product."""
        rows = [
            (t.m, t.n, t.k, t.warpgroups, t.ping_pong, t.across, t.along_k, c.m, c.n, t.chunk,
             t.apart)
            for t, c in tried
        ]  # fmt: skip
        m, n, k, warpgroups, turns, across, along_k, cluster_m, cluster_n, chunk, apart = np.array(
            rows, np.int64
        ).T
        ping_pong = turns > 0
        warp_m = np.where(ping_pong, m, m * across * along_k // warpgroups)
        return cls(
            m, n, k, warpgroups, ping_pong, across, warp_m, n // across, cluster_m, cluster_n,
            exchanged, chunk, apart > 0,
        )  # fmt: skip

    @property
    def ctas(self) -> Number:
        """CTAs of each cluster."""
        return self.cluster_m * self.cluster_n

    @property
    def alone(self) -> Number:
        """Whether a warpgroup shares its steps with no other."""
        return self.ping_pong | (self.warpgroups == 1)
