"""Tensors of the caller's that stand side by side in one tensor of a fusion: where each begins.

A kernel takes the sum of their extents for one extent, in which each is rounded up to whole tiles:
so no box of the schedule has a part of two of them, and what lies behind the end of one is behind
the end of its tensor map, where a copy reads zeros and writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import lcm, prod

from lowering.ground.expr import Const, Expr, Var, ceildiv
from wsched.fusion import (
    BOX,
    Fusion,
    LoadStoreOp,
    MemoryType,
    TensorView,
    roots,
)

__all__ = ["ends", "entry_step", "listed", "with_sums"]


def entry_step(fusion: Fusion, axis: str) -> int:
    """What the extents along an axis are rounded up to: the least that all boxes of lists divide.

    A box that is loaded with several loops along the axis is as many boxes, of the innermost one.
    Of a fusion without a schedule 1.
    """
    sizes = [1]
    for t in fusion.tensors:
        if axis not in listed(fusion, t):
            continue
        for d in (d for d in t.logical if str(d.extent) == axis):
            boxed = (x for x in t.loop if x.parallel in BOX)
            loops = [x.extent for x in boxed if d.id in {r.id for r in roots(t, x)}]
            loops = loops[-1:] if t.memory is MemoryType.Shared else loops
            sizes.append(prod(x.value for x in loops if isinstance(x, Const)))
    return lcm(*sizes)


def listed(fusion: Fusion, t: TensorView) -> set[str]:
    """Axes of the lists that a tensor is, or is copied from."""
    e, names = fusion.definition(t.name), [t.name]
    if isinstance(e, LoadStoreOp) and fusion.tensor(e.input).memory is MemoryType.Global:
        names.append(fusion.source(e.input).name)
    bound = (b for name in names for b in fusion.entries(name))
    return {b.entry.axis for b in bound if b.entry is not None}


def ends(fusion: Fusion, axis: str) -> tuple[Expr, ...]:
    """Where each of a list along an axis ends and the next one begins."""
    step, end = entry_step(fusion, axis), list[Expr]()
    for name in fusion.lists[axis]:
        size = ceildiv(Var(name), step) * step if step > 1 else Var(name)
        end.append(end[-1] + size if end else size)
    return tuple(end)


def with_sums(fusion: Fusion, extents: Mapping[str, int]) -> dict[str, int]:
    """Extents by their names, with those that are sums of others.

    Args:
        fusion: with a schedule or without.
        extents: all others; of a list those of its entries.
    """
    found = dict(extents)
    for axis, names in fusion.lists.items():
        step = entry_step(fusion, axis)
        found[axis] = sum(-(-extents[n] // step) * step for n in names)
    return found
