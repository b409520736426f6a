"""Schedules by hand: which warpgroup computes what, and who loads."""

from __future__ import annotations

from tests.legality.builder import P, matmul
from wsched.fusion import Fusion, Pipelined, WarpSpecialized

__all__ = ["ROLES"]


def column_groups() -> Fusion:
    """Two warpgroups share a tile, half of its columns each: both read all of A's box."""
    m = matmul()
    m.tile(64, 128, 32)
    m.deal()
    m.share("Ni", 64, "column", P.TIDy)
    m.steps("tile k")
    m.stage(3, 2)
    m.order(m.compute, "cta tile column")
    m.fragments("column", 32)
    m.inline("column")
    return m.s.fusion


def rows_by_columns() -> Fusion:
    """Four warpgroups share a tile, two by two."""
    m = matmul()
    m.tile(128, 64, 32)
    m.deal(runs=True)
    m.share("Mi", 64, "row", P.TIDy)
    m.share("Ni", 32, "column", P.TIDz)
    m.steps("tile k")
    m.stage(3, 1)
    m.order(m.compute, "cta tile row column")
    m.fragments("column", 16)
    m.inline("column")
    return m.s.fusion


def three_roles() -> Fusion:
    """Three warpgroups share a tile, a third of its 96 columns each, one tile for each CTA."""
    m = matmul()
    m.tile(64, 96, 32)
    m.merge(m.every, "Mo No", "tiles")
    m.run(m.every, "tiles", P.BIDx)
    m.share("Ni", 32, "column", P.TIDy)
    m.stage(3, 2)
    m.order(m.compute, "tiles column")
    m.fragments("column", 32)
    m.inline("column")
    return m.s.fusion


def three_in_turns() -> Fusion:
    """Three warpgroups take turns, tile by tile."""
    m = matmul()
    m.tile(64, 64, 32)
    m.deal()
    m.split(m.every, "tile", 3, "tile turn")
    m.run(m.compute, "turn", P.TIDy)
    m.steps("tile turn k")
    m.stage(4, 2)
    m.fragments("turn", 32)
    m.inline("turn")
    return m.s.fusion


def turns_along_a_row() -> Fusion:
    """Two warpgroups on TIDz take turns along a row of tiles, each CTA a row."""
    m = matmul()
    m.tile(64, 32, 32)
    m.run(m.every, "Mo", P.BIDx)
    m.split(m.every, "No", 2, "pair turn")
    m.run(m.compute, "turn", P.TIDz)
    m.steps("pair turn k")
    m.stage(4, 3, WarpSpecialized(P.TIDz))
    m.fragments("turn", 32)
    m.inline("turn")
    return m.s.fusion


def turns_in_shares() -> Fusion:
    """Ping-pong where each CTA has a run of neighbouring tiles, on one side split in two levels."""
    m = matmul()
    m.tile(64, 64, 32)
    m.deal(runs=True)
    m.split(m.compute, "tile", 2, "tile turn")
    m.run(m.compute, "turn", P.TIDy)
    m.steps("tile k")
    m.stage(3, 2)
    m.fragments("turn", 32)
    m.inline("turn")
    return m.s.fusion


def pairs_in_turns() -> Fusion:
    """Two pairs of warpgroups take turns; a pair shares its tile's rows."""
    m = matmul()
    m.tile(128, 32, 32)
    m.deal()
    m.split(m.every, "tile", 2, "tile turn")
    m.run(m.compute, "turn", P.TIDz)
    m.share("Mi", 64, "row", P.TIDy)
    m.steps("tile turn k")
    m.stage(4, 2)
    m.order(m.compute, "cta tile turn row")
    m.fragments("row", 16)
    m.inline("row")
    return m.s.fusion


def turns_of_pairs_across_z() -> Fusion:
    """Turns on TIDy, taken by pairs of warpgroups on TIDz that share the tile's columns."""
    m = matmul()
    m.tile(64, 64, 32)
    m.deal()
    m.split(m.every, "tile", 2, "tile turn")
    m.run(m.compute, "turn", P.TIDy)
    m.share("Ni", 32, "column", P.TIDz)
    m.steps("tile turn k")
    m.stage(4, 2)
    m.order(m.compute, "cta tile turn column")
    m.fragments("column", 16)
    m.inline("column")
    return m.s.fusion


def turns_on_two_axes() -> Fusion:
    """Two by two warpgroups take turns, those along z before the next along y."""
    m = matmul()
    m.tile(64, 32, 32)
    m.deal()
    m.split(m.compute, "tile", 4, "tile four")
    m.split(m.compute, "four", 2, "slow fast")
    m.run(m.compute, "slow", P.TIDy)
    m.run(m.compute, "fast", P.TIDz)
    m.steps("tile k")
    m.stage(3, 1)
    m.fragments("fast", 8)
    m.inline("fast")
    return m.s.fusion


def three_in_turns_from_the_queue() -> Fusion:
    """Three warpgroups take turns with tiles that are dealt out at run time."""
    m = matmul()
    m.tile(64, 32, 32)
    m.deal(dynamic=True)
    m.split(m.compute, "tile", 3, "tile turn")
    m.run(m.compute, "turn", P.TIDy)
    m.steps("tile k")
    m.stage(3, 1)
    m.fragments("turn", 8)
    m.inline("turn")
    return m.s.fusion


def groups_on_tidz() -> Fusion:
    """Two warpgroups of 128 rows each, along z, and so is the load warpgroup."""
    m = matmul()
    m.tile(256, 32, 32)
    m.deal("No Mo")
    m.share("Mi", 128, "group", P.TIDz)
    m.steps("tile k")
    m.stage(3, 2, WarpSpecialized(P.TIDz))
    m.order(m.compute, "cta tile group")
    m.fragments("group", 32)
    m.inline("group")
    return m.s.fusion


def columns_without_load_warps() -> Fusion:
    """Two column groups which load ahead of themselves."""
    m = matmul()
    m.tile(64, 64, 32)
    m.merge(m.every, "No Mo", "tiles")
    m.run(m.every, "tiles", P.BIDx)
    m.share("Ni", 32, "column", P.TIDy)
    m.stage(4, 2, Pipelined())
    m.order(m.compute, "tiles column")
    m.fragments("column", 32)
    m.inline("column")
    return m.s.fusion


def a_load_warp_for_each_operand() -> Fusion:
    """A is loaded by a warpgroup along y, B by one along z."""
    m = matmul()
    m.tile(64, 64, 32)
    m.deal()
    m.steps("tile k")
    a, b = m.loads
    for tv, axis in ((a, P.TIDy), (b, P.TIDz)):
        for label in ("Mi", "Ni", "Ki"):
            m.run((tv,), label, P.Bulk)
        m.s.circular_buffer(tv, 3, 2, WarpSpecialized(axis))
    m.fragments("tile", 32)
    m.inline("tile")
    return m.s.fusion


ROLES = (
    column_groups, rows_by_columns, three_roles, three_in_turns, turns_along_a_row,
    turns_in_shares, pairs_in_turns, turns_of_pairs_across_z, turns_on_two_axes,
    three_in_turns_from_the_queue, groups_on_tidz,
    columns_without_load_warps, a_load_warp_for_each_operand,
)  # fmt: skip
