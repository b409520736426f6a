"""What extents are called: parameters of a kernel, axes of a binding, sizes on a command line.

An extent is named by its role in the definition's matmul and keeps that name whatever the fusion
makes of it: with the operands exchanged, for a result stored by columns, N is the extent of the
product's rows. What a dimension is to a product of the fusion says
:class:`~wsched.fusion.product.Role`.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["BATCH", "COLS", "EXTENTS", "HEADS", "ROWS", "SUMMED", "in_order"]

BATCH, HEADS, ROWS, COLS, SUMMED = EXTENTS = ("B", "H", "M", "N", "K")
"""Batches have one dimension, B, or two, of which H is the inner one: heads of sequences."""


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Names of extents as they are listed: these in their order, then others by the alphabet."""
    found = set(names)
    return (*(n for n in EXTENTS if n in found), *sorted(found - {*EXTENTS}))
