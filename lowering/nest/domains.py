"""Where the loops of a tensor come from."""

from __future__ import annotations

from wsched.fusion import IterDomain, IterType, TensorView

__all__ = ["repeats", "roots", "summed"]


def roots(t: TensorView, d: IterDomain) -> list[IterDomain]:
    """The logical dimensions of ``t`` that a loop domain was made from."""
    if d.id in {x.id for x in t.logical}:
        return [d]
    for transform in t.transforms:
        if d.id in {o.id for o in transform.outputs}:
            return [r for i in transform.inputs for r in roots(t, i)]
    return [d]


def repeats(d: IterDomain) -> bool:
    """Whether a dimension has the same value at all indices."""
    return d.iter_type is IterType.Broadcast


def summed(t: TensorView, d: IterDomain) -> bool:
    """Whether a loop of ``t`` runs over nothing but what it sums over."""
    return all(r.iter_type is IterType.Reduction for r in roots(t, d))
