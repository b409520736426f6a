"""Schedules whose loads are inlined, in no circular buffer: what multiplies loads for itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tests.schedules import definition
from wsched import LoadStoreOpType, MemoryType, ParallelType, Pipelined, Schedule, WarpSpecialized
from wsched.fusion import CircularBufferType

__all__ = ["IN_PLACE", "in_place"]

P, TMA, SET = ParallelType, LoadStoreOpType.CpAsyncBulkTensorTile, LoadStoreOpType.Set


def in_place(
    a: LoadStoreOpType = TMA,
    b: LoadStoreOpType = TMA,
    *,
    groups: bool = False,
    share: bool = False,
    pair: bool = False,
    ring: CircularBufferType | None = None,
) -> Schedule:
    """Tiles of 128 x 64, slices of 64.

    Args:
        a: how A is copied.
        b: how B is.
        groups: two warpgroups have half the rows of a tile each.
        share: and load half the rows of A and of B each.
        pair: a CTA for each tile, two of them a cluster that shares B; else one CTA has all tiles.
        ring: B is loaded ahead in this way.
    """
    s = Schedule(definition())
    left, right = (s[t].cache_after(op) for t, op in ((s.a, a), (s.b, b)))
    loads = s[left, right].set_memory_type(MemoryType.Shared)
    d, acc = s[s.outputs], s[s.acc]
    held = d.cache_before()
    tiles = s[loads, acc, held, d].split("M", 128).split("N", 64).reorder(["Mo", "No"])
    around = ["Mo", "No"]
    if pair:
        tiles.split("Mo", 2, labels=("Mo", "rank")).reorder(["Mo", "No", "rank"])
        tiles.merge("Mo", "No", label="pair").merge("pair", "rank", label="cta")
        tiles.parallelize("cta", P.BIDx)
        around = ["cta"]
    if groups:
        rows = s[acc, held, d].split("Mi", 64, labels=("group", "Mi"))
        rows.parallelize("group", P.TIDy)
    inner = ["group"] if groups else []
    acc.split("K", 64).split("Ki", 16, labels=("k16", "k")).split("Mi", 64, labels=("m64", "m"))
    acc.reorder([*around, "Ko", *inner, "k16", "m64"]).parallelize(["m", "Ni", "k"], P.Mma)
    last = s[held, d].split("Mi", 64, labels=("m64", "m")).reorder([*around, *inner, "m64"])
    last.parallelize(["m", "Ni"], P.Mma)
    held.inline_at("m64"), acc.inline_at(around[-1])
    loads.split("K", 64).reorder([*around, "Ko"])
    if share:
        for t, axis, half in ((left, "Mi", 64), (right, "Ni", 32)):
            t.split(axis, half, labels=("share", axis)).reorder([*around, "Ko", "share"])
            t.parallelize("share", P.TIDy)
    loads.parallelize(["Mi", "Ni", "Ki"], P.Bulk)
    left.inline_at("Ko")
    if ring is None:
        right.inline_at("Ko")
    else:
        right.merge("Mo", "No").merge(0).circular_buffer(3, 1, ring)
    return s


IN_PLACE: dict[str, Callable[[], Schedule]] = {
    "tma": in_place,
    "threads": partial(in_place, SET, SET),
    "both": partial(in_place, SET),
    "groups": partial(in_place, groups=True),
    "groups_share": partial(in_place, SET, SET, groups=True, share=True),
    "pair": partial(in_place, pair=True),
    "pair_of_both": partial(in_place, SET, pair=True),
    "beside_a_ring": partial(in_place, ring=WarpSpecialized(P.TIDy)),
    "threads_beside_a_ring": partial(in_place, SET, ring=WarpSpecialized(P.TIDy)),
}
"""By name; each has a kernel."""

AHEAD = partial(in_place, ring=Pipelined())
"""A is loaded in place, B by the same warps ahead of themselves: refused."""

TWICE = partial(in_place, SET, SET, groups=True)
"""Each of two warpgroups copies all of A and of B: refused."""
