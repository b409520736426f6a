"""What groups, of whose sizes only the device knows, make of a kernel's time (an H200).

The mean size is all that is known. Sizes are taken to be anything from nothing to twice the mean,
each as often as another. Six things follow, which are not so of a matmul that fills its tiles.

*Rows padded to the tile.* A group has a tile for each row of tiles in which it has any, so large
tiles of small groups are mostly empty (:func:`tiles_of_group`). What lies behind a group's end is
the next one's rows: it is multiplied, and takes energy, as its own do (:func:`multiplied`).

*Strips of weights are read once.* Tiles of a strip follow each other, so that CTAs ask for it
together: 64 groups of 8192 rows in all, 2048 columns and K of 7168, take 568 us by tiles of
64 rows, which ask for a strip 2.4 times, and 563 by tiles of 128 where each asks once.

*Memory and SMs wait for each other.* Tiles are dealt out in turn, to CTAs whose tiles find their
strip in the L2 or do not; who waits for memory does not give its tiles to who could multiply. So
the two times add up to more (:data:`SHARP`).

*Power counts more, cycles less* (:data:`YIELDS`): products of 0.5 to 3 ms one after the other.

*Half of the L2* holds the weights of all tiles at a time, or tiles of 64 rows by warpgroups in
turns wait (:data:`TURNS`).

*Columns count in eights* (:data:`COLUMNS`).

Of sums over groups none of these is so, but tiles of few sums, and of narrow boxes, have longer
main loops than others (:data:`FEW_SUMS`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from lowering.ground.sharing import Arithmetic, Sharing
from wsched.choose.problem import Problem
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.matmul.siblings import length_along

__all__ = [
    "COLUMNS", "ENERGY", "FEW_SUMS", "NARROW", "SEVERAL", "SEVERAL_TILES", "SHARP", "TURNS",
    "YIELDS", "delayed", "longer", "multiplied", "shares_of", "shares_out", "tiles_across",
    "tiles_of_group", "tiles_shared",
]  # fmt: skip

SHARP = 2.5
"""Exponent of the norm of what SMs and what memory does, of groups of rows or columns. Of what 38
kernels of three problems took 0.90 to 1.11 is predicted, where it was 0.73 to 1.04 with the
exponent of other kernels and none of the above (tests/choose/test_grouped.py has the times)."""


YIELDS, ENERGY = 0.38, 0.6
"""Exponent of the clock that gives way, and share of the energy that other kernels' law has: 80
kernels of five problems, each for four to seven lists of sizes, one after the other at the power
limit, at 1.5 to 1.6 GHz. Padding of 6 % takes 4 to 5 %, and cycles in which no product runs take
less than their share."""

TURNS, HALVES = 1.3, 2
"""What main loops take longer in tiles of 64 rows by warpgroups in turns if the weights of all
tiles at a time do not fit into half of the L2: what SMs of both halves read stands in both. Such
tiles ask for more than 75 bytes in a cycle, so CTAs wait, drift apart and read a strip again, once
it has left: 64x224 takes 712 us where 28 MB are read at a time (8 groups, 4096 x 14336 x 4096), the
least of 18 tiles; 1239 where 36 are (16 groups, 8192 x 8192 x 5120), 11 % more than the choice; and
1876 where 51 are (8 groups, 8192 x 4096 x 14336), 34 % more."""


SEVERAL = 1.03
"""The same of several products, whose tiles of 64 rows in turns sometimes wait for copies: 64x144
of gate and up has 3.87 million cycles with a skewed routing and 4.5 to 5.05 with a uniform one, of
as many tiles (ncu), 64x176 3.88 with both."""

FEW_SUMS, NARROW = 1.09, 1.08
"""What main loops of sums over groups take longer in tiles of which a warpgroup has fewer than 64 x
256 sums, and in tiles of other than whole 64s along what operands lie by, which boxes of less than
128 bytes bring. Of the gradients of Mixtral's, Llama 4's, Qwen 3's and DeepSeek-V3's up, with 4096
tokens, tiles of 192x128, 128x192 and 192x192 take 1.07 to 1.14 of what is predicted beside 128x256,
192x160, 192x144, 192x112, 128x224 and 128x160 1.07 to 1.24 (80 kernels, H200, 2026-11-30)."""

COLUMNS = 8
"""Columns that a wgmma computes at once, where other kernels count sixteen: 128x88 of gate and up
has 731 cycles a step (ncu), 704 of them its products, and times of tiles of 88, 104 and 152 columns
are as far from what is predicted as those of whole sixteens, which they were 4 % above."""


SEVERAL_TILES = 4
"""Tiles that groups have on average of which small ones come behind the others. 8 groups of
(4096, 14336, 4096), of 512 rows by tiles of 64, have 0.84 to 0.97 of the cycles by it where one of
less than 64 rows stands among the first, 0.99 to 1.01 else (fifteen lists, H200, 2026-12-01). Where
groups have two tiles a quarter of them is small, and those want large ones beside them: in falling
order 64 of (8192, 2048, 7168) take 1.02 to 1.05."""


def longer(problem: Problem, params: MatmulParams) -> float:
    """What a schedule's main loops take longer than those of a matmul that fills its tiles.

    Args:
        problem: of any kind; the exchanged one of a schedule that exchanges.
        params: the schedule.
    """
    if problem.grouped == "k":
        return _of_sums(problem, params)
    if not (shares_out(problem) and params.ping_pong and params.output_tile.m == 64):
        return 1.0
    if HALVES * _weights_at_once(problem, params) > problem.l2_bytes:
        return TURNS
    return SEVERAL if problem.products > 1 else 1.0


def _of_sums(problem: Problem, params: MatmulParams) -> float:
    """The same of sums over groups."""
    tile = params.output_tile
    few = tile.m * tile.n < 64 * 256 * params.warpgroups
    narrow = (problem.m_major and tile.m % 64) or (problem.n_major and tile.n % 64)
    return (FEW_SUMS if few else 1.0) * (NARROW if narrow else 1.0)


def _weights_at_once(problem: Problem, params: MatmulParams) -> float:
    """Bytes of the weights that all tiles at a time have."""
    tile, cluster = params.output_tile, params.cluster_dims
    clusters = problem.sms / (cluster.m * cluster.n)
    strips = clusters / max(tiles_across(problem, params), 1.0)
    of_a, of_b = problem.element_bytes
    wide = problem.b_count * tile.n * cluster.n * of_b
    if problem.grouped == "n":
        wide = problem.a_count * tile.m * cluster.m * of_a
    return strips * wide * problem.k


def shares_out(problem: Problem) -> bool:
    """Whether tiles are shared out by groups: those of rows or columns, not of sums."""
    return problem.grouped in ("m", "n")


def delayed(problem: Problem, params: MatmulParams) -> int:
    """How much a group has at least that keeps its place, a tile; 0 where all keep theirs."""
    if not shares_out(problem):
        return 0
    length = length_along(params, problem.grouped == "m")
    mean = problem.m if problem.grouped == "m" else problem.n
    return length if mean >= SEVERAL_TILES * length else 0


def tiles_across(problem: Problem, params: MatmulParams) -> float:
    """Clusters of tiles along what a group shares out, on average.

    Args:
        problem: of groups of rows or columns; the exchanged one of a schedule that exchanges.
        params: the schedule.
    """
    return tiles_of_group(*_along(problem, params))


def tiles_of_group(mean: int, length: int) -> float:
    """Tiles of so many rows that a group takes on average; never more than it has rows.

    That is half a tile more than its rows fill where twice the mean is a multiple of a tile's, and
    one for each group where twice the mean fits into a tile.
    """
    if not mean:
        return 0.0
    most = 2 * mean / length
    whole = int(most)
    return min((whole + 1) * (most - whole / 2) / most, mean)


def multiplied(problem: Problem, params: MatmulParams) -> float:
    """Rows that are multiplied for each that a group has, or columns; 1 of other problems."""
    if not shares_out(problem):
        return 1.0
    mean, length = _along(problem, params)
    return max(tiles_of_group(mean, length) * length / max(mean, 1), 1.0)


def shares_of(problem: Problem, kernels: Sequence[MatmulParams]) -> tuple[float, ...]:
    """Of the tiles that each kernel would have if it took all groups, those of what is its own.

    Args:
        problem: as it is planned for, not exchanged.
        kernels: of one call, in the order of their launches.
    """
    if len(kernels) == 1:
        return (1.0,)
    rows = problem.grouped == "m"
    mean = problem.m if rows else problem.n
    return _shares(mean, tuple(length_along(p, rows) for p in kernels))


SIZES = 512
"""Sizes of groups, from one to twice the mean, of which is known who takes them."""


@lru_cache(maxsize=2**12)
def _shares(mean: int, lengths: tuple[int, ...]) -> tuple[float, ...]:
    """The same of the lengths of their tiles."""
    sizes = np.unique(np.linspace(1, 2 * max(mean, 1), SIZES).astype(np.int64))
    alone = _ceildiv(sizes, np.array(lengths)[:, None])
    return tuple((tiles_shared(sizes, lengths).sum(1) / alone.sum(1)).tolist())


def _ceildiv(a: Any, b: Any) -> Any:
    return -(-a // b)


_ON_ARRAYS = Arithmetic(0, _ceildiv, np.minimum, np.where)


def tiles_shared(sizes: np.ndarray, lengths: tuple[int, ...]) -> np.ndarray:
    """Tiles of each kernel, of groups of each of these sizes that they share out."""
    parts = (Sharing(lengths, own).part(sizes, _ON_ARRAYS) for own in range(len(lengths)))
    return np.array([_ceildiv(p.size, n) for p, n in zip(parts, lengths, strict=True)])


def _along(problem: Problem, params: MatmulParams) -> tuple[int, int]:
    """The mean of what groups share out, and how much of it a cluster of tiles has."""
    tile, cluster = params.output_tile, params.cluster_dims
    if problem.grouped == "m":
        return problem.m, tile.m * cluster.m
    return problem.n, tile.n * cluster.n
