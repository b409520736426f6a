"""Counters and coordinates of a kernel have 32 bits: is a problem small enough for them?"""

from __future__ import annotations

from collections.abc import Mapping

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import I32_MAX, evaluate
from lowering.kernel.kernel import Kernel
from lowering.proof.admitted import FIRST_CTA, Admitted
from wsched.schedule import Plan

__all__ = [
    "LARGEST",
    "admitted_by",
    "admitted_of",
    "ctas_of",
    "require_countable",
    "require_extents",
]

LARGEST = I32_MAX - 2**24
"""Largest size and number of a launch: what a kernel adds to one, such as a tile that begins behind
the end, the CTAs along x or a group of rows of tiles, stays within 32 bits (``lowering.proof``)."""


def admitted_by(plan: Plan) -> Admitted:
    """What launches of a plan's kernel have in common.

    Args:
        plan: of the kernel.
    """
    grid = () if plan.grid is None else (plan.grid,)
    return Admitted((*plan.counts, *plan.numbers, *grid), LARGEST)


def admitted_of(kernel: Kernel) -> Admitted:
    """What launches of a kernel without a plan have in common: :func:`ctas_of` is asked first.

    Args:
        kernel: of a sweep, a summary or a copy of rows.
    """
    return Admitted((kernel.grid, kernel.grid_y), LARGEST)


def ctas_of(kernel: Kernel, extents: Mapping[str, int]) -> int:
    """CTAs along x of a launch of a kernel without a plan.

    Args:
        kernel: of a sweep, a summary or a copy of rows.
        extents: sizes by name.

    Raises:
        UnsupportedError: a size, or how many CTAs there would be, is above :data:`LARGEST`.
    """
    require_extents(extents)
    grid = evaluate(kernel.grid, extents)
    if (most := max(grid, evaluate(kernel.grid_y, extents))) > LARGEST:
        raise UnsupportedError(f"a grid of {most} CTAs", f"at most {LARGEST}")
    return grid


def require_extents(extents: Mapping[str, int]) -> None:
    """Refuse sizes that a coordinate does not reach.

    Tensors may have any number of elements: TMA takes a coordinate of each dimension, and threads
    multiply coordinates by strides of 64 bits.

    Args:
        extents: sizes by name.

    Raises:
        UnsupportedError: the first that is too large.
    """
    for name, size in extents.items():
        if size > LARGEST:
            raise UnsupportedError(f"{name} = {size}", f"sizes of at most {LARGEST}")


def require_countable(plan: Plan, extents: Mapping[str, int], grid: int) -> None:
    """Refuse a launch whose CTAs would count more steps than fit into 32 bits, or compute a number
    of factors and extents that does not, or be more than a grid has.

    Args:
        plan: of the kernel.
        extents: sizes by name.
        grid: CTAs along x.

    Raises:
        UnsupportedError: the number, and how many there may be.
    """
    if not grid:  # an empty result: nothing is launched
        return
    values = {**extents, **FIRST_CTA, "%nctaid.x": grid}
    steps = max(evaluate(e, values) for e in plan.counts)
    sizes = " x ".join(str(n) for n in extents.values())
    if steps > LARGEST:
        raise UnsupportedError(
            f"{sizes} on {grid} CTAs, one of which counts {steps} steps,",
            f"at most {LARGEST}",
            "Take larger tiles, or more CTAs where each has tiles of its own",
        )
    for e in (*plan.numbers, *([] if plan.grid is None else [plan.grid])):
        if (number := evaluate(e, values)) > LARGEST:
            raise UnsupportedError(
                f"{sizes} on {grid} CTAs, where {e} is {number},",
                f"at most {LARGEST}",
                "Take smaller factors, or larger tiles",
            )
