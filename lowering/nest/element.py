"""Element types of the fusion language in the kernel IR."""

from __future__ import annotations

from lowering.ground.errors import UnsupportedError
from lowering.ground.types import DType
from wsched.fusion import DataType

__all__ = ["element_type"]

_DTYPES = {DataType.BFloat16: DType.BF16, DataType.Half: DType.F16, DataType.Float: DType.F32}


def element_type(dtype: DataType) -> DType:
    """The kernel IR's type of a fusion type that kernels handle.

    Raises:
        UnsupportedError: kernels do not handle it.
    """
    if dtype not in _DTYPES:
        raise UnsupportedError(f"dtype {dtype}", ", ".join(map(str, _DTYPES)))
    return _DTYPES[dtype]
