"""Words of the fusion language, spelled as in nvFuser."""

from __future__ import annotations

from enum import Enum
from functools import cached_property

from lowering.ground.dtypes import DType
from lowering.ground.errors import UnsupportedError

__all__ = [
    "BOX",
    "DataType",
    "IterType",
    "LoadStoreOpType",
    "MemoryType",
    "ParallelType",
    "type_of",
]


class _Named(Enum):
    """An enum that prints as the Python that names it, so that a history can be replayed."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __str__(self) -> str:
        return self.name


class DataType(_Named):
    """Element type; the value is (text in a tensor's name, the same type in memory).

    All of nvFuser's have a name, so that any definition can be read; those without a type in memory
    are not computed with. Four are wsched's own: ``Int8``, ``UInt8`` and ``UInt4``, since nvFuser
    has no integers of 8 bits or 4 (a tensor of those is one of ``int32`` in torch, eight in each
    word, the first one in its lowest bits), and ``TF32``: elements of fp32 in memory, which a
    matmul reads rounded to 19 bits.
    """

    BFloat16 = ("__bfloat", DType.BF16)
    Half = ("__half", DType.F16)
    Float = ("float", DType.F32)
    Double = ("double", DType.F64)
    Float8_e4m3fn = ("__e4m3", DType.E4M3)
    Float8_e5m2 = ("__e5m2", DType.E5M2)
    Int = ("int64_t", DType.S64)
    Int32 = ("int", DType.S32)
    Int8 = ("int8_t", DType.S8)
    UInt8 = ("uint8_t", DType.U8)
    UInt4 = ("uint4_t", DType.U4)
    TF32 = ("tf32", DType.TF32)
    Index = ("nvfuser_index_t", DType.S64)
    Bool = ("bool", DType.BOOL)
    Float8_e8m0fnu = ("__e8m0", None)
    Float4_e2m1fn = ("__e2m1", None)
    Float4_e2m1fn_x2 = ("__e2m1x2", None)  # in no tensor's name: nvFuser takes pairs apart
    UInt64 = ("uint64_t", None)
    ComplexFloat = ("std::complex<float>", None)
    ComplexDouble = ("std::complex<double>", None)

    @property
    def text(self) -> str:
        """The type as nvFuser writes it in a tensor, e.g. ``__bfloat``."""
        return str(self.value[0])

    @property
    def is_stored(self) -> bool:
        """Whether wsched knows how its elements lie in memory."""
        return self.value[1] is not None

    @property
    def made(self) -> DataType:
        """What a linear or matmul of such operands makes, unless they are integers; of ``TF32`` the
        type in memory.
        """
        return DataType.Float if self is DataType.TF32 else self

    @cached_property
    def element(self) -> DType:
        """The type of its elements in memory, which knows their size and their other names.

        Raises:
            UnsupportedError: wsched has none for it.
        """
        found: DType | None = self.value[1]
        if found is None:
            names = ", ".join(d.name for d in DataType if d.is_stored)
            raise UnsupportedError(f"a tensor of DataType.{self.name}", names)
        return found

    @property
    def is_in_torch(self) -> bool:
        """Whether torch has it."""
        return self.is_stored or self.name in _IN_TORCH

    @property
    def torch(self) -> str:
        """Name of its type in torch, of one that wsched has no elements of, too.

        Raises:
            UnsupportedError: torch has none.
        """
        return _IN_TORCH.get(self.name) or self.element.torch

    @cached_property
    def bytes(self) -> int:
        """Bytes of one element in memory; UnsupportedError as of ``element``."""
        return self.element.bytes


_IN_TORCH = {
    "ComplexDouble": "complex128", "ComplexFloat": "complex64", "Float4_e2m1fn_x2":
    "float4_e2m1fn_x2", "Float8_e8m0fnu": "float8_e8m0fnu", "UInt64": "uint64",
}  # fmt: skip
"""Types of tensors that go through wsched to nvFuser or torch."""


def type_of(element: DType) -> DataType:
    """The type whose elements are of this one.

    Raises:
        UnsupportedError: there is none.
    """
    found = (d for d in DataType if d.is_stored and d.element is element)
    first = next(found, None)
    if first is None:
        names = ", ".join(d.element.value for d in DataType if d.is_stored)
        raise UnsupportedError(f"a tensor of {element.value}", names)
    return first


class MemoryType(_Named):
    """Where a tensor lives; the value is the letter in its text.

    ``Local`` is registers, ``Tensor`` the tensor memory of a GPU whose matrix instruction has its
    accumulators there.
    """

    Global = "g"
    Shared = "s"
    Local = "l"
    Tensor = "t"


class ParallelType(_Named):
    """What runs the iterations of a loop domain; the value is the prefix in its text.

    ``Bulk`` dimensions are the box of one TMA, ``Mma`` dimensions the tile of one wgmma (and its
    register fragment where the result is read). ``TIDy`` counts warpgroups, ``TIDx`` the 128
    threads of one. ``Vectorize`` occurs only in schedules that nvFuser made.
    """

    Serial = "S"
    Unroll = "UR"
    Vectorize = "V"
    BIDx = "blockIdx.x"
    BIDy = "blockIdx.y"
    BIDz = "blockIdx.z"
    TIDx = "threadIdx.x"
    TIDy = "threadIdx.y"
    TIDz = "threadIdx.z"
    Bulk = "B"
    Mma = "MMA"


BOX = (ParallelType.Bulk, ParallelType.Mma)
"""What runs the dimensions of a box or fragment: what is moved at once."""


class IterType(_Named):
    """What an iteration domain stands for; the value is the prefix in its text."""

    Iteration = "i"
    Reduction = "r"
    Broadcast = "b"


class LoadStoreOpType(_Named):
    """How a load or store moves its data."""

    Set = "Set"
    CpAsyncBulkTensorTile = "CpAsyncBulkTensorTile"
    LdMatrix = "LdMatrix"
    StMatrix = "StMatrix"
    LdTMem = "LdTMem"
