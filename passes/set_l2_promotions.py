"""Tell the L2 how much to fetch from memory where a copy misses it.

Requires: nothing; a promotion is part of a tensor map, not of a copy.
Guarantees: every tensor map that the options name has its promotion.

After ``set_cache_policies``, the other thing that copies say to the L2.
"""

from __future__ import annotations

from dataclasses import replace

from lowering.ground.errors import ScheduleError
from lowering.kernel.kernel import Kernel
from passes.options import LoweringOptions

__all__ = ["set_l2_promotions"]


def set_l2_promotions(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """The options' promotions in the tensor maps.

    before, with A promoted to 128 bytes::

        tensormap A: bf16[M, K] box 128x64 swizzle 128

    after::

        tensormap A: bf16[M, K] box 128x64 swizzle 128 promotion 128

    Raises:
        ScheduleError: a promotion for a tensor that no TMA copies.
    """
    asked = dict(options.l2_promotions)
    if not asked:
        return kernel
    there = tuple(m.name for m in kernel.tensor_maps)
    for name in sorted(asked.keys() - set(there)):
        wrote = f"l2_promotions: {name} {asked[name]}"
        raise ScheduleError("l2-promotion", wrote, f"no TMA copies {name}", there)
    maps = (replace(m, promotion=asked.get(m.name, m.promotion)) for m in kernel.tensor_maps)
    return kernel.redeclare(*maps)
