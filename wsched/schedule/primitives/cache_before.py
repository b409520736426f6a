"""The primitive ``cache_before``."""

from __future__ import annotations

from dataclasses import replace

from wsched.fusion import (
    Fusion,
    FusionExpr,
    LoadStoreOp,
    LoadStoreOpType,
    MemoryType,
    PrimitiveCall,
    TensorView,
)
from wsched.schedule.primitives.checks import Reasons, find, refuse

__all__ = ["cache_before", "check_cache_before"]

# stmatrix moves 8x8 matrices of 16-bit elements.
_STMATRIX_BYTES = 2


def cache_before(
    fusion: Fusion, tv: str, op: LoadStoreOpType = LoadStoreOpType.Set
) -> tuple[Fusion, str]:
    """Have a tensor's expression write a new tensor, from which the old one is copied.

    Args:
        fusion: the fusion.
        tv: name of the tensor, usually an output.
        op: how the old tensor is copied from the new one: ``CpAsyncBulkTensorTile`` is a TMA
            store, ``StMatrix`` a store to shared memory from a wgmma's fragment.

    Returns:
        The fusion and the name of the new tensor, which is local and takes over reductions.

    Legal if the tensor has a definition and is not transformed yet; if it is in global memory
    where ``op`` is a TMA; if its elements have 16 bits where ``op`` is StMatrix.

    before: ``T5 = cast(T4)``
    after ``cache_before(fusion, "T5", LoadStoreOpType.CpAsyncBulkTensorTile)``:
    ``T6 = cast(T4)``, ``T5 = CpAsyncBulkTensorTile(T6)``
    """
    call = PrimitiveCall("cache_before", (tv, op))
    t = find(fusion, tv, call)
    refuse("cache_before", call, check_cache_before(fusion, t, op), t)
    new, name = _cache_before(fusion, t, op)
    return new.after(call), name


def check_cache_before(fusion: Fusion, t: TensorView, op: LoadStoreOpType) -> Reasons:
    """All reasons why ``cache_before`` would be illegal."""
    reasons: Reasons = []
    if fusion.definition(t.name) is None:
        reasons.append(f"{t.name} is an input: nothing writes it")
    if t.transforms:
        reasons.append(f"{t.name} is transformed already: cache it first")
    if op is LoadStoreOpType.CpAsyncBulkTensorTile and t.memory is not MemoryType.Global:
        reasons.append(f"a TMA store writes global memory, {t.name} is in {t.memory} memory")
    if op is LoadStoreOpType.LdMatrix:
        reasons.append("LdMatrix reads shared memory into registers: use cache_after")
    if op is LoadStoreOpType.LdTMem:
        reasons.append("LdTMem reads tensor memory into registers: use cache_after")
    if op is LoadStoreOpType.StMatrix and t.dtype.bytes != _STMATRIX_BYTES:
        reasons.append(f"StMatrix stores 16-bit elements, {t.name} has {t.dtype}")
    return reasons


def _cache_before(fusion: Fusion, t: TensorView, op: LoadStoreOpType) -> tuple[Fusion, str]:
    name = f"T{len(fusion.tensors)}"
    domains, next_id = fusion.fresh(t.logical)
    cache = TensorView(name, t.dtype, MemoryType.Local, domains, domains)
    exprs: list[FusionExpr] = []
    for e in fusion.exprs:
        if e.output == t.name:
            exprs += [replace(e, output=name), LoadStoreOp(t.name, name, op)]
        else:
            exprs.append(e)
    stored = replace(t, logical=t.stored, loop=t.stored)
    return fusion.updated((stored, cache), tuple(exprs), next_id), name
