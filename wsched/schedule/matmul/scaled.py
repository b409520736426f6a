"""Operands whose blocks count times numbers of their own, inside the sum."""

from __future__ import annotations

from collections.abc import Mapping

from wsched.fusion import Fusion, Product, Scale
from wsched.fusion.names import blocks_of

__all__ = ["blocks_scaled", "numbers_of_blocks"]


def blocks_scaled(product: Product) -> tuple[int, int] | None:
    """Rows of A and columns of B that a number is for, 0 of one that has none; None where there are
    none.
    """
    scales = product.mma.scales
    return None if scales is None else (_rows(scales[0]), _rows(scales[1]))


def _rows(scale: Scale | None) -> int:
    return 0 if scale is None else scale.rows


def numbers_of_blocks(fusion: Fusion, extents: Mapping[str, int]) -> dict[str, int]:
    """The extents of a fusion that count blocks along others, rounded up, by their names."""
    names = {name: blocks_of(name) for b in fusion.inputs for name in b.axes}
    return {name: -(-extents[of[0]] // of[1]) for name, of in names.items() if of is not None}
