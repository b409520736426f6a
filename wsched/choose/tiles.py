"""The output tiles, clusters and parts of K that are candidates."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from math import gcd

from lowering.ground.frozen import quick, replaced
from wsched.choose.problem import Problem
from wsched.schedule.matmul.chunks import NARROWEST_CHUNK, exchanged_chunk
from wsched.schedule.matmul.params import ClusterDims

__all__ = [
    "CLUSTERS", "LEAST_STEPS", "TILES", "TRAVERSAL", "Tile", "exchanged_tiles", "parts_for",
    "splits", "tiles_for", "tiles_of_groups",
]  # fmt: skip


@quick
@dataclass(frozen=True, slots=True)
class Tile:
    """An output tile and who computes it.

    Args:
        m: rows (a warpgroup's in ping-pong).
        n: columns.
        warpgroups: that compute.
        ping_pong: whether each has tiles of its own.
        k: columns of a step; in the lists below of 16-bit operands.
        across: warpgroups that lie side by side along N.
        exchanged: whether it is a tile of the transposed product, whose M is the problem's N.
        chunk: columns of it that the epilogue stores at a time; 0 for as many as a power of two
            leaves.
        apart: whether each chunk has a buffer of its own.
        along_k: warpgroups that share each slice of K.
    """

    m: int
    n: int
    warpgroups: int
    ping_pong: bool = False
    k: int = 64
    across: int = 1
    exchanged: bool = False
    chunk: int = 0
    apart: bool = False
    along_k: int = 1

    def of(self, problem: Problem) -> Problem:
        """The product that it is a tile of."""
        return problem.exchanged if self.exchanged else problem


_EVEN = (
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

_ODD = tuple(
    Tile(m, n, warpgroups, chunk=n)
    for m, warpgroups, most in ((64, 1, 248), (128, 2, 248), (192, 3, 184), (256, 2, 184))
    for n in range(72, most + 1, 16)
)
"""Tiles of an odd number of 8 columns, in one chunk: 840x2408x7720 takes 53.3 us with 128x152, 57.7
with the fastest of the others."""


def _in_chunks(tile: Tile) -> tuple[Tile, ...]:
    """A tile with its epilogue in other chunks: two in place of many of 16 columns; each with a
    buffer of its own, where an odd number would take turns on one.
    """
    columns = tile.n // tile.across
    power = gcd(columns, 64)
    if columns > 32 and power == 16:
        return (replaced(tile, chunk=columns // 2),)
    few = columns // power in (3, 5)
    return (replaced(tile, apart=True),) if few and power > 16 else ()


TILES = (*_EVEN, *_ODD, *(other for tile in _EVEN for other in _in_chunks(tile)))
"""Of ``legal_tiles()`` every way to share a tile, with columns so close that tiles and SMs come out
even for some of them; K as a rule one swizzle span, two for few columns."""

_WAYS = (
    Tile(64, 8, 1, exchanged=True),
    Tile(64, 8, 1, k=128, exchanged=True),
    Tile(128, 8, 2, exchanged=True),
    Tile(128, 8, 2, ping_pong=True, exchanged=True),
    Tile(192, 8, 3, exchanged=True),
    Tile(256, 8, 2, exchanged=True),
)
"""Rows of exchanged tiles, and who computes them; their columns depend on the problem."""

_COMPUTED = (
    Tile(128, 8, 2, k=128, exchanged=True),
    *(Tile(64, 8, n, k=128 * n, exchanged=True, along_k=n) for n in (2, 3, 4)),
)
"""More of them where threads compute an operand, who wait half as often in a step of twice the K;
and where nothing but their number is wanted of warpgroups, they share slices."""

WIDEST, MORE_PARTS, NARROWEST = 256, 2, 64
"""Columns of a tile; how many more tiles than the fewest the rows of a result are dealt to, however
narrow these are; and columns of the narrowest of those that they are dealt to besides."""

GROUPED = range(64, 209, 8)
"""Rows of exchanged tiles of groups, of which none come out even for all."""

CLUSTERS = tuple(ClusterDims(m, n) for m in (1, 2, 4) for n in (1, 2, 4) if m * n <= 8)
"""CTAs along M and N."""

_PARTS, _FILLING = (*range(2, 13), *range(14, 29, 2), 32), range(2, 6)
"""Parts of K on any GPU: 28 of 408 344 columns take 134 us where 14 take 167 (H200, 2026-11-24);
and tiles whose parts are besides as many as it has places for. Stream-K is no candidate: on 12
shapes from 256x768x768 to 64x8192x28672 whole tiles or split-K were always faster, by 3 to 18 %
(design/performance.md)."""

TRAVERSAL = (8, 1)
"""Tiles along M that are visited together, so that operands are still in the L2 when they are read
again: row-major order lost a quarter of the speed at 8192x28672x4096; 4 and 16 were as fast as 8
within what repeats differ by."""

LEAST_STEPS = 4
"""Steps of the k loop that are worth a part of their own."""


@lru_cache
def parts_for(sms: int) -> tuple[int, ...]:
    """The parts of K that are candidates on a GPU of so many multiprocessors, the fewest first: 66,
    44, 33 and 26 of 132 are those that fill them with two to five tiles.
    """
    filling = (sms // tiles for tiles in _FILLING)
    return tuple(sorted(p for p in {*_PARTS, *filling} if p > 1))


def splits(sms: int, clusters: int, places: int, steps: int) -> tuple[int, ...]:
    """Those of them that all have a place at the same time, and none of which is short.

    Args:
        sms: of the GPU.
        clusters: of tiles, each of whose parts wants a place.
        places: for clusters.
        steps: of the k loop.
    """
    every = parts_for(sms)
    return tuple(takewhile(lambda p: p * clusters <= places and p * LEAST_STEPS <= steps, every))


def tiles_for(problem: Problem) -> tuple[Tile, ...]:
    """The tiles that are candidates for a problem where they are legal."""
    found = TILES + exchanged_tiles(problem)
    if not _in_any_chunks(problem):
        found = tuple(t for t in found if not (t.chunk or t.apart))
    if problem.computed is not None:
        found = tuple(t for t in found if _computes(problem, t))
    elif problem.operand.bytes != 2:
        found = tuple(replaced(t, k=t.k * 2 // problem.operand.bytes) for t in found)
    return tuple(dict.fromkeys(_of_groups(problem, t) for t in found))


def _of_groups(problem: Problem, tile: Tile) -> Tile:
    """A tile whose warpgroups sum at most one group of K in a step, where groups are scaled."""
    most = tile.along_k * problem.promotion if problem.scaled is not None else tile.k
    return replaced(tile, k=most) if tile.k > most else tile


def _in_any_chunks(problem: Problem) -> bool:
    """Whether a problem's epilogue is one of which chunks of any width were measured."""
    beside = problem.matrices or problem.reductions.types or problem.grouped
    return _stores_pairs_of_bytes(problem) and problem.operand.bytes == 2 and not beside


def _stores_pairs_of_bytes(problem: Problem) -> bool:
    """Whether TMA stores all results, and their elements have two bytes."""
    stored = problem.smem_epilogue and problem.unaligned is None
    return stored and all(r.bytes == 2 for r in problem.results)


def _computes(problem: Problem, tile: Tile) -> bool:
    """Whether an operand that is computed would be the A of a tile, whose rows it has, by
    warpgroups that share the tile: they have no turns.
    """
    if problem.computed is None or tile.ping_pong:
        return False
    return (problem.computed.side == "a") is not tile.exchanged


def exchanged_tiles(problem: Problem) -> tuple[Tile, ...]:
    """Tiles of the transposed product whose columns come out even for the rows of the result; of
    many columns that only chunks of 8 or 16 divide also in one chunk or two.

    None where nothing was measured: results that are not stored by TMA, two bytes each, matrices
    that the epilogue reads; none of a batch-invariant problem, since nobody has measured that a
    wgmma gives the same bits with A and B exchanged. What is computed of B has no others.
    """
    if not _exchanges(problem):
        return ()
    step, m = _rows_at_once(problem), max(problem.m, 1)
    fewest = -(-m // WIDEST)
    widths = {_even(m, n, step) for n in range(fewest, fewest + MORE_PARTS + 1)}
    widths |= {w for w in range(NARROWEST, WIDEST + 1, step) if _even(m, -(-m // w), step) == w}
    ways = _WAYS if problem.computed is None else (*_WAYS, *_COMPUTED)
    found = tuple(replaced(way, n=n) for way in ways for n in sorted(widths))
    chunked = (replaced(t, chunk=c) for t in found if (c := _wide_chunk(t.n)))
    return (*found, *chunked)


def _even(rows: int, tiles: int, step: int) -> int:
    """The columns of so many tiles that rows are dealt to, a multiple of ``step``."""
    return -(-rows // (step * tiles)) * step


def _wide_chunk(columns: int) -> int:
    """A half or all of the columns of an exchanged tile, where the widest chunk of at most 64 that
    divides them is a quarter or less; else 0.
    """
    if columns // exchanged_chunk(columns) < 4:
        return 0
    return columns // 2 if columns % 16 == 0 else columns


def tiles_of_groups(problem: Problem) -> tuple[Tile, ...]:
    """Further tiles of the transposed product for groups of rows: any number of rows up to the
    mean, by warpgroups in turns and CTAs alone; of several products in the narrowest chunks, too,
    which leave room for a stage more. There are none of other problems.
    """
    if problem.grouped != "m" or problem.computed is not None or not _exchanges(problem):
        return ()
    known, step = set(exchanged_tiles(problem)), _rows_at_once(problem)
    widths = [n for n in GROUPED if n <= problem.m and n % step == 0]
    made = [replaced(way, n=n) for way in _WAYS if way.ping_pong for n in widths]
    if problem.products > 1:
        wider = (t for t in made if exchanged_chunk(t.n) > NARROWEST_CHUNK)
        made = [*made, *(replaced(t, chunk=NARROWEST_CHUNK) for t in wider)]
    return tuple(t for t in made if t not in known)


def _exchanges(problem: Problem) -> bool:
    """Whether tiles of the transposed product are candidates at all."""
    if problem.computed is not None and problem.computed.side == "b":
        return True
    measured = not (problem.matrices or problem.batch_invariant)
    return measured and _stores_pairs_of_bytes(problem)


def _rows_at_once(problem: Problem) -> int:
    """What the rows of an exchanged tile are a multiple of."""
    return 16 if problem.m_major else 8
