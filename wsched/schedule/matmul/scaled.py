"""Operands whose blocks count times numbers of their own, inside the sum."""

from __future__ import annotations

from collections.abc import Mapping

from wsched.fusion import Fusion, Product
from wsched.fusion.names import blocks_of

__all__ = ["blocks_scaled", "numbers_of_blocks"]


def blocks_scaled(product: Product) -> tuple[int, int] | None:
    """Rows of A and columns of B that a number is for; None where there are none."""
    scales = product.mma.scales
    return None if scales is None else (scales[0].rows, scales[1].rows)


def numbers_of_blocks(fusion: Fusion, extents: Mapping[str, int]) -> dict[str, int]:
    """The extents of a fusion that count blocks along others, rounded up, by their names."""
    names = {name: blocks_of(name) for b in fusion.inputs for name in b.axes}
    return {name: -(-extents[of[0]] // of[1]) for name, of in names.items() if of is not None}
