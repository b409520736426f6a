"""Schedules by hand of a batch: whose CTAs have which matrices, and which parts of their sums."""

from __future__ import annotations

from tests.batches import batched
from tests.legality.builder import CTAS, Matmul, P, matmul
from tests.legality.by_hand.tiles import parts_of_k
from wsched.fusion import Fusion

__all__ = ["BATCH", "BATCHES"]

BATCH = batched()
"""What they schedule."""


def _of_matrices() -> Matmul:
    """A product of a batch in small tiles, matrices outside."""
    m = matmul(BATCH)
    m.tile(64, 32, 32)
    m.order(m.every, "B Mo No")
    return m


def matrices_on_y_and_k_on_z() -> Fusion:
    """A CTA has a tile of a matrix, or half of its sum."""
    m = _of_matrices()
    m.run(m.every, "B", P.BIDy)
    m.merge(m.every, "Mo No", "cta")
    m.run(m.every, "cta", P.BIDx)
    parts_of_k(m, 2, runs=True)
    m.order(m.loads, "B cta part k")
    m.stage()
    m.order(m.compute, "B cta part")
    m.fragments("cta", 16)
    m.inline("cta")
    return m.s.fusion


def halves_of_k_of_all_matrices() -> Fusion:
    """Tiles of all matrices in turns of two warpgroups, of half the sum on each CTA along z."""
    m = _of_matrices()
    m.merge(m.every, "B Mo", "Mo")
    m.deal("Mo No", traversal=2)
    m.split(m.every, "tile", 2, "tile turn")
    m.run(m.compute, "turn", P.TIDy)
    parts_of_k(m, 2, runs=True)
    m.order(m.loads, "cta part tile turn k")
    m.steps("tile turn k")
    m.stage(4, 2)
    m.order(m.compute, "cta tile turn part")
    m.fragments("turn", 16)
    m.inline("turn")
    return m.s.fusion


def shares_of_all_matrices() -> Fusion:
    """A share of load steps begins in one matrix and may end in another."""
    m = _of_matrices()
    m.merge(m.every, "B Mo", "Mo")
    m.merge(m.every, "Mo No", "tile")
    m.steps("tile k")
    m.split(m.loads, "tile·k", CTAS, "cta step", outer=True)
    m.run(m.loads, "cta", P.BIDx)
    m.stage(3, 2)
    m.fragments("tile", 16)
    m.inline("tile")
    return m.s.fusion


def shares_of_each_matrix() -> Fusion:
    """CTAs along y have a matrix in turns of two, and share the steps of its tiles."""
    m = _of_matrices()
    m.split(m.every, "B", 2, "B one")
    m.run(m.every, "one", P.BIDy)
    m.order(m.every, "one B")
    m.merge(m.every, "B No", "No")
    m.merge(m.every, "No Mo", "tile")
    m.steps("tile k")
    m.split(m.loads, "tile·k", CTAS, "cta step", outer=True)
    m.order(m.loads, "one cta")
    m.run(m.loads, "cta", P.BIDx)
    m.stage(3, 1)
    m.order(m.compute, "one tile")
    m.fragments("tile", 32)
    m.inline("tile")
    return m.s.fusion


BATCHES = (
    matrices_on_y_and_k_on_z, halves_of_k_of_all_matrices, shares_of_all_matrices,
    shares_of_each_matrix,
)  # fmt: skip
