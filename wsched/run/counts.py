"""Counters of a kernel have 32 bits: is a problem small enough for them?"""

from __future__ import annotations

from collections.abc import Mapping

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import evaluate
from wsched.schedule import Plan

__all__ = ["LARGEST", "require_countable"]

LARGEST = 2**31 - 1
"""Largest number that a kernel counts to."""


def require_countable(plan: Plan, extents: Mapping[str, int], grid: int) -> None:
    """Refuse a launch whose CTAs would count more steps than fit into 32 bits.

    Args:
        plan: of the kernel.
        extents: sizes by name.
        grid: CTAs along x.

    Raises:
        UnsupportedError: the number of steps, and how many there may be.
    """
    values = {**extents, "%nctaid.x": grid, "%ctaid.x": 0, "%ctaid.y": 0}
    steps = max(evaluate(e, values) for e in plan.counts)
    if steps > LARGEST:
        sizes = " x ".join(str(n) for n in extents.values())
        raise UnsupportedError(
            f"{sizes} on {grid} CTAs, one of which counts {steps} steps,",
            f"at most {LARGEST}",
            "Take larger tiles, or more CTAs where each has tiles of its own",
        )
