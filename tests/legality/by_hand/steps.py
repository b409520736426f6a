"""Schedules by hand whose load steps are dealt out to CTAs: each has a share of those of all tiles.

What computes has loops over all tiles, and over k inside them; a CTA runs its share of these.
"""

from __future__ import annotations

from tests.legality.builder import CTAS, Matmul, P, matmul
from wsched.fusion import Fusion

__all__ = ["STEPS"]


def _dealt(m: Matmul, axes: str = "Mo No", traversal: int = 0) -> None:
    """The loads' steps of all tiles in as many shares as there are CTAs."""
    m.merge(m.every, axes, "tile", traversal)
    m.steps("tile k")
    m.split(m.loads, "tile·k", CTAS, "cta step", outer=True)
    m.run(m.loads, "cta", P.BIDx)
    m.stage(3, 2)


def shares_of_steps() -> Fusion:
    """Two warpgroups share a tile, and so does each that begins or ends within one."""
    m = matmul()
    m.tile(128, 32, 32)
    _dealt(m, traversal=2)
    m.share("Mi", 64, "row", P.TIDy)
    m.order(m.compute, "tile row")
    m.fragments("row", 16)
    m.inline("row")
    return m.s.fusion


def steps_of_tiles_in_threes() -> Fusion:
    """What computes counts its tiles by threes; the shares know nothing of that."""
    m = matmul()
    m.tile(64, 32, 16)
    _dealt(m, "No Mo")
    m.split(m.compute, "tile", 3, "three tile")
    m.fragments("tile", 32)
    m.inline("tile")
    return m.s.fusion


def steps_of_pairs_that_round_up() -> Fusion:
    """Two warpgroups take turns with the tiles of a share. The loads round both up, pairs of tiles
    and slices of a share.
    """
    m = matmul()
    m.tile(64, 32, 32)
    m.merge(m.every, "Mo No", "tile")
    m.split(m.every, "tile", 2, "tile turn")
    m.run(m.compute, "turn", P.TIDz)
    m.steps("tile turn k")
    m.split(m.loads, "tile·turn·k", CTAS, "cta step", outer=True)
    m.run(m.loads, "cta", P.BIDx)
    m.split(m.loads, "step", 3, "slice step")
    m.steps("slice step")
    m.stage(4, 2)
    m.fragments("turn", 16)
    m.inline("turn")
    return m.s.fusion


def steps_in_turns_of_pairs() -> Fusion:
    """Three pairs of warpgroups take turns with the tiles of a share, each half of the rows."""
    m = matmul()
    m.tile(128, 32, 16)
    _dealt(m)
    m.split(m.compute, "tile", 3, "tile turn")
    m.run(m.compute, "turn", P.TIDy)
    m.share("Mi", 64, "row", P.TIDz)
    m.order(m.compute, "tile turn row")
    m.fragments("row", 16)
    m.inline("row")
    return m.s.fusion


def steps_of_neighbours() -> Fusion:
    """Two CTAs with neighbouring columns have a share together, and load A for each other."""
    m = matmul()
    m.tile(64, 32, 32)
    m.split(m.every, "No", 2, "No place")
    m.run(m.compute, "place", P.BIDx)
    m.merge(m.every, "Mo No", "tile")
    m.order(m.every, "place tile")
    m.steps("tile k")
    m.split(m.loads, "tile·k", CTAS // 2, "pair step", outer=True)
    m.order(m.loads, "pair place step")
    m.merge(m.loads, "pair place", "cta")
    m.run(m.loads, "cta", P.BIDx)
    m.stage(3, 1)
    m.fragments("tile", 16)
    m.inline("tile")
    return m.s.fusion


def steps_of_k_in_threes() -> Fusion:
    """The loads count k in threes, so that some steps of each tile do not exist, and tiles in
    pairs. What computes has k in halves, two warpgroups in turns.
    """
    m = matmul()
    m.tile(64, 32, 16)
    m.merge(m.every, "No Mo", "tile")
    m.split(m.every, "tile", 2, "tile turn")
    m.run(m.compute, "turn", P.TIDy)
    m.split(m.loads, "k", 3, "three k")
    m.steps("tile turn three k")
    m.split(m.loads, "tile·turn·three·k", CTAS, "cta step", outer=True)
    m.run(m.loads, "cta", P.BIDx)
    m.stage(4, 2)
    m.split((m.acc,), "k", 2, "half k", outer=True)
    m.order((m.acc,), "tile turn half k")
    m.fragments("turn", 16)
    m.inline("turn")
    return m.s.fusion


def steps_in_a_row_of_shares() -> Fusion:
    """CTAs along y have columns of tiles; those of a column share the steps of its tiles."""
    m = matmul()
    m.tile(128, 32, 32)
    m.run(m.every, "No", P.BIDy)
    m.order(m.every, "No Mo k")
    m.steps("Mo k")
    m.split(m.loads, "Mo·k", CTAS, "cta step", outer=True)
    m.run(m.loads, "cta", P.BIDx)
    m.stage(3, 1)
    m.share("Mi", 64, "row", P.TIDy)
    m.order(m.compute, "No Mo row")
    m.fragments("row", 32)
    m.inline("row")
    return m.s.fusion


def steps_of_halves_on_y() -> Fusion:
    """CTAs along y have the same shares, and half of the columns of each tile."""
    m = matmul()
    m.tile(64, 64, 32)
    _dealt(m)
    m.share("Ni", 32, "half", P.BIDy)
    m.order(m.compute, "tile half")
    m.fragments("half", 16)
    m.inline("half")
    return m.s.fusion


def steps_in_three_shares() -> Fusion:
    """As many CTAs as there are shares, whatever the GPU has."""
    m = matmul()
    m.tile(64, 64, 32)
    m.merge(m.every, "Mo No", "tile")
    m.steps("tile k")
    m.split(m.loads, "tile·k", 3, "cta step", outer=True)
    m.run(m.loads, "cta", P.BIDx)
    m.stage(3, 2)
    m.fragments("tile", 32)
    m.inline("tile")
    return m.s.fusion


STEPS = (
    shares_of_steps, steps_of_tiles_in_threes, steps_of_pairs_that_round_up,
    steps_in_turns_of_pairs, steps_of_neighbours, steps_of_k_in_threes, steps_in_a_row_of_shares,
    steps_in_three_shares, steps_of_halves_on_y,
)  # fmt: skip
