"""An operand that is computed between its load and the product: by the threads that multiply, in
the registers from which wgmma reads its A.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal

from lowering.ground.errors import UnsupportedError
from lowering.ground.pairs import OPERATIONS, PAIRED, bits_of, has_all
from wsched.fusion import CastOp, DataType, Fusion, PointwiseOp, Product, prologue

__all__ = ["Computed", "element_bytes"]

LOAD_WORK, WORK = 1.0, 1.0
"""Instructions of a thread for an element: to load it, and for any operation beside those below."""

NARROW_WORK = {DataType.UInt4: 1.25, DataType.Int8: 1.15, DataType.UInt8: 0.65}
FLOAT_WORK = 1.5
"""To widen it: integers, of which bytes with a sign take one more for two of them, and floats of
8 bits. Fitted with the law of :mod:`wsched.choose.computed`; bytes when they took half an
instruction and one and a half more, which are counted off."""

SHIFT_WORK, PAIR_WORK = 2.5, 0.5
"""To take a group's zero point from an element of 16 bits, in fp32: to it, and back by pairs; and
an operation on pairs of 16 bits (``passes/pair_arithmetic.py``)."""


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
                scale = (product.mma.scales or (None, None))[side == "b"]
                zero = scale.zero if scale is not None else ""
                work = LOAD_WORK + _work(fusion, made[side])
                if zero:
                    own = fusion.tensor(getattr(product.mma, side)).dtype.element
                    exact = has_all(own, fusion.tensor(zero).dtype.element)
                    work += PAIR_WORK if exact else SHIFT_WORK
                return Computed("a" if side == "a" else "b", source.dtype, work, bool(zero))
        return None


def element_bytes(operand: DataType, computed: Computed | None) -> tuple[float, float]:
    """Bytes of an element of A and of B as they lie in memory and in shared memory; half a one of
    integers of 4 bits.
    """
    if computed is None:
        return operand.bytes, operand.bytes
    found = computed.bytes, operand.bytes
    return found if computed.side == "a" else found[::-1]


def _work(fusion: Fusion, names: Collection[str]) -> float:
    """Of operations that make an element one after another."""
    paired = {name: parts for name in names if (parts := _in_pairs(fusion, name))}
    work, inside = PAIR_WORK * len(paired), {x for parts in paired.values() for x in parts}
    for name in names:
        e = fusion.definition(name)
        if name not in paired and name not in inside:
            given = fusion.tensor(e.input).dtype if isinstance(e, CastOp) else None
            narrow = given is not None and given.element.bits <= 8
            work += NARROW_WORK.get(given, FLOAT_WORK) if given is not None and narrow else WORK
    return work


def _in_pairs(fusion: Fusion, name: str) -> tuple[str, ...]:
    """Of a sum or difference that is rounded, and so one operation on pairs: that, and what only
    widens an argument of it. Nothing of other tensors.
    """
    cast, own = fusion.definition(name), fusion.tensor(name).dtype.element
    wide = fusion.definition(cast.input) if isinstance(cast, CastOp) else None
    if not isinstance(cast, CastOp) or not isinstance(wide, PointwiseOp):
        return ()
    if own not in PAIRED or wide.op not in OPERATIONS:
        return ()
    left = [cast.input]
    for value in wide.inputs:
        if not isinstance(value, str):
            if bits_of(own, value) is None:
                return ()
            continue
        e = fusion.definition(value)
        source = fusion.tensor(e.input if isinstance(e, CastOp) else value).dtype.element
        if not has_all(own, source):
            return ()
        left += [value] if isinstance(e, CastOp) and source is own else []
    return tuple(left)
