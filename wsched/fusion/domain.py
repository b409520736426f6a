"""Iteration domains and the two transforms between them.

A transform relates indices in both directions. ``Split`` is exact or leaves a tail (its outer
extent is rounded up); ``Merge`` is always a bijection, also when it changes the traversal order.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowering.ground.expr import Expr, ceildiv, maximum, minimum, select
from lowering.ground.frozen import quick, replaced
from wsched.fusion.types import IterType, ParallelType

__all__ = [
    "IterDomain",
    "Merge",
    "Split",
    "Transform",
    "merge_index",
    "split_extents",
    "unmerge_index",
]


@quick
@dataclass(frozen=True, slots=True)
class IterDomain:
    """One dimension of a tensor or of its loop nest.

    Args:
        id: unique in its fusion; never reused.
        extent: number of indices. A broadcast domain holds the extent that it is expanded to.
        label: a word for the reader, e.g. ``tile``. A schedule may name a loop by it, where no
            other loop of the tensor has that label.
        iter_type: iteration, reduction or broadcast.
        parallel: what runs its iterations; meaningful for loop domains only.
        rfactor_product: whether its indices count parts of a sum or another reduction, which are
            not put together yet.
    """

    id: int
    extent: Expr
    label: str
    iter_type: IterType = IterType.Iteration
    parallel: ParallelType = ParallelType.Serial
    rfactor_product: bool = False

    def __hash__(self) -> int:
        return self.id

    @property
    def name(self) -> str:
        """Name of the loop variable, ``i12``."""
        return f"i{self.id}"

    def on(self, parallel: ParallelType) -> IterDomain:
        """The same domain run by ``parallel``."""
        return replaced(self, parallel=parallel)

    def __str__(self) -> str:
        extent = f"1 ex {self.extent}" if self.iter_type is IterType.Broadcast else f"{self.extent}"
        rf = "rf" if self.rfactor_product else ""
        return f"{self.iter_type.value}{self.parallel.value}{self.id}{{{extent}}}{rf}"


@quick
@dataclass(frozen=True, slots=True)
class Split:
    """``input = outer * inner.extent + inner``.

    The outer extent is rounded up, or the inner one where ``inner_split`` is false.

    A ``dynamic`` split deals its input's indices out at run time: to each inner index (a CTA) in
    growing order, each to exactly one. The outer index counts what the inner one was given; the
    formula is only the outcome if all ask in turn.
    """

    input: IterDomain
    outer: IterDomain
    inner: IterDomain
    inner_split: bool = True
    dynamic: bool = False

    @property
    def factor(self) -> Expr:
        """The extent that was asked for."""
        return self.inner.extent if self.inner_split else self.outer.extent

    @property
    def inputs(self) -> tuple[IterDomain, ...]:
        """Domains that are consumed."""
        return (self.input,)

    @property
    def outputs(self) -> tuple[IterDomain, ...]:
        """Domains that are made."""
        return (self.outer, self.inner)

    def __str__(self) -> str:
        side = "" if self.inner_split else ", inner_split=False"
        side += ", dynamic" if self.dynamic else ""
        return f"Split: {self.input} by {self.factor}{side} -> {self.outer}, {self.inner}"


@quick
@dataclass(frozen=True, slots=True)
class Merge:
    """Two domains as one of extent ``outer.extent * inner.extent``.

    ``traversal`` 0 is row-major, ``outer * inner.extent + inner``. A positive value G visits
    groups of G outer indices, the outer index running fastest inside a group; the last group is
    narrower where G does not divide, so the order stays a bijection (see :func:`unmerge_index`).
    """

    outer: IterDomain
    inner: IterDomain
    output: IterDomain
    traversal: int = 0

    @property
    def inputs(self) -> tuple[IterDomain, ...]:
        """Domains that are consumed."""
        return (self.outer, self.inner)

    @property
    def outputs(self) -> tuple[IterDomain, ...]:
        """Domains that are made."""
        return (self.output,)

    def __str__(self) -> str:
        order = f", traversal {self.traversal}" if self.traversal else ""
        return f"Merge: {self.outer}, {self.inner}{order} -> {self.output}"


Transform = Split | Merge


def _rows(group: Expr, n_outer: Expr, traversal: int) -> Expr:
    """Outer indices in a group: ``traversal``, fewer in the last group."""
    return minimum(n_outer - group * traversal, traversal)


def merge_index(t: Merge, outer: Expr, inner: Expr) -> Expr:
    """Index in the merged domain of a pair of indices."""
    if not t.traversal:
        return outer * t.inner.extent + inner
    group = outer // t.traversal
    first = group * t.traversal
    rows = _rows(group, t.outer.extent, t.traversal)
    return first * t.inner.extent + inner * rows + (outer - first)


def unmerge_index(t: Merge, flat: Expr) -> tuple[Expr, Expr]:
    """Pair (outer, inner) of an index in the merged domain; the inverse of :func:`merge_index`."""
    n_inner = t.inner.extent
    if not t.traversal:
        return flat // n_inner, flat % n_inner
    area = n_inner * t.traversal
    group, within = flat // area, flat % area
    # One division for full groups, one for the last, both by what is the same for all tiles; where
    # no group is narrower, the second one is not chosen, and must not be by 0.
    full = group < t.outer.extent // t.traversal
    rows = maximum(t.outer.extent % t.traversal, 1)
    row = select(full, within % t.traversal, within % rows)
    return group * t.traversal + row, select(full, within // t.traversal, within // rows)


def split_extents(extent: Expr, factor: Expr, inner_split: bool) -> tuple[Expr, Expr]:
    """Extents (outer, inner) of a split; the one that was not asked for is rounded up."""
    rounded = ceildiv(extent, factor)
    return (rounded, factor) if inner_split else (factor, rounded)
