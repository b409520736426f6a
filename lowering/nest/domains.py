"""Where the loops of a tensor come from."""

from __future__ import annotations

from wsched.fusion import IterDomain, IterType, TensorView, roots

__all__ = ["repeats", "summed"]


def repeats(d: IterDomain) -> bool:
    """Whether a dimension has the same value at all indices."""
    return d.iter_type is IterType.Broadcast


def summed(t: TensorView, d: IterDomain) -> bool:
    """Whether a loop of ``t`` runs over nothing but what it sums over."""
    return all(r.iter_type is IterType.Reduction for r in roots(t, d))
