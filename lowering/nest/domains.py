"""Where the loops of a tensor come from."""

from __future__ import annotations

from wsched.fusion import IterDomain, TensorView

__all__ = ["origins", "roots"]


def roots(t: TensorView, d: IterDomain) -> list[IterDomain]:
    """The logical dimensions of ``t`` that a loop domain was made from."""
    for transform in t.transforms:
        if d.id in {o.id for o in transform.outputs}:
            return [r for i in transform.inputs for r in roots(t, i)]
    return [d]


def origins(t: TensorView, d: IterDomain) -> set[int]:
    """Their ids."""
    return {r.id for r in roots(t, d)}
