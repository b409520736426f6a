"""Fetch the descriptors of all TMA copies before the first of them needs one.

Requires: the copies of the final kernel.
Guarantees: the first thing that the kernel does is one ``prefetch.tensormap`` for each tensor map
that is a kernel parameter, of an array for each entry, by one thread of warp 1, at the same time
as warp 0 initializes the mbarriers. A parameter needs no wait for earlier grids; a descriptor in
device memory would, so its first copy fetches it.

After every pass that adds copies, before ``simplify``.
"""

from __future__ import annotations

from dataclasses import replace

from lowering.ground.expr import Const
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import MapRef, PrefetchTensorMap, one_thread
from lowering.kernel.tensors import TensorMap
from passes.options import LoweringOptions

__all__ = ["prefetch_tensor_maps"]


def prefetch_tensor_maps(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """One ``prefetch.tensormap`` for each tensor map, in front of everything.

    before::

        on %warp 0 { elect { mbarrier.init ... } }

    after::

        on %warp 1 { elect { prefetch.tensormap A  prefetch.tensormap B  prefetch.tensormap D } }
        on %warp 0 { elect { mbarrier.init ... } }
    """
    maps = (m for m in kernel.tensor_maps if not m.device)
    prefetch = tuple(PrefetchTensorMap(ref) for m in maps for ref in _entries(m))
    if not prefetch:
        return kernel
    return replace(kernel, body=(one_thread(*prefetch, index=1), *kernel.body))


def _entries(m: TensorMap) -> tuple[MapRef, ...]:
    """The one descriptor of a parameter, or all of an array's, whose number is a constant."""
    if not isinstance(m.count, Const):
        return (MapRef(m.name),)
    return tuple(MapRef(m.name, Const(i)) for i in range(m.count.value))
