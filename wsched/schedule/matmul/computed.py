"""An operand that is computed between its load and the product: by the threads that multiply, in
the registers from which wgmma reads its A.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from lowering.ground.errors import UnsupportedError
from wsched.fusion import CastOp, DataType, Fusion, Product, prologue

__all__ = ["Computed", "element_bytes"]

LOAD_WORK, NARROW_WORK, WORK = 1.0, 1.75, 1.0
"""Instructions of a thread for an element: to load it, to widen it from 8 bits, and for any other
operation (counted in machine code)."""
SHIFT_WORK = 2.5
"""To take a group's zero point from an element of 16 bits, in fp32: to it, and back by pairs."""


@dataclass(frozen=True, slots=True)
class Computed:
    """The operand of a product that is computed; the other one is an input as it is.

    Args:
        side: which one, of the product that is computed.
        dtype: its type in memory, and in its ring.
        work: instructions of a thread for an element.
        shifted: whether groups of K have zero points, which are taken away last.
    """

    side: Literal["a", "b"]
    dtype: DataType
    work: float
    shifted: bool = False

    @property
    def bytes(self) -> float:
        """Bytes of an element in memory."""
        element = self.dtype.element
        return element.bits / 8 if element.packed > 1 else element.bytes

    @property
    def exchanged(self) -> Computed:
        """The same of the transposed product."""
        return replace(self, side="b" if self.side == "a" else "a")

    @staticmethod
    def of(fusion: Fusion, product: Product) -> Computed | None:
        """What is computed on an operand; None where both are inputs as they are.

        Raises:
            UnsupportedError: both operands are computed.
        """
        made = {side: prologue(fusion, getattr(product.mma, side)) for side in ("a", "b")}
        if made["a"] and made["b"]:
            what = f"operands {product.mma.a} and {product.mma.b}, which are both computed,"
            raise UnsupportedError(what, "one of them: wgmma takes A alone from registers")
        for side, source in (("a", product.a), ("b", product.b)):
            if made[side]:
                work = LOAD_WORK + sum(_work(fusion, name) for name in made[side])
                scale = (product.mma.scales or (None, None))[side == "b"]
                shifted = scale is not None and bool(scale.zero)
                work += SHIFT_WORK * shifted
                return Computed("a" if side == "a" else "b", source.dtype, work, shifted)
        return None


def element_bytes(operand: DataType, computed: Computed | None) -> tuple[float, float]:
    """Bytes of an element of A and of B as they lie in memory and in shared memory; half a one of
    integers of 4 bits.
    """
    if computed is None:
        return operand.bytes, operand.bytes
    found = computed.bytes, operand.bytes
    return found if computed.side == "a" else found[::-1]


def _work(fusion: Fusion, name: str) -> float:
    e = fusion.definition(name)
    narrow = isinstance(e, CastOp) and fusion.tensor(e.input).dtype.element.bits <= 8
    return NARROW_WORK if narrow else WORK
