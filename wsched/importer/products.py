"""Products that say that they are not rounded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from lowering.ground.errors import UnsupportedError
from wsched.fusion import DataType
from wsched.importer.definition import Node, Value, text_of

__all__ = ["UNROUNDED", "unrounded", "wide_product"]

UNROUNDED: Mapping[str, Value] = MappingProxyType({"dtype": DataType.Float})
"""An argument of products, wsched's own but for ``grouped_mm``: the result is the fp32 accumulator,
with the bias, as it is.
"""


def wide_product(product: Node) -> bool:
    """Whether the result of a product is in fp32 as it was summed, whatever was multiplied.

    Raises:
        UnsupportedError: it says another type.
    """
    said = product.get("dtype")
    if said not in (None, DataType.Float):
        what = f"fd.ops.{product.op} with dtype={text_of(said)}"
        raise UnsupportedError(what, "Float, or no dtype: that of the operands")
    return said is not None


def unrounded(product: Node) -> Node:
    """The same product in fp32, as it was summed."""
    if wide_product(product):
        return product
    return replace(product, kwargs=(*product.kwargs, *UNROUNDED.items()))
