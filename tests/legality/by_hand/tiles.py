"""Schedules by hand: which CTA computes which tile when, and k."""

from __future__ import annotations

from tests.legality.builder import CTAS, Matmul, P, matmul
from wsched.fusion import Fusion, ParallelType

__all__ = ["TILES", "parts_of_k"]


def neighbouring_shares() -> Fusion:
    """Each CTA has a run of neighbouring tiles, M-major: it comes back to the same columns of B."""
    m = matmul()
    m.tile(64, 64, 32)
    m.deal("No Mo", runs=True)
    m.steps("tile k")
    m.stage(4, 2)
    m.fragments("tile", 32)
    m.inline("tile")
    return m.s.fusion


def tile_loop_in_two_levels() -> Fusion:
    """A CTA's tiles in threes for compute; the loads know nothing of that."""
    m = matmul()
    m.tile(64, 32, 32)
    m.deal("No Mo", traversal=2)
    m.split(m.compute, "tile", 3, "three tile")
    m.steps("tile k")
    m.stage(3, 2)
    m.fragments("tile", 16)
    m.inline("tile")
    return m.s.fusion


def panels() -> Fusion:
    """Panels of two rows of tiles, column by column in each; a CTA for every tile.

    What ``grid_traversal_factor`` does, by splits; the last panel may be a row too high.
    """
    m = matmul()
    m.tile(64, 64, 16)
    m.split(m.every, "Mo", 2, "panel Mo")
    m.merge(m.every, "panel No", "pairs")
    m.merge(m.every, "pairs Mo", "tiles")
    m.run(m.every, "tiles", P.BIDx)
    m.stage(4, 3)
    m.fragments("tiles", 32)
    m.inline("tiles")
    return m.s.fusion


def rows_on_x_columns_on_y() -> Fusion:
    """A grid of two axes, one tile for each CTA."""
    m = matmul()
    m.tile(128, 32, 32)
    m.run(m.every, "Mo", P.BIDx)
    m.run(m.every, "No", P.BIDy)
    m.stage(2, 1)
    m.fragments("No", 32)
    m.inline("No")
    return m.s.fusion


def rows_dealt_columns_on_y() -> Fusion:
    """CTAs along x are dealt rows of tiles, those along y have a column of tiles each."""
    m = matmul()
    m.tile(64, 32, 32)
    m.split(m.every, "Mo", CTAS, "row cta")
    m.order(m.every, "cta No row")
    m.run(m.every, "cta", P.BIDx)
    m.run(m.every, "No", P.BIDy)
    m.steps("row k")
    m.stage(3, 1)
    m.fragments("row", 32)
    m.inline("row")
    return m.s.fusion


def pairs_of_rows_on_x_columns_on_y() -> Fusion:
    """A grid of two axes in clusters: two CTAs with neighbouring rows share B."""
    m = matmul()
    m.tile(64, 32, 32)
    m.split(m.every, "Mo", 2, "pair neighbour")
    m.merge(m.every, "pair neighbour", "rows")
    m.run(m.every, "rows", P.BIDx)
    m.run(m.every, "No", P.BIDy)
    m.stage(2, 1)
    m.fragments("No", 32)
    m.inline("No")
    return m.s.fusion


def a_row_of_tiles_each() -> Fusion:
    """One CTA for each row of tiles, which it goes along in pairs of columns; two row groups."""
    m = matmul()
    m.tile(128, 32, 32)
    m.run(m.every, "Mo", P.BIDx)
    m.split(m.compute, "No", 2, "pair No")
    m.share("Mi", 64, "group", P.TIDy)
    m.steps("No k")
    m.stage(3, 2)
    m.order(m.compute, "Mo pair No group")
    m.fragments("group", 16)
    m.inline("group")
    return m.s.fusion


def k_in_two_levels() -> Fusion:
    """Slices of k in fours, on both sides; the loads make one loop of them again."""
    m = matmul()
    m.tile(128, 64, 16)
    m.deal()
    m.split((*m.loads, m.acc), "k", 4, "ko ki")
    m.share("Mi", 64, "group", P.TIDy)
    m.steps("tile ko ki")
    m.stage(4, 2)
    m.order(m.compute, "cta tile group")
    m.fragments("group", 32)
    m.inline("group")
    return m.s.fusion


def k_in_twos_and_threes() -> Fusion:
    """Slices of k in twos for the loads and in threes for compute: both end with K."""
    m = matmul()
    m.tile(64, 64, 32)
    m.deal()
    m.split(m.loads, "k", 2, "ko ki")
    m.split((m.acc,), "k", 3, "ko ki")
    m.steps("tile ko ki")
    m.stage(3, 1)
    m.fragments("tile", 32)
    m.inline("tile")
    return m.s.fusion


def k_128() -> Fusion:
    """Slices of 128 k, two spans of the swizzle each; two stages."""
    m = matmul()
    m.tile(128, 64, 128)
    m.deal("No Mo")
    m.share("Mi", 64, "group", P.TIDy)
    m.steps("tile k")
    m.stage(2, 1)
    m.order(m.compute, "cta tile group")
    m.fragments("group", 64)
    m.inline("group")
    return m.s.fusion


def parts_of_k(m: Matmul, parts: int, *, runs: bool) -> None:
    """CTAs along z have a run of the slices of K each, or every so many-th of them."""
    k = (*m.loads, m.acc)
    m.split(k, "k", parts, "part k" if runs else "k part", outer=runs)
    m.run(k, "part", P.BIDz)


def interleaved_split_k() -> Fusion:
    """Three CTAs along z have every third slice of k each."""
    m = matmul()
    m.tile(64, 64, 32)
    m.deal()
    parts_of_k(m, 3, runs=False)
    m.order(m.loads, "cta part tile k")
    m.steps("tile k")
    m.stage(3, 2)
    m.order(m.compute, "cta tile part k")
    m.fragments("tile", 32)
    m.inline("tile")
    return m.s.fusion


def split_k_in_two_levels() -> Fusion:
    """Half of K for each of two CTAs, one tile each, and that in threes for compute."""
    m = matmul()
    m.tile(64, 32, 16)
    m.merge(m.every, "No Mo", "tiles")
    m.run(m.every, "tiles", P.BIDx)
    parts_of_k(m, 2, runs=True)
    m.split((m.acc,), "k", 3, "ko ki")
    m.stage(4, 3)
    m.fragments("tiles", 16)
    m.inline("tiles")
    return m.s.fusion


def split_k_on_a_grid_of_two_axes() -> Fusion:
    """Half of K for each of two CTAs along z; rows are dealt out along x, columns stand along y."""
    m = matmul()
    m.tile(128, 32, 32)
    m.split(m.every, "Mo", CTAS, "row cta")
    m.order(m.every, "cta No row")
    m.run(m.every, "cta", P.BIDx)
    m.run(m.every, "No", P.BIDy)
    parts_of_k(m, 2, runs=True)
    m.share("Mi", 64, "group", P.TIDy)
    m.order(m.loads, "cta No part row k")
    m.steps("row k")
    m.stage(4, 3)
    m.order(m.compute, "cta No row group part k")
    m.fragments("group", 16)
    m.inline("group")
    return m.s.fusion


def tiles_from_the_queue_in_threes() -> Fusion:
    """Tiles are dealt out at run time, turn by turn of two warpgroups; three turns are a loop, and
    so are three slices of k, for compute alone.
    """
    m = matmul()
    m.tile(64, 64, 32)
    m.deal(dynamic=True)
    m.split(m.compute, "tile", 2, "tile group")
    m.run(m.compute, "group", P.TIDy)
    m.split(m.compute, "tile", 3, "three tile")
    m.split((m.acc,), "k", 3, "ko ki")
    m.steps("tile k")
    m.stage(3, 1)
    m.order(m.compute, "cta three tile group")
    m.fragments("group", 32)
    m.inline("group")
    return m.s.fusion


def rows_from_the_queue() -> Fusion:
    """Who gets a row of tiles at run time goes along its columns in pairs."""
    m = matmul()
    m.tile(64, 32, 32)
    m.split(m.every, "Mo", CTAS, "row cta", dynamic=True)
    m.order(m.every, "cta row No k")
    m.run(m.every, "cta", P.BIDx)
    m.split(m.compute, "No", 2, "pair No")
    m.steps("row No k")
    m.stage(3, 2)
    m.order(m.compute, "cta row pair No")
    m.fragments("No", 32)
    m.inline("No")
    return m.s.fusion


def _halves_of_a_tile(axis: ParallelType) -> Fusion:
    """CTAs along an axis load the same tiles, and multiply and store half of their rows."""
    m = matmul()
    m.tile(128, 64, 32)
    m.merge(m.every, "Mo No", "tile")
    if axis is not P.BIDx:
        m.split(m.every, "tile", CTAS, "tile cta")
        m.order(m.every, "cta tile")
        m.run(m.every, "cta", P.BIDx)
    m.steps("tile k")
    m.stage(3, 1)
    m.share("Mi", 64, "half", axis)
    m.order(m.compute, "cta tile half")
    m.fragments("half", 32)
    m.inline("half")
    return m.s.fusion


def halves_of_a_tile_on_y() -> Fusion:
    """A grid of two axes, of which the loads know one."""
    return _halves_of_a_tile(P.BIDy)


def halves_of_a_tile_on_x() -> Fusion:
    """Two CTAs, both of which load all tiles."""
    return _halves_of_a_tile(P.BIDx)


TILES = (
    neighbouring_shares, tile_loop_in_two_levels, panels, rows_on_x_columns_on_y,
    rows_dealt_columns_on_y, pairs_of_rows_on_x_columns_on_y, a_row_of_tiles_each, k_in_two_levels,
    k_in_twos_and_threes, k_128, interleaved_split_k, split_k_in_two_levels,
    split_k_on_a_grid_of_two_axes, tiles_from_the_queue_in_threes, rows_from_the_queue,
    halves_of_a_tile_on_y, halves_of_a_tile_on_x,
)  # fmt: skip
