"""Schedules by hand with several parts that compute, each with warps of its own."""

from __future__ import annotations

from tests.legality.builder import Matmul, P, matmul
from tests.schedule.computed import Op, computed_operand
from tests.schedule.gated import scheduled, two_results
from wsched.fusion import DataType, Fusion, LoadStoreOpType, MemoryType, WarpSpecialized
from wsched.schedule import Schedule

__all__ = ["PARTS", "apart", "fragments", "of_computed"]

_TMA, _SET = LoadStoreOpType.CpAsyncBulkTensorTile, LoadStoreOpType.Set
_LD, _ST = LoadStoreOpType.LdMatrix, LoadStoreOpType.StMatrix
RING = WarpSpecialized(P.TIDy, None, 3)


def apart(m: Matmul) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The rounded sums go through shared memory; what is made and what reads that."""
    ring = m.epilogue[0]
    held = m.s.cache_before(ring, _ST)
    m.s.set_memory_type(ring, MemoryType.Shared)
    read = m.s.cache_after(ring, _LD)
    m.epilogue = (held, ring, read, *m.epilogue[1:])
    return (held, ring), m.epilogue[2:]


def of_computed(dtype: DataType, *ops: Op) -> Matmul:
    """A comes by TMA, is computed with, and goes to the mma through a ring; ``rings`` are what is
    made of it.
    """
    s = Schedule(computed_operand(dtype, ops))
    (mma,), out = s.fusion.mmas, s.outputs[0]
    loads = tuple(s.cache_after(x, _TMA) for x in ("T2", "T3"))
    for tv in loads:
        s.set_memory_type(tv, MemoryType.Shared)
    first = s.cache_after(loads[0], _SET if dtype is DataType.Float else _LD)
    s.cache_before(mma.a, _ST)
    s.set_memory_type(mma.a, MemoryType.Shared)
    copy = s.cache_before(out, _SET)
    made = [e.output for e in s.fusion.exprs]
    chain = tuple(made[made.index(first) : made.index(mma.a) + 1])
    return Matmul(s, loads, mma.output, (copy, out), out, chain)


def fragments(m: Matmul, tensors: tuple[str, ...], loops: str) -> None:
    """Fragments of 64 rows inside these loops, each tensor inlined in what reads it."""
    for tv in tensors:
        if tv in m.boxed:
            m.order((tv,), loops)
        else:
            m.split((tv,), "Mi", 64, "m64 Mi")
            m.order((tv,), f"{loops} m64")
        for label in ("Mi", "Ni", "Ki"):
            m.run((tv,), label, P.Bulk if tv in m.boxed else P.Mma)
    for tv in tensors[-2::-1]:
        boxed = any(t.name in m.boxed for t in m.s.fusion.consumers(tv))
        m.s.inline_at(tv, loops.split()[-1] if boxed else "m64")


def epilogue_apart() -> Fusion:
    """Two warpgroups multiply, a third one stores: half a tile is rounded while it does."""
    m = matmul(by_tma=False)
    made, after = apart(m)
    m.tile(128, 64, 32)
    m.deal()
    m.steps("tile k")
    m.stage(3, 1)
    for tv in (m.acc, *made):
        m.split((tv,), "Mi", 64, "row Mi")
        m.run((tv,), "row", P.TIDy)
    m.order((m.acc,), "cta tile row")
    m.wgmma()
    m.split((*made, *after), "Ni", 32, "chunk Ni")
    fragments(m, made, "cta tile chunk row")
    fragments(m, after, "cta tile chunk")
    m.s.circular_buffer(made[-1], 2, 1, RING)
    m.s.inline_at(m.acc, "tile")
    return m.s.fusion


def epilogue_by_tma() -> Fusion:
    """One warpgroup multiplies, two store, half of the rows each; tiles in runs of neighbours."""
    m = matmul()
    made, after = apart(m)
    m.tile(128, 32, 32)
    m.deal(runs=True)
    m.steps("tile k")
    m.stage(4, 2)
    for tv in after:
        m.split((tv,), "Mi", 64, "row Mi")
        m.run((tv,), "row", P.TIDy)
    m.order((m.acc,), "cta tile")
    m.wgmma()
    m.split((*made, *after), "Ni", 16, "chunk Ni")
    fragments(m, made, "cta tile chunk")
    fragments(m, after, "cta tile chunk row")
    m.s.circular_buffer(made[-1], 3, 2, RING)
    m.s.inline_at(m.acc, "tile")
    return m.s.fusion


def operand_cast() -> Fusion:
    """A of 32 bits is rounded by a warpgroup on its way to the two that multiply."""
    m = of_computed(DataType.Float)
    m.tile(128, 64, 32)
    m.deal()
    m.steps("tile k")
    m.stage(3, 1)
    m.split(m.compute, "Mi", 64, "row Mi")
    m.run(m.compute, "row", P.TIDy)
    m.order(m.compute, "cta tile row")
    m.fragments("row", 32)
    m.inline("row")
    fragments(m, m.rings, "cta tile k")
    m.s.circular_buffer(m.rings[-1], 3, 1, RING)
    return m.s.fusion


def operand_shifted() -> Fusion:
    """1 is added to A by two warpgroups; what lies behind the end of K stays zero."""
    m = of_computed(DataType.BFloat16, ("add", 1.0))
    m.tile(128, 32, 64)
    m.deal("No Mo")
    m.steps("tile k")
    m.stage(2, 1)
    m.order(m.compute, "cta tile")
    m.fragments("tile", 16)
    m.inline("tile")
    m.split(m.rings, "Mi", 64, "row Mi")
    m.run(m.rings, "row", P.TIDy)
    fragments(m, m.rings, "cta tile k row")
    m.s.circular_buffer(m.rings[-1], 2, 1, RING)
    return m.s.fusion


def operand_and_epilogue_apart() -> Fusion:
    """Four parts in a row, one tile for each CTA: load, double, multiply, store."""
    m = of_computed(DataType.Half, ("mul", 2.0))
    made, after = apart(m)
    m.tile(64, 64, 32)
    m.merge(m.every, "Mo No", "tiles")
    m.run(m.every, "tiles", P.BIDx)
    m.stage(3, 2)
    m.order((m.acc,), "tiles")
    m.wgmma()
    m.split((*made, *after), "Ni", 16, "chunk Ni")
    fragments(m, made, "tiles chunk")
    fragments(m, after, "tiles chunk")
    fragments(m, m.rings, "tiles k")
    for tv in (m.rings[-1], made[-1]):
        m.s.circular_buffer(tv, 2, 1, WarpSpecialized(P.TIDy, None, 2))
    m.s.inline_at(m.acc, "tiles")
    return m.s.fusion


def two_products() -> Fusion:
    """A times B₁ and A times B₂, two results that have nothing else to do with each other."""
    return scheduled(two_results(), m=64, n=32, k=32, groups=1, chunk=16).fusion


PARTS = (
    epilogue_apart, epilogue_by_tma, operand_cast, operand_shifted, operand_and_epilogue_apart,
    two_products,
)  # fmt: skip
