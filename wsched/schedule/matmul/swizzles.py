"""How operands lie in shared memory: in spans of a swizzle, the widest or the one that is asked
for, and in slices of which each CTA of a cluster loads one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd

from lowering.ground.frozen import quick
from lowering.target import ptx
from wsched.schedule.matmul.demands import Demands
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.options import MmaInputSmemSwizzle
from wsched.schedule.primitives.checks import Reasons

__all__ = ["swizzle_reasons", "widest_span"]


@quick
@dataclass(frozen=True, slots=True)
class _Side:
    """An operand of the product that is computed.

    Args:
        name: of its fields in the parameters, ``a`` or ``b``.
        axis: M or N.
        size: elements of it that a CTA has of a tile.
        k: and of K.
        element: bytes of one.
        k_is_rows: its rows in shared memory go along M or N, not along K.
        ctas: that load a tile together.
        asked: for its spans.
        by_threads: whether threads load it.
        computed: whether threads read it from shared memory.
    """

    name: str
    axis: str
    size: int
    k: int
    element: float
    k_is_rows: bool
    ctas: int
    asked: MmaInputSmemSwizzle
    by_threads: bool
    computed: bool

    @property
    def rows_cols(self) -> tuple[int, int]:
        """Of a tile in shared memory."""
        if not self.k_is_rows:
            return self.size, self.k
        return self.k, ptx.stored_columns(self.size, int(self.element), widest_span(self.asked))


def widest_span(asked: MmaInputSmemSwizzle) -> int:
    """Bytes of the widest span that an operand may have."""
    return asked.value or ptx.WIDEST_SWIZZLE


def swizzle_reasons(demands: Demands, params: MatmulParams) -> Reasons:
    """Why operands of these types that lie in memory so have no such spans, or no such slices."""
    sides = _sides(demands, params)
    reasons = [why for side in sides for why in _slices(side)]
    reasons += [why for side in sides for why in _asked(side)]
    b = sides[1]
    narrowest = min(widest_span(b.asked), ptx.NARROWEST_SWIZZLE)
    if b.k_is_rows and b.size * b.element % narrowest:  # M is a multiple of wgmma's 64 already
        reasons.append(
            f"the tile's n {b.size} is no multiple of {narrowest // b.element}: an N-major operand "
            f"is stored in swizzle spans of at least {narrowest} bytes"
        )
    warp, span = params.tile_sizes.warp_tile.n, widest_span(b.asked)
    if b.k_is_rows and params.across > 1 and warp * b.element % span:
        reasons.append(
            f"the warp tile's n {warp} is no multiple of {span // b.element}: side by side in an "
            f"N-major operand each begins with a swizzle span of {span} bytes"
        )
    return reasons


def _sides(demands: Demands, params: MatmulParams) -> tuple[_Side, _Side]:
    tile, cluster, (a, b) = params.output_tile, params.cluster_dims, demands.element_bytes
    asked, loads = params.smem_swizzles, params.thread_loads
    computed, ctas = demands.computed.side if demands.computed else "", demands.target.mma.ctas
    return (
        _Side("a", "m", tile.m, tile.k, a, demands.m_major, cluster.n, asked.a, loads.a > 0,
              computed == "a"),
        _Side("b", "n", tile.n // ctas, tile.k, b, demands.n_major, cluster.m // ctas, asked.b,
              loads.b > 0, computed == "b"),
    )  # fmt: skip


def _slices(side: _Side) -> Iterator[str]:
    """Why the CTAs cannot load a tile together, each a slice of it."""
    rows, cols = side.rows_cols
    line = gcd(int(cols * side.element), widest_span(side.asked))
    span = int(line / side.element)
    if ptx.multicast_slice(rows, cols, span, side.ctas, line) is None:
        size = cols if side.k_is_rows else rows
        problem = ptx.slice_problem(rows, side.ctas)
        yield f"the tile's {side.axis} {size}, loaded by {side.ctas} CTAs together: {problem}"


def _asked(side: _Side) -> Iterator[str]:
    """Why the spans that are asked for cannot be had."""
    if not side.asked.value:
        return
    said, (_, cols) = f"smem_swizzles.{side.name}={side.asked}", side.rows_cols
    if side.by_threads:
        yield f"{said}: threads load it, and fill the widest spans"
    if side.computed:
        yield f"{said}: threads compute it, and read the widest spans"
    if cols * side.element % side.asked.value:
        yield (
            f"{said}: a stage has {cols * side.element} bytes of each of its rows, no multiple of "
            f"{side.asked.value}"
        )
