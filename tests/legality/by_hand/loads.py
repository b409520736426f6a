"""Schedules by hand whose operands are loaded by threads: rows may begin anywhere."""

from __future__ import annotations

from lowering.ground.expr import ExprLike
from tests.legality.builder import Matmul, P, matmul
from wsched.fusion import Fusion, LoadStoreOpType, WarpSpecialized

__all__ = ["LOADS", "loading", "share"]

_TMA, _SET = LoadStoreOpType.CpAsyncBulkTensorTile, LoadStoreOpType.Set


def loading(a: LoadStoreOpType, b: LoadStoreOpType) -> Matmul:
    """A linear whose operands are loaded so, and whose result is stored from registers."""
    return matmul(by_tma=False, operands=(a, b))


def share(m: Matmul, tv: str, label: str, rows: ExprLike) -> None:
    """Warpgroups load ``rows`` rows of a stage each."""
    m.split((tv,), label, rows, f"share {label}")
    m.run((tv,), "share", P.TIDy)


def a_by_threads() -> Fusion:
    """The warpgroup that copies A issues the TMA loads of B, into the same ring."""
    m = loading(_SET, _TMA)
    m.tile(128, 32, 32)
    m.deal()
    m.share("Mi", 64, "group", P.TIDy)
    m.steps("tile k")
    m.stage(3, 1)
    m.order(m.compute, "cta tile group")
    m.fragments("group", 16)
    m.inline("group")
    return m.s.fusion


def b_by_two_warpgroups() -> Fusion:
    """Half of B's rows each; one of them issues A's TMA loads."""
    m = loading(_TMA, _SET)
    m.tile(64, 64, 32)
    m.deal("No Mo", runs=True)
    m.steps("tile k")
    share(m, m.loads[1], "Ni", 32)
    m.stage(4, 2, WarpSpecialized(P.TIDy, (96, 184), 2))
    m.order(m.compute, "cta tile")
    m.fragments("tile", 32)
    m.inline("tile")
    return m.s.fusion


def both_by_threads() -> Fusion:
    """K in slices of 64, one tile for each CTA, and two warpgroups for both operands."""
    m = loading(_SET, _SET)
    m.tile(64, 32, 64)
    m.merge(m.every, "Mo No", "tiles")
    m.run(m.every, "tiles", P.BIDx)
    share(m, m.loads[0], "Mi", 32)
    share(m, m.loads[1], "Ni", 16)
    m.stage(3, 1, WarpSpecialized(P.TIDy, None, 2))
    m.fragments("tiles", 32)
    m.inline("tiles")
    return m.s.fusion


def in_turns() -> Fusion:
    """Two warpgroups that compute take turns, tile by tile; threads load for both."""
    m = loading(_SET, _SET)
    m.tile(64, 32, 32)
    m.deal()
    m.split(m.every, "tile", 2, "tile turn")
    m.run(m.compute, "turn", P.TIDy)
    m.steps("tile turn k")
    m.stage(4, 2)
    m.order(m.compute, "cta tile turn")
    m.fragments("turn", 32)
    m.inline("turn")
    return m.s.fusion


def in_turns_from_the_queue() -> Fusion:
    """Two pairs of warpgroups take turns with tiles that are dealt out at run time; of the two that
    load, both take every entry of the queue.
    """
    m = loading(_TMA, _SET)
    m.tile(128, 32, 32)
    m.deal(dynamic=True)
    m.split(m.compute, "tile", 2, "tile turn")
    m.run(m.compute, "turn", P.TIDz)
    m.share("Mi", 64, "row", P.TIDy)
    share(m, m.loads[1], "Ni", 16)
    m.steps("tile k")
    m.stage(3, 1, WarpSpecialized(P.TIDy, None, 2))
    m.order(m.compute, "cta tile turn row")
    m.fragments("row", 16)
    m.inline("row")
    return m.s.fusion


def four_warpgroups() -> Fusion:
    """A quarter of the rows each. The dimension that an operand does not have is that of B's rows,
    and a loop beside its box: its index is nothing to who loads B.
    """
    m = loading(_SET, _SET)
    m.tile(64, 32, 16)
    m.deal()
    m.steps("tile k")
    for tv, label, rows in zip(m.loads, ("Mi", "Ni"), (16, 8), strict=True):
        share(m, tv, label, rows)
        m.run((tv,), "Mi", P.Bulk)
        m.run((tv,), "Ki", P.Bulk)
        m.s.circular_buffer(tv, 4, 1, WarpSpecialized(P.TIDz, None, 2))
    m.order(m.compute, "cta tile")
    m.fragments("tile", 16)
    m.inline("tile")
    return m.s.fusion


LOADS = (
    a_by_threads, b_by_two_warpgroups, both_by_threads, four_warpgroups, in_turns,
    in_turns_from_the_queue,
)  # fmt: skip
