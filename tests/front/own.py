"""A schedule of a matmul from nothing, in one function, for tests that change it."""

from __future__ import annotations

from wsched import LoadStoreOpType, MemoryType, ParallelType, Schedule, Special, WarpSpecialized

__all__ = ["cooperative"]


def cooperative(
    definition: str, m: int = 128, n: int = 128, k: int = 64, groups: int = 2, stages: int = 4,
    chunk: int = 64, registers: tuple[int, int] | None = (40, 232),
) -> Schedule:  # fmt: skip
    """``groups`` warpgroups share tiles of ``m x n``, a persistent grid, a load warpgroup."""
    tma, p = LoadStoreOpType.CpAsyncBulkTensorTile, ParallelType
    s = Schedule(definition)
    a, b = (s.cache_after(x, tma) for x in (s.a, s.b))
    acc, out = s.acc, s.outputs[0]
    box = s.cache_before(out, tma)
    d = s.cache_before(box, LoadStoreOpType.StMatrix)
    for t in (a, b, box):
        s.set_memory_type(t, MemoryType.Shared)
    for t in (a, b, acc, d, box, out):
        s[t].split("M", m).split("N", n).reorder(["Mo", "No"]).merge("Mo", label="tiles")
        s[t].split("tiles", Special("nctaid.x"), labels=("tile", "cta"))
        s[t].reorder(["cta", "tile"]).parallelize("cta", p.BIDx)
    for t in (a, b):
        s[t].split("K", k).reorder(["cta", "tile", "Ko"]).merge("tile", "Ko")
        s[t].parallelize(["Mi", "Ni", "Ki"], p.Bulk)
        s[t].circular_buffer(stages, 2, WarpSpecialized(p.TIDy, registers))
    for t in (acc, d, box, out):
        s[t].split("Mi", m // groups, labels=("group", "Mg")).reorder(["cta", "tile", "group"])
        s[t].parallelize("group", p.TIDy)
    s[acc].split("K", k).split("Ki", 16, labels=("k16", "k")).split("Mg", 64, labels=("m64", "m"))
    s[acc].reorder(["cta", "tile", "group", "Ko", "k16", "m64"])
    s[acc].parallelize(["m", "Ni", "k"], p.Mma)
    for t in (d, box, out):
        s[t].split("Ni", chunk, labels=("chunk", "n")).reorder(["cta", "tile", "group", "chunk"])
    s[d].split("Mg", 64, labels=("m64", "m")).parallelize(["m", "n"], p.Mma)
    for t in (box, out):
        s[t].parallelize(["Mg", "n"], p.Bulk)
    for t in (d, box):
        s[t].inline_at("chunk")
    s[acc].inline_at("group")
    return s
