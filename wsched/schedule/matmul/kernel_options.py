"""What the matmul scheduler's parameters say beside loops."""

from __future__ import annotations

from wsched.fusion import Fusion, the_products
from wsched.schedule.matmul.params import CachePolicies, L2Promotions, MatmulParams
from wsched.schedule.options import CachePolicy, KernelOptions, TensorMapL2Promotion

__all__ = ["kernel_options"]


def kernel_options(fusion: Fusion, params: MatmulParams) -> KernelOptions:
    """The options of a kernel; what else the parameters say is in the schedule."""
    return KernelOptions(
        epilogue_stages=params.epilogue_stages,
        programmatic_dependent_launch=params.programmatic_dependent_launch,
        cache_policies=_cache_policies(fusion, params.cache_policies),
        l2_promotions=_l2_promotions(fusion, params.l2_promotions),
        vector=params.supported_vec_size.epilogue,
    )


def _cache_policies(fusion: Fusion, policies: CachePolicies) -> tuple[tuple[str, CachePolicy], ...]:
    """Each policy that is not the default, by the tensor in global memory, inputs first."""
    asked = {b.tensor: policies.d for b in fusion.matrices}
    made = the_products(fusion)
    asked |= {p.b.name: policies.b for p in made} | {p.a.name: policies.a for p in made}
    names = [b.tensor for b in (*fusion.inputs, *fusion.outputs) if b.tensor in asked]
    return tuple((n, asked[n]) for n in names if asked[n] is not CachePolicy.EvictNormal)


def _l2_promotions(
    fusion: Fusion, asked: L2Promotions
) -> tuple[tuple[str, TensorMapL2Promotion], ...]:
    """The same of promotions; results are not loaded."""
    made = the_products(fusion)
    found = {p.b.name: asked.b for p in made} | {p.a.name: asked.a for p in made}
    names = [b.tensor for b in fusion.inputs if b.tensor in found]
    return tuple((n, found[n]) for n in names if found[n] is not TensorMapL2Promotion.B256)
