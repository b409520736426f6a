"""Products that say that they are not rounded."""

from __future__ import annotations

from lowering.ground.errors import UnsupportedError
from wsched.fusion import DataType
from wsched.importer.definition import Node, Value, text_of

__all__ = ["UNROUNDED", "wide_product"]

UNROUNDED: tuple[str, Value] = ("dtype", DataType.Float)
"""An argument of products, wsched's own but for ``grouped_mm``: the result is the fp32 accumulator,
with the bias, as it is.
"""


def wide_product(product: Node) -> bool:
    """Whether the result of a product is in fp32 as it was summed, whatever was multiplied.

    Raises:
        UnsupportedError: it says another type.
    """
    said = product.get(UNROUNDED[0])
    if said not in (None, UNROUNDED[1]):
        what = f"fd.ops.{product.op} with dtype={text_of(said)}"
        raise UnsupportedError(what, "Float, or no dtype: that of the operands")
    return said is not None
