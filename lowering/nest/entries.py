"""Tensors of the caller's that stand side by side in one: arrays of them, and which entry.

An index along the axis of a list says which entry it is of, and where in it. The schedule's boxes
lie within one entry each (``wsched/schedule/entries.py``), so the first index of a box decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lowering.ground.expr import ZERO, Const, Expr, Var, select
from lowering.kernel.tensors import ENTRY
from lowering.nest.domains import repeats
from wsched.fusion import Fusion, IterDomain
from wsched.schedule.entries import ends

__all__ = ["axis_of", "entries", "entry_at", "entry_sizes", "labels"]


def axis_of(fusion: Fusion, name: str) -> str:
    """The axis along which the caller's tensors stand side by side in this one; empty if it is
    one tensor.
    """
    bound = fusion.entries(name)
    return "" if not bound or bound[0].entry is None else bound[0].entry.axis


def entries(fusion: Fusion, name: str) -> int | None:
    """Number of tensors of a list; None of a tensor alone."""
    axis = axis_of(fusion, name)
    return len(fusion.lists[axis]) if axis else None


def entry_sizes(fusion: Fusion, name: str, dims: Iterable[IterDomain]) -> Iterator[Expr]:
    """Extents of dimensions of a tensor, of a list by the entry."""
    axis = axis_of(fusion, name)
    for d in dims:
        if str(d.extent) != axis or repeats(d):
            yield d.extent
            continue
        *others, last = enumerate(map(Var, fusion.lists[axis]))
        size: Expr = last[1]
        for at, extent in reversed(others):
            size = select(ENTRY.eq(at), extent, size)
        yield size


def entry_at(fusion: Fusion, axis: str, index: Expr) -> tuple[Expr, Expr]:
    """The entry that an index along the axis of a list is of, and where that begins."""
    *inner, _ = ends(fusion, axis)
    entry, begin = Const(len(inner)), inner[-1] if inner else ZERO
    found: Expr = entry
    for at, end in reversed(tuple(enumerate(inner))):
        found = select(index < end, at, found)
        begin = select(index < end, inner[at - 1] if at else ZERO, begin)
    return found, begin


def labels(fusion: Fusion) -> Iterator[tuple[str, Expr]]:
    """Names of what kernels compute of all lists."""
    for axis, names in fusion.lists.items():
        for name, end in zip(names, ends(fusion, axis), strict=True):
            yield f"end_{name}", end
