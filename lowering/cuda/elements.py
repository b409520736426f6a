"""Elements of each data type in C++: what a register of them is, and how fp32 becomes one."""

from __future__ import annotations

from lowering.ground.dtypes import FLOATS_OF_8_BITS, DType
from lowering.ground.errors import UnsupportedError

__all__ = ["moved", "pack", "register_type", "value"]

_PAIRS = (DType.BF16, DType.F16)
"""Types of which ``device.cuh`` converts two at once."""


def register_type(dtype: DType) -> str:
    """C++ type of a register of a fragment: packed elements and tf32 are raw bits."""
    if dtype is DType.PRED:
        return "bool"
    return "unsigned" if dtype.register_bits < 32 or dtype is DType.TF32 else dtype.cuda


def pack(dtype: DType) -> str:
    """The device function that rounds two fp32 values and packs them into a register.

    Raises:
        UnsupportedError: there is none for the type.
    """
    return f"ptx::cvt_{_convertible(dtype)}x2"


def value(dtype: DType, register: str, part: int = 0) -> str:
    """An element of a register as fp32: ``part`` is the half of it where two are packed.

    Raises:
        UnsupportedError: fp32 is not made of the type.
    """
    if dtype in (DType.F32, DType.PRED):
        return register
    if dtype is DType.S32:
        return f"__int2float_rn({register})"
    return f"ptx::cvt_f32_{_convertible(dtype, DType.S32)}<{part}>({register})"


def _convertible(dtype: DType, *more: DType) -> str:
    if dtype not in _PAIRS:
        known = ", ".join(d.value for d in (*_PAIRS, DType.F32, *more))
        raise UnsupportedError(f"arithmetic on {dtype.value} in CUDA", known)
    return dtype.ptx


def moved(dtype: DType) -> str:
    """What loads and stores of one element are called: ``f32``, ``s32``, ``b16`` for 16 bits,
    ``b8`` for floats of 8 bits, which are stored only, or ``bool`` for a predicate.

    Raises:
        UnsupportedError: threads do not move elements of the type.
    """
    if dtype in (DType.F32, DType.S32):
        return str(dtype.value)
    if dtype is DType.PRED:
        return "bool"
    if dtype in FLOATS_OF_8_BITS:
        return "b8"
    if dtype.register_bits != 16:
        known = ", ".join(d.value for d in FLOATS_OF_8_BITS)
        what = f"threads that move {dtype.value} in CUDA"
        raise UnsupportedError(what, f"16-bit types, f32, s32, {known}")
    return "b16"
