"""Schedules by hand: what happens to a tile's sums, and rings that count something else."""

from __future__ import annotations

from tests.epilogues import RESIDUAL
from tests.legality.builder import ON_TIDY, Matmul, P, matmul
from tests.schedules import definition
from wsched.fusion import Fusion, WarpSpecialized

__all__ = ["RESULTS", "residual_in_ring", "residual_of_whole_tiles"]


def no_chunks() -> Fusion:
    """A warpgroup's part of the tile goes to shared memory at once and from there in one box."""
    m = matmul()
    m.tile(128, 64, 32)
    m.deal()
    m.share("Mi", 64, "group", P.TIDy)
    m.steps("tile k")
    m.stage(3, 2)
    m.order(m.compute, "cta tile group")
    m.wgmma()
    m.chunks("group")
    m.inline("group", box="group")
    return m.s.fusion


def one_big_store() -> Fusion:
    """Chunk by chunk into shared memory, from there the whole tile in one box."""
    m = matmul()
    m.tile(128, 64, 32)
    m.deal("No Mo")
    m.steps("tile k")
    m.stage(3, 1)
    cast, staged, out = m.epilogue
    m.wgmma()
    m.chunks("tile", 16, (cast, staged))
    m.chunks("tile", who=(out,))
    m.inline("tile", box="tile")
    m.s.inline_at(cast, m.s.axis(cast, "m64") + 1)
    return m.s.fusion


def chunks_of_rows() -> Fusion:
    """64 rows after the other, all columns of the tile: a chunk is a wgmma's rows."""
    m = matmul()
    m.tile(192, 32, 32)
    m.deal(traversal=3)
    m.steps("tile k")
    m.stage(3, 2)
    m.wgmma()
    m.split(m.epilogue, "Mi", 64, "rows Mi")
    m.order(m.epilogue, "cta tile rows")
    for tv in m.epilogue:
        for label in ("Mi", "Ni"):
            m.run((tv,), label, P.Bulk if tv in m.boxed else P.Mma)
    for tv in m.epilogue[-2::-1]:
        m.s.inline_at(tv, m.s.axis(tv, "rows") + 1)
    m.s.inline_at(m.acc, m.s.axis(m.acc, "tile") + 1)
    return m.s.fusion


def rows_of_each_group() -> Fusion:
    """Each of two warpgroups stores its 128 rows 64 at a time, and those in chunks of columns."""
    m = matmul()
    m.tile(256, 32, 32)
    m.deal()
    m.share("Mi", 128, "group", P.TIDy)
    m.steps("tile k")
    m.stage(3, 2)
    m.order(m.compute, "cta tile group")
    m.wgmma()
    m.split(m.epilogue, "Mi", 64, "rows Mi")
    m.order(m.epilogue, "cta tile group rows")
    m.chunks("rows", 16)
    m.inline("group")
    return m.s.fusion


def fp32_from_registers() -> Fusion:
    """Sums are stored as they are, by threads; two column groups, a grid of two axes."""
    m = matmul(definition(result="f32"), by_tma=False)
    m.tile(64, 64, 32)
    m.run(m.every, "No", P.BIDx)
    m.run(m.every, "Mo", P.BIDy)
    m.share("Ni", 32, "column", P.TIDy)
    m.stage(4, 2)
    m.order(m.compute, "Mo No column")
    m.fragments("column", 16)
    m.inline("column")
    return m.s.fusion


def fp32_in_small_boxes() -> Fusion:
    """Sums through shared memory in boxes of 64 x 8."""
    m = matmul(definition(result="f32"))
    m.tile(64, 64, 32)
    m.deal(runs=True)
    m.steps("tile k")
    m.stage(3, 2)
    m.fragments("tile", 8)
    m.inline("tile")
    return m.s.fusion


def residual_by_threads() -> Fusion:
    """A matrix is added that threads read, column groups take part in it."""
    m = matmul(RESIDUAL)
    m.tile(64, 64, 32)
    m.deal("No Mo")
    m.share("Ni", 32, "column", P.TIDy)
    m.steps("tile k")
    m.stage(3, 2)
    m.order(m.compute, "cta tile column")
    m.fragments("column", 16)
    m.inline("column")
    return m.s.fusion


def residual_by_ring() -> Fusion:
    """A matrix is added that comes in boxes of 128 x 32 through a ring of its own, of two stages;
    each CTA has a run of tiles.
    """
    m = residual_in_ring()
    m.inline("group")
    return m.s.fusion


def residual_in_ring() -> Matmul:
    """The same, before anything is inlined."""
    m = matmul(RESIDUAL, ring=True)
    m.tile(128, 64, 32)
    m.deal(runs=True)
    m.share("Mi", 64, "group", P.TIDy)
    m.steps("tile k")
    m.stage(3, 2)
    m.order(m.compute, "cta tile group")
    m.fragments("group", 32)
    m.split(m.rings, "Ni", 32, "chunk Ni")
    m.order(m.rings, "cta tile chunk")
    m.steps("tile chunk", m.rings)
    m.fill(m.rings, 2, 1, ON_TIDY)
    return m


def residual_of_whole_tiles() -> Fusion:
    """The matrix comes a whole tile at a time, and is read in chunks of columns; each CTA has a run
    of tiles, so what counts them is the inner part of a split whose outer one is on CTAs.
    """
    m = matmul(RESIDUAL, ring=True)
    m.tile(64, 32, 32)
    m.deal(runs=True)
    m.steps("tile k")
    m.stage(3, 2)
    m.fragments("tile", 16)
    m.fill(m.rings, 1, 0, WarpSpecialized(P.TIDy, stage_slice_position=2))
    m.inline("tile")
    return m.s.fusion


def halves_of_columns() -> Fusion:
    """A tile of 256 columns in two wgmmas of 128, one after the other for every 16 of k."""
    m = matmul()
    m.tile(64, 256, 16)
    m.deal()
    m.steps("tile k")
    m.stage(3, 2)
    m.split((m.acc,), "Ni", 128, "half Ni")
    m.order((m.acc,), "cta tile k half")
    m.fragments("tile", 64)
    m.inline("tile")
    return m.s.fusion


def one_store_for_two_groups() -> Fusion:
    """Two warpgroups compute a tile, one box stores it: which of them?"""
    m = matmul()
    m.tile(128, 64, 32)
    m.deal()
    cast, staged, out = m.epilogue
    for tv in (m.acc, cast, staged):
        m.split((tv,), "Mi", 64, "group Mi")
        m.run((tv,), "group", P.TIDy)
    m.steps("tile k")
    m.stage(3, 1)
    m.order(m.compute, "cta tile group")
    m.wgmma()
    m.chunks("group", 32, (cast, staged))
    m.chunks("tile", who=(out,))
    m.inline("tile", box="tile")
    return m.s.fusion


def k_outside_tiles() -> Fusion:
    """A slice of A for all tiles of a row before the next slice: how many sums are in flight?"""
    m = matmul()
    m.tile(64, 32, 32)
    m.order(m.every, "Mo k No")
    m.run(m.every, "Mo", P.BIDx)
    m.steps("k No")
    m.stage(3, 2)
    m.fragments("No", 32)
    m.inline("Mo")
    return m.s.fusion


RESULTS = (
    no_chunks, one_big_store, chunks_of_rows, rows_of_each_group, fp32_from_registers,
    fp32_in_small_boxes, residual_by_threads, residual_by_ring,
    residual_of_whole_tiles, halves_of_columns,
    one_store_for_two_groups, k_outside_tiles,
)  # fmt: skip
