"""Whole schedules of a linear by primitives, tiled as a test says: results may be computed.

Tensors: T6 and T7 are the operands in shared memory, T4 the accumulator, T9 its cast, T8 that in
shared memory, T5 the result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from lowering.ground.expr import evaluate
from lowering.machine import run_kernel
from lowering.nest.lower import lower
from passes.options import LoweringOptions
from passes.pipeline import run_passes
from tests.schedule.fusions import LOADS, ON_TIDY, TMA, linear
from wsched.fusion import (
    CircularBufferType,
    Fusion,
    LoadStoreOpType,
    MemoryType,
    ParallelType,
)
from wsched.schedule import Plan, Schedule

__all__ = ["ALL", "EPILOGUE", "Tiling", "result", "whole"]

EPILOGUE = ("T9", "T8", "T5")
ALL = (*LOADS, "T4", *EPILOGUE)

Rewrite = Callable[[Schedule, str], None]


@dataclass(frozen=True, slots=True)
class Tiling:
    """How the tiles are dealt out.

    Args:
        tiles: from ``[Mo, No, (k), Mi, Ni, (Ki)]`` to the loops around a tile, then ``(k)`` and the
            tile; on every tensor. A loop of warpgroups is called ``group``.
        load: merges the serial loops of a load tensor into one.
        acc: more on the accumulator's loops.
        size: M, N and K of a tile.
        rows: where warpgroups share a tile, the rows of each.
        inline: number of loops around a tile.
        on: how the loads are circular-buffered.
    """

    tiles: Rewrite
    load: Rewrite
    acc: Rewrite = lambda s, tv: None
    size: tuple[int, int, int] = (64, 64, 64)
    rows: int = 0
    inline: int = 3
    on: CircularBufferType = ON_TIDY
    chunk: int = 64


def whole(t: Tiling) -> Schedule:
    """The schedule; the proof has not seen it."""
    s = Schedule(linear())
    for tv in ("T2", "T3"):
        s.set_memory_type(s.cache_after(tv, TMA), MemoryType.Shared)
    s.cache_before("T5", TMA)
    s.cache_before("T8", LoadStoreOpType.StMatrix)
    s.set_memory_type("T8", MemoryType.Shared)
    for tv in ALL:
        _tile(s, tv, t)
    for tv in LOADS:
        t.load(s, tv)
        for axis in range(len(s.tensor(tv).loop) - 3, len(s.tensor(tv).loop)):
            s.parallelize(tv, axis, ParallelType.Bulk)
        s.circular_buffer(tv, 3, 1, t.on)
    _accumulator(s, t)
    for tv in EPILOGUE:
        _stored(s, tv, t)
    for tv, label in (("T8", "chunk"), ("T9", "m64")):
        s.inline_at(tv, s.axis(tv, label) + 1)
    s.inline_at("T4", t.inline)
    return s


def _tile(s: Schedule, tv: str, t: Tiling) -> None:
    m, n, k = t.size
    has_k = len(s.tensor(tv).loop) == 3
    if has_k:
        s.split(tv, 2, k, labels=("k", "Ki"))
    s.split(tv, 1, n, labels=("No", "Ni"))
    s.split(tv, 0, m, labels=("Mo", "Mi"))
    s.reorder(tv, {2: 1, 4: 2} if has_k else {2: 1})
    t.tiles(s, tv)


def _rows(s: Schedule, tv: str, t: Tiling) -> None:
    if t.rows:
        at = s.axis(tv, "Mi")
        s.split(tv, at, t.rows, labels=("group", "Mi"))
        s.reorder(tv, {at: t.inline - 1})
        s.parallelize(tv, t.inline - 1, ParallelType.TIDy)


def _accumulator(s: Schedule, t: Tiling) -> None:
    _rows(s, "T4", t)
    t.acc(s, "T4")
    s.split("T4", s.axis("T4", "Ki"), 16, labels=("k16", "K"))
    s.split("T4", s.axis("T4", "Mi"), 64, labels=("m64", "M"))
    last = len(s.tensor("T4").loop)
    s.reorder("T4", {s.axis("T4", "k16"): last - 5, s.axis("T4", "m64"): last - 4})
    for axis in range(last - 3, last):
        s.parallelize("T4", axis, ParallelType.Mma)


def _stored(s: Schedule, tv: str, t: Tiling) -> None:
    _rows(s, tv, t)
    s.split(tv, s.axis(tv, "Ni"), t.chunk, labels=("chunk", "N"))
    s.reorder(tv, {s.axis(tv, "chunk"): t.inline})
    if tv != "T5":
        s.split(tv, s.axis(tv, "Mi"), 64, labels=("m64", "M"))
    last = len(s.tensor(tv).loop)
    for axis in range(last - 2, last):
        s.parallelize(tv, axis, ParallelType.Bulk if tv == "T5" else ParallelType.Mma)


def result(p: Plan, m: int, n: int, k: int, sms: int) -> tuple[Any, Any]:
    """What a schedule computes on the machine on ``sms`` multiprocessors, and what it should."""
    rng = np.random.default_rng(m * 7 + n * 3 + k)
    a, b = (rng.integers(-2, 3, shape).astype(ml_dtypes.bfloat16) for shape in ((m, k), (n, k)))
    d = np.full((m, n), np.nan, ml_dtypes.bfloat16)
    kernel = run_passes(lower(p, "k"), LoweringOptions(epilogue_stages=1))
    extents = {"M": m, "N": n, "K": k}
    grid = evaluate(kernel.grid, extents | {"sms": sms})
    run_kernel(kernel, {"T0": a, "T1": b, "T5": d}, extents, grid, seed=1, adversary="random")
    wanted = a.astype(np.float32) @ b.astype(np.float32).T
    return d.astype(np.float32), wanted.astype(ml_dtypes.bfloat16).astype(np.float32)


def scheduled(t: Tiling) -> Fusion:
    """The schedule as a fusion."""
    return whole(t).fusion
