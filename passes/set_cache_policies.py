"""Tell the L2 which copies' lines it should evict first, and which last.

Requires: the copies of the final kernel.
Guarantees: every ``tma.load`` and ``tma.store`` through a tensor map that the options name carries
its policy.

After ``swizzle_shared`` and ``chunk_epilogue``, which make the copies.
"""

from __future__ import annotations

from dataclasses import replace

from lowering.ground.errors import ScheduleError
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import Body, Stmt, TmaLoad, TmaStore
from lowering.kernel.visit import rewrite
from passes.options import LoweringOptions

__all__ = ["set_cache_policies"]


def set_cache_policies(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """The options' policies at the copies.

    before, with A as ``evict_first``::

        tma.load A_s[0, 0, 0], A[row, k], bar=full[0]

    after::

        tma.load A_s[0, 0, 0], A[row, k], bar=full[0], cache=evict_first

    Raises:
        ScheduleError: a policy for a tensor that no TMA copies.
    """
    policies = dict(options.cache_policies)
    if not policies:
        return kernel
    there = tuple(m.name for m in kernel.tensor_maps)
    for name in sorted(policies.keys() - set(there)):
        wrote = f"cache_policies: {name} {policies[name]}"
        raise ScheduleError("cache-policy", wrote, f"no TMA copies {name}", there)

    def one(stmt: Stmt) -> Body | None:
        match stmt:
            case TmaLoad(src=ref) | TmaStore(dst=ref) if ref.map in policies:
                return (replace(stmt, cache=policies[ref.map]),)
        return None

    return replace(kernel, body=rewrite(kernel.body, one))
