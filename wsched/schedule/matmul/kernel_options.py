"""What the matmul scheduler's parameters say beside loops."""

from __future__ import annotations

from typing import TypeVar

from wsched.fusion import Fusion, the_products
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.matmul.vectors import vector_registers
from wsched.schedule.options import (
    CachePolicy,
    KernelOptions,
    MmaInputSmemSwizzle,
    TensorMapL2Promotion,
)

__all__ = ["kernel_options", "thread_bytes"]

T = TypeVar("T")


def kernel_options(fusion: Fusion, params: MatmulParams) -> KernelOptions:
    """The options of a kernel; what else the parameters say is in the schedule."""
    return KernelOptions(
        epilogue_stages=params.epilogue_stages,
        programmatic_dependent_launch=params.programmatic_dependent_launch,
        prefetched_steps=params.prefetched_steps,
        cache_policies=_cache_policies(fusion, params),
        l2_promotions=_l2_promotions(fusion, params),
        promote_prologue_smem_reuse=params.promote_prologue_smem_reuse,
        deferred_stores=params.deferred_stores,
        smem_swizzles=_smem_swizzles(fusion, params),
        copied_bytes=_copied_bytes(fusion, params),
        vector_registers=vector_registers(fusion, params),
        slice_groups=params.along_k,
        slice_registers=params.register_pair if params.along_k > 1 else None,
        vector=1 if params.exchange_operands else params.supported_vec_size.epilogue,
    )


def _asked(fusion: Fusion, params: MatmulParams, a: T, b: T) -> dict[str, T]:
    """What is asked for A and for B of what is computed, by the tensors in global memory."""
    made = the_products(fusion)
    if params.exchange_operands:
        a, b = b, a
    found, first = {p.b.name: b for p in made}, {p.a.name: a for p in made}
    return first | found if params.exchange_operands else found | first


def thread_bytes(params: MatmulParams) -> tuple[int, int]:
    """Bytes that a thread copies at once of the As and of the Bs of the fusion, as those are before
    they may be exchanged; 0 where TMA loads them.
    """
    found = params.thread_loads.a, params.thread_loads.b
    return found[::-1] if params.exchange_operands else found


def _copied_bytes(fusion: Fusion, params: MatmulParams) -> tuple[tuple[str, int], ...]:
    """Bytes that a thread copies at once, by the tensor in global memory that threads load."""
    found = _asked(fusion, params, params.thread_loads.a, params.thread_loads.b)
    return tuple((b.tensor, n) for b in fusion.inputs if (n := found.get(b.tensor, 0)))


def _asked_of_tma(fusion: Fusion, params: MatmulParams, a: T, b: T) -> dict[str, T]:
    """:func:`_asked` of the operands that TMA loads."""
    by_threads = dict(_copied_bytes(fusion, params))
    found = _asked(fusion, params, a, b)
    return {n: asked for n, asked in found.items() if n not in by_threads}


def _cache_policies(fusion: Fusion, params: MatmulParams) -> tuple[tuple[str, CachePolicy], ...]:
    """Each policy that is not the default, by the tensor in global memory, inputs first."""
    policies = params.cache_policies
    asked = {x.tensor: policies.d for x in fusion.matrices}
    asked |= _asked_of_tma(fusion, params, policies.a, policies.b)
    names = dict.fromkeys(x.tensor for x in (*fusion.inputs, *fusion.outputs) if x.tensor in asked)
    return tuple((n, asked[n]) for n in names if asked[n] is not CachePolicy.EvictNormal)


def _l2_promotions(
    fusion: Fusion, params: MatmulParams
) -> tuple[tuple[str, TensorMapL2Promotion], ...]:
    """The same of promotions; results are not loaded."""
    promotions = params.l2_promotions
    found = _asked_of_tma(fusion, params, promotions.a, promotions.b)
    names = dict.fromkeys(x.tensor for x in fusion.inputs if x.tensor in found)
    return tuple((n, found[n]) for n in names if found[n] is not TensorMapL2Promotion.B256)


def _smem_swizzles(
    fusion: Fusion, params: MatmulParams
) -> tuple[tuple[str, MmaInputSmemSwizzle], ...]:
    """The same of spans in shared memory."""
    swizzles = params.smem_swizzles
    found = _asked_of_tma(fusion, params, swizzles.a, swizzles.b)
    names = dict.fromkeys(x.tensor for x in fusion.inputs if found.get(x.tensor, _WIDEST).value)
    return tuple((n, found[n]) for n in names)


_WIDEST = MmaInputSmemSwizzle.Widest
