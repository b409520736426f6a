"""The primitive ``set_memory_type``."""

from __future__ import annotations

from dataclasses import replace

from wsched.fusion import Fusion, MemoryType, MmaOp, PrimitiveCall, TensorView
from wsched.schedule.primitives.checks import Reasons, find, refuse

__all__ = ["check_set_memory_type", "set_memory_type"]


def set_memory_type(fusion: Fusion, tv: str, memory: MemoryType) -> Fusion:
    """Keep a tensor in another memory.

    Args:
        fusion: the fusion.
        tv: name of the tensor.
        memory: shared, local (registers), or tensor.

    Legal for tensors that are made inside the kernel and stay there; the accumulator of an mma is
    in registers or in tensor memory, as the target has it (rule ``memory`` of the complete
    schedule), and nothing else is in tensor memory.

    before: ``T5_l___bfloat = CpAsyncBulkTensorTile(T2)``
    after ``set_memory_type(fusion, "T5", MemoryType.Shared)``:
    ``T5_s___bfloat = CpAsyncBulkTensorTile(T2)``
    """
    call = PrimitiveCall("set_memory_type", (tv, memory))
    t = find(fusion, tv, call)
    refuse("memory", call, check_set_memory_type(fusion, t, memory), t)
    return fusion.updated((replace(t, memory=memory),), call=call)


def check_set_memory_type(fusion: Fusion, t: TensorView, memory: MemoryType) -> Reasons:
    """All reasons why ``set_memory_type`` would be illegal."""
    reasons: Reasons = []
    if t.memory is MemoryType.Global:
        reasons.append(f"{t.name} is an input, a view of one, or an output: it is in global memory")
    if memory is MemoryType.Global:
        reasons.append("a tensor inside the kernel has no global memory")
    accumulates = isinstance(fusion.definition(t.name), MmaOp)
    if memory is MemoryType.Shared and accumulates:
        reasons.append(f"{t.name} is the accumulator of wgmma, which is in registers")
    if memory is MemoryType.Tensor and not accumulates:
        reasons.append(f"{t.name} is no accumulator of an mma, and tensor memory is for these")
    return reasons
