"""What the passes are told, from a schedule's parameters."""

from __future__ import annotations

from passes.options import LoweringOptions
from wsched.fusion import Fusion
from wsched.schedule.matmul.params import CachePolicies, CachePolicy, MatmulParams

__all__ = ["lowering_options"]


def lowering_options(fusion: Fusion, params: MatmulParams) -> LoweringOptions:
    """The options of the passes; what else the parameters say is in the schedule."""
    return LoweringOptions(
        store_buffers=params.epilogue_stages,
        programmatic_dependent_launch=params.programmatic_dependent_launch,
        cache_policies=_cache_policies(fusion, params.cache_policies),
    )


def _cache_policies(fusion: Fusion, policies: CachePolicies) -> tuple[tuple[str, str], ...]:
    """(tensor, PTX's word) for each policy that is not the default."""
    words = {CachePolicy.EvictFirst: "evict_first", CachePolicy.EvictLast: "evict_last"}
    asked = {b.tensor: policies.d for b in fusion.outputs}
    asked[fusion.source(fusion.mma.b).name] = policies.b
    asked[fusion.source(fusion.mma.a).name] = policies.a
    return tuple((name, words[policy]) for name, policy in asked.items() if policy in words)
