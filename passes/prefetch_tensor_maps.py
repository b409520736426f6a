"""Fetch the descriptors of all TMA copies before the first of them needs one.

Requires: the copies of the final kernel.
Guarantees: the first thing that the kernel does is one ``prefetch.tensormap`` for each tensor map,
by one thread of warp 1, at the same time as warp 0 initializes the mbarriers. A descriptor is a
kernel parameter, so this needs no wait for earlier grids.

After every pass that adds copies, before ``simplify``.
"""

from __future__ import annotations

from dataclasses import replace

from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import PrefetchTensorMap, one_thread
from passes.options import LoweringOptions

__all__ = ["prefetch_tensor_maps"]


def prefetch_tensor_maps(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """One ``prefetch.tensormap`` for each tensor map, in front of everything.

    before::

        if %warp == 0 { elect { mbarrier.init ... } }

    after::

        if %warp == 1 { elect { prefetch.tensormap A  prefetch.tensormap B  prefetch.tensormap D } }
        if %warp == 0 { elect { mbarrier.init ... } }
    """
    if not kernel.tensor_maps:
        return kernel
    prefetch = tuple(PrefetchTensorMap(m.name) for m in kernel.tensor_maps)
    return replace(kernel, body=(one_thread(*prefetch, index=1), *kernel.body))
