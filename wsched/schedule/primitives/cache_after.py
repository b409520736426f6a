"""The primitive ``cache_after``."""

from __future__ import annotations

from wsched.fusion import (
    Fusion,
    LoadStoreOp,
    LoadStoreOpType,
    MemoryType,
    PrimitiveCall,
    TensorView,
    inputs_of,
    rewire,
)
from wsched.schedule.primitives.checks import Reasons, find, refuse

__all__ = ["cache_after", "check_cache_after"]

# ldmatrix moves 8x8 matrices of 16-bit elements.
_LDMATRIX_BYTES = 2


def cache_after(
    fusion: Fusion, tv: str, op: LoadStoreOpType = LoadStoreOpType.Set
) -> tuple[Fusion, str]:
    """Put a copy of a tensor between it and all that read it.

    Args:
        fusion: the fusion.
        tv: name of the tensor.
        op: how the copy is made; ``CpAsyncBulkTensorTile`` is a TMA load, ``LdMatrix`` a load from
            shared memory into a wgmma's fragment, ``LdTMem`` one from tensor memory.

    Returns:
        The fusion and the name of the copy, which is local (see ``set_memory_type``).

    Legal if the tensor is read, is not transformed yet, and is in global memory where ``op`` is a
    TMA; in shared memory with elements of 16 bits where it is LdMatrix; in tensor memory where it
    is LdTMem, and only there.

    before: ``T4 = mma(T2, T3)``
    after ``cache_after(fusion, "T2", LoadStoreOpType.CpAsyncBulkTensorTile)``:
    ``T5 = CpAsyncBulkTensorTile(T2)``, ``T4 = mma(T5, T3)``
    """
    call = PrimitiveCall("cache_after", (tv, op))
    t = find(fusion, tv, call)
    refuse("cache_after", call, check_cache_after(fusion, t, op), t)
    new, name = _cache_after(fusion, t, op)
    return new.after(call), name


def check_cache_after(fusion: Fusion, t: TensorView, op: LoadStoreOpType) -> Reasons:
    """All reasons why ``cache_after`` would be illegal."""
    reasons: Reasons = []
    if not fusion.uses(t.name):
        reasons.append(f"nothing reads {t.name}")
    if t.transforms:
        reasons.append(f"{t.name} is transformed already: cache it first")
    if op is LoadStoreOpType.CpAsyncBulkTensorTile and t.memory is not MemoryType.Global:
        reasons.append(f"a TMA load reads global memory, {t.name} is in {t.memory} memory")
    if op is LoadStoreOpType.LdMatrix and t.memory is not MemoryType.Shared:
        reasons.append(f"LdMatrix reads shared memory, {t.name} is in {t.memory} memory")
    if op is LoadStoreOpType.LdMatrix and t.dtype.element.bits != 8 * _LDMATRIX_BYTES:
        reasons.append(f"LdMatrix loads 16-bit elements, {t.name} has {t.dtype}")
    if (op is LoadStoreOpType.LdTMem) != (t.memory is MemoryType.Tensor):
        does = "reads tensor memory" if op is LoadStoreOpType.LdTMem else "does not"
        reasons.append(f"{op} {does}, {t.name} is in {t.memory} memory")
    if op is LoadStoreOpType.StMatrix:
        reasons.append("StMatrix writes shared memory from registers: use cache_before")
    return reasons


def _cache_after(fusion: Fusion, t: TensorView, op: LoadStoreOpType) -> tuple[Fusion, str]:
    name = f"T{len(fusion.tensors)}"
    domains, next_id = fusion.fresh(t.stored)
    copy = TensorView(name, t.dtype, MemoryType.Local, domains, domains)
    first = next(p for p, e in enumerate(fusion.exprs) if t.name in inputs_of(e))
    rewired = [rewire(e, t.name, name) for e in fusion.exprs]
    rewired.insert(first, LoadStoreOp(name, t.name, op))
    return fusion.updated((copy,), tuple(rewired), next_id), name
