"""Give every named barrier its hardware id.

Requires: all named barriers exist.
Guarantees: each array has a run of ids to itself, apart from id 0, the CTA's own barrier. Arrays
that have ids keep them; the others get the lowest that are free, in the order of their declaration.

After ``order_pingpong``, ``synchronize_partials`` and ``chunk_epilogue``, which add named barriers.
"""

from __future__ import annotations

from dataclasses import replace

from lowering.ground.errors import UnsupportedError
from lowering.kernel.kernel import Kernel, NamedBarrierArray
from passes.options import LoweringOptions

__all__ = ["allocate_named_barriers"]


def allocate_named_barriers(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """Assign hardware ids.

    before::

        named_barrier order[2] threads 256
        named_barrier D_store[2] threads 128

    after::

        named_barrier order[2] id 1 threads 256
        named_barrier D_store[2] id 3 threads 128

    Raises:
        UnsupportedError: the kernel wants more barriers than there are.
    """
    arrays = kernel.named_barriers
    taken = {0} | {i for a in arrays if a.base is not None for i in range(a.base, a.base + a.count)}
    placed = []
    for array in arrays:
        if array.base is None:
            base = _free(array.count, taken, kernel.target.named_barriers)
            if base is None:
                raise _refused(arrays, kernel.target.named_barriers)
            array = replace(array, base=base)
            taken |= set(range(base, base + array.count))
        placed.append(array)
    return kernel.redeclare(*placed)


def _free(count: int, taken: set[int], limit: int) -> int | None:
    """The first of ``count`` neighbouring ids below ``limit`` that nobody has, if there are."""
    starts = range(limit - count + 1)
    return next((s for s in starts if taken.isdisjoint(range(s, s + count))), None)


def _refused(arrays: tuple[NamedBarrierArray, ...], limit: int) -> UnsupportedError:
    wanted = sum(a.count for a in arrays)
    return UnsupportedError(
        f"{wanted} named barriers ({', '.join(f'{a.name}[{a.count}]' for a in arrays)})",
        f"at most {limit - 1} beside the CTA's own: fewer warpgroups, or fewer that meet",
    )
