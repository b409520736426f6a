"""Element types of the fusion language in the kernel IR."""

from __future__ import annotations

from lowering.ground.dtypes import DType
from lowering.ground.errors import UnsupportedError
from wsched.fusion import DataType

__all__ = ["element_type"]

_HANDLED = (
    DataType.BFloat16, DataType.Half, DataType.Float, DataType.Float8_e4m3fn, DataType.Float8_e5m2,
    DataType.Int8, DataType.UInt8, DataType.UInt4, DataType.Int32, DataType.TF32, DataType.Bool,
)  # fmt: skip


def element_type(dtype: DataType) -> DType:
    """The kernel IR's type of a fusion type that kernels handle.

    Raises:
        UnsupportedError: kernels do not handle it.
    """
    if dtype not in _HANDLED:
        raise UnsupportedError(f"dtype {dtype}", ", ".join(map(str, _HANDLED)))
    return dtype.element
