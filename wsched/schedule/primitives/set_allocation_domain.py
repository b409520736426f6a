"""The primitive ``set_allocation_domain``."""

from __future__ import annotations

from dataclasses import replace

from wsched.fusion import Fusion, PrimitiveCall, TensorView, value_text
from wsched.schedule.primitives.checks import Reasons, find, refuse

__all__ = ["check_set_allocation_domain", "set_allocation_domain"]


def set_allocation_domain(fusion: Fusion, tv: str, order: tuple[int, ...]) -> Fusion:
    """Say in which order the dimensions of an operand lie in memory.

    Args:
        fusion: the fusion.
        tv: name of an input that the mma reads.
        order: positions of all its dimensions, the contiguous one last; ``(1, 0)`` of A [M, K] is
            M-major.

    Legal for operands that are inputs: they are the caller's, all else is the kernel's to lay out.

    before: ``T0_g___bfloat[ M, K ]``
    after ``set_allocation_domain(fusion, "T0", (1, 0))``: the same with allocation ``K, M``
    """
    call = PrimitiveCall("set_allocation_domain", (tv, order))
    t = find(fusion, tv, call)
    refuse("allocation", call, check_set_allocation_domain(fusion, t, order), t)
    allocation = tuple(t.logical[p] for p in order)
    new = replace(t, allocation=() if allocation == t.logical else allocation)
    return fusion.updated((new,), call=call)


def check_set_allocation_domain(fusion: Fusion, t: TensorView, order: tuple[int, ...]) -> Reasons:
    """All reasons why ``set_allocation_domain`` would be illegal."""
    reasons: Reasons = []
    if t.name not in fusion.operands:
        names = ", ".join(fusion.operands)
        reasons.append(f"{t.name} is no operand in global memory, those are {names}")
    if sorted(order, key=value_text) != list(range(len(t.logical))):
        last = len(t.logical) - 1
        reasons.append(
            f"{value_text(order)} does not name each dimension of {t.name}, 0 to {last}, once"
        )
    return reasons
