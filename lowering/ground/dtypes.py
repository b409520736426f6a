"""Data types: the one table of their sizes, and of their names wherever a name is needed.

What a type has no name for is refused with the type's name, so that no part of wsched handles a
type that nobody thought of there.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from lowering.ground.errors import UnsupportedError

__all__ = ["FLOATS_OF_8_BITS", "NUMBERS_OF_8_BITS", "STORED", "DType"]


@dataclass(frozen=True, slots=True)
class _Row:
    """What is known of one type; None where it has no such name.

    Args:
        bits: of an element in memory; None if it lives in registers only.
        numpy: type of NumPy or ml_dtypes.
        torch: type of torch.
        driver: of a tensor map, CUtensorMapDataType without its prefix.
        ptx: operand type of PTX instructions.
        cuda: C++ type of an element in memory; of small floats that of their raw bits.
    """

    bits: int | None
    numpy: str | None = None
    torch: str | None = None
    driver: str | None = None
    ptx: str | None = None
    cuda: str | None = None


class DType(Enum):
    """Element type; the value is its text in the kernel IR.

    ``e4m3`` and ``e5m2`` are OCP's FP8 (e4m3 without infinities); ``tf32`` is fp32 of which the
    tensor core reads 19 bits, to which TMA rounds what it loads (:attr:`rounded_by_tma`). ``bool``
    is a byte in memory, ``pred`` the outcome of a comparison in a register. ``u4`` are integers
    from 0 to 15, two in a byte, the first one in its lower half; so eight of them are a word of
    ``int32``, as torch has them. Their NumPy type and their C++ type are those of a byte.
    """

    _value_: str
    row: _Row

    BF16 = "bf16", _Row(16, "bfloat16", "bfloat16", "BFLOAT16", "bf16", "unsigned short")
    F16 = "f16", _Row(16, "float16", "float16", "FLOAT16", "f16", "unsigned short")
    F32 = "f32", _Row(32, "float32", "float32", "FLOAT32", "f32", "float")
    F64 = "f64", _Row(64, "float64", "float64", "FLOAT64", "f64", "double")
    TF32 = "tf32", _Row(32, "float32", "float32", "TFLOAT32", "tf32", "float")
    E4M3 = "e4m3", _Row(8, "float8_e4m3fn", "float8_e4m3fn", "UINT8", "e4m3", "unsigned char")
    E5M2 = "e5m2", _Row(8, "float8_e5m2", "float8_e5m2", "UINT8", "e5m2", "unsigned char")
    S8 = "s8", _Row(8, "int8", "int8", "UINT8", "s8", "signed char")
    U8 = "u8", _Row(8, "uint8", "uint8", "UINT8", "u8", "unsigned char")
    S32 = "s32", _Row(32, "int32", "int32", "INT32", "s32", "int")
    U4 = "u4", _Row(4, "uint8", "int32", "UINT8", "u4", "unsigned char")
    S64 = "s64", _Row(64, "int64", "int64", "INT64", "s64", "long long")
    BOOL = "bool", _Row(8, "bool", "bool", "UINT8", None, "unsigned char")
    PRED = "pred", _Row(None)

    def __new__(cls, text: str, row: _Row) -> DType:
        """A member whose value is ``text`` alone."""
        member = object.__new__(cls)
        member._value_, member.row = text, row
        return member

    @property
    def bits(self) -> int:
        """Size of one element in memory.

        Raises:
            UnsupportedError: it lives in registers only.
        """
        if self.row.bits is None:
            raise self._unknown("bits", "in memory")
        return self.row.bits

    @cached_property
    def bytes(self) -> int:
        """Size of one element in memory.

        Raises:
            UnsupportedError: it lives in registers only.
        """
        if self.packed > 1:
            raise UnsupportedError(f"bytes of one element of {self.value}", "those of several")
        return self.bits // 8

    @property
    def packed(self) -> int:
        """Elements in a byte; 1 where an element has bytes of its own."""
        return max(8 // self.bits, 1)

    def size(self, count: int) -> int:
        """Bytes of so many elements."""
        return count * self.bits // 8

    def count(self, size: int) -> int:
        """Elements in so many bytes."""
        return size * 8 // self.bits

    @property
    def stored(self) -> DType:
        """What its elements are in memory to whoever else reads them: of ``tf32`` that is fp32."""
        return next(d for d in DType if d.row.torch == self.row.torch)

    @property
    def rounded_by_tma(self) -> bool:
        """Whether TMA rounds elements that it loads, to nearest even, to the bits that are read of
        them. Nothing else does, so what threads load would be cut off instead
        (design/0030-eight-bits.md has the measurement).
        """
        return self is DType.TF32

    @property
    def register_bits(self) -> int:
        """Bits that an element takes of a thread's registers; a predicate takes a whole one."""
        return self.row.bits or 32

    @property
    def register(self) -> DType:
        """What an element in memory is in a register."""
        return DType.PRED if self is DType.BOOL else self

    @property
    def numpy(self) -> str:
        """Name of its NumPy type, for some one of ml_dtypes; UnsupportedError if it has none."""
        return self._name("numpy", "in NumPy")

    @property
    def raw(self) -> str:
        """Name of the NumPy type of its raw bits.

        Raises:
            UnsupportedError: it lives in registers only.
        """
        return f"uint{max(self.bits, 8)}"

    @property
    def torch(self) -> str:
        """Name of its torch type; UnsupportedError if it has none."""
        return self._name("torch", "in torch")

    @property
    def driver(self) -> str:
        """Its CUtensorMapDataType without the prefix; UnsupportedError if TMA does not know it."""
        return self._name("driver", "in a tensor map")

    @property
    def ptx(self) -> str:
        """Its name as an operand of PTX instructions; UnsupportedError if it has none."""
        return self._name("ptx", "as an operand in PTX")

    @property
    def cuda(self) -> str:
        """C++ type of an element in memory, of its bits where C++ has no such type.

        Raises:
            UnsupportedError: it lives in registers only.
        """
        return self._name("cuda", "in memory")

    def _name(self, column: str, where: str) -> str:
        found = getattr(self.row, column)
        if found is None:
            raise self._unknown(column, where)
        return str(found)

    def _unknown(self, column: str, where: str) -> UnsupportedError:
        known = (d.value for d in DType if getattr(d.row, column) is not None)
        return UnsupportedError(f"dtype {self.value} {where}", ", ".join(known))


STORED = tuple(d for d in DType if d.row.bits is not None)
"""Types of elements in memory."""

FLOATS_OF_8_BITS = (DType.E4M3, DType.E5M2)
"""What is rounded to one is at most its largest number (PTX's ``satfinite``), unless it is NaN."""

NUMBERS_OF_8_BITS = (*FLOATS_OF_8_BITS, DType.S8, DType.U8)
"""All of whose values fp32 has, and bf16: at most 8 significant bits."""
