"""Which values that only the device knows a schedule's loops depend on."""

from __future__ import annotations

from lowering.ground.expr import Var, free_vars
from wsched.fusion import Fusion, Split, Unknown

__all__ = ["used_unknowns"]


def used_unknowns(fusion: Fusion) -> tuple[Unknown, ...]:
    """The unknowns that factors of splits use, as they were declared.

    That each factor is positive within them was asked when the split was made (rule ``factor``).
    """
    factors = {s.factor for t in fusion.tensors for s in t.transforms if isinstance(s, Split)}
    used = {v for e in factors for v in free_vars(e)}
    return tuple(u for u in fusion.unknowns if Var(u.name) in used)
