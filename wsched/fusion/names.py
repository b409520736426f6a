"""What extents are called: parameters of a kernel, axes of a binding, sizes on a command line.

An extent is named by its role in the definition's matmul and keeps that name whatever the fusion
makes of it: with the operands exchanged, for a result stored by columns, N is the extent of the
product's rows. What a dimension is to a product of the fusion says
:class:`~wsched.fusion.product.Role`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = [
    "BATCH", "COLS", "EXTENTS", "HEADS", "ROWS", "SUMMED", "TOKENS", "blocks_of", "in_blocks",
    "in_order",
]  # fmt: skip

BATCH, HEADS, ROWS, COLS, SUMMED = EXTENTS = ("B", "H", "M", "N", "K")
"""Batches have one dimension, B, or two, of which H is the inner one: heads of sequences."""

TOKENS = "T"
"""Rows of a tensor that rows of a result are added to, by an index: tokens that experts' are."""


_BLOCKS = re.compile(r"([A-Z])_(\d+)")


def in_blocks(axis: str, size: int) -> str:
    """What the number of blocks of so many along an axis is called: ``K_128``, rounded up."""
    return axis if size == 1 else f"{axis}_{size}"


def blocks_of(name: str) -> tuple[str, int] | None:
    """The axis and the size of the blocks that an extent counts; None of any other."""
    found = _BLOCKS.fullmatch(name)
    return None if found is None else (found[1], int(found[2]))


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Names of extents as they are listed: these in their order, then others by the alphabet."""
    found = set(names)
    return (*(n for n in EXTENTS if n in found), *sorted(found - {*EXTENTS}))
