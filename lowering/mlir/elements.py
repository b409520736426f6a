"""Elements of each data type: fp32 of a register, and registers of fp32."""

from __future__ import annotations

from lowering.ground.dtypes import DType
from lowering.ground.errors import UnsupportedError
from lowering.mlir.emitter import Emitter
from lowering.mlir.ssa import F32, I1, I16, I32, Value

__all__ = ["as_f32", "condition", "pack"]

_PAIRS = (DType.BF16, DType.F16)
"""Types of which two share a register."""


def as_f32(e: Emitter, dtype: DType, register: Value, part: int = 0) -> Value:
    """An element of a register as fp32: ``part`` is the half of it where two are packed.

    Raises:
        UnsupportedError: fp32 is not made of the type.
    """
    out = e.out
    if dtype is DType.F32:
        return register
    if dtype is DType.S32:
        return out.op(f"arith.sitofp {register} : i32 to f32", F32)
    if dtype is DType.BF16:
        if part:
            bits = out.op(f"arith.andi {register}, {out.constant(-65536)} : i32", I32)
        else:
            bits = out.op(f"arith.shli {register}, {out.constant(16)} : i32", I32)
        return out.op(f"arith.bitcast {bits} : i32 to f32", F32)
    if dtype is DType.F16:
        word = register
        if part:
            word = out.op(f"arith.shrui {register}, {out.constant(16)} : i32", I32)
        half = out.op(f"arith.trunci {word} : i32 to i16", I16)
        number = out.op(f"arith.bitcast {half} : i16 to f16", "f16")
        return out.op(f"arith.extf {number} : f16 to f32", F32)
    raise _unknown(dtype)


def condition(e: Emitter, dtype: DType, register: Value) -> Value:
    """An element as ``i1``: what a comparison made."""
    if register.type != I1:
        raise UnsupportedError(f"a condition of {dtype.value} in MLIR", "pred")
    return register


def pack(e: Emitter, dtype: DType, low: Value, high: Value) -> Value:
    """A register of two values of fp32, rounded to nearest even; the lower one in the lower half.

    Raises:
        UnsupportedError: two of the type do not share a register.
    """
    if dtype not in _PAIRS:
        raise _unknown(dtype)
    text = f"cvt.rn.{dtype.ptx}x2.f32 $0, $1, $2;"
    (word,) = e.asm(text, [high, low], [I32], memory=False, volatile=False)
    return word.value


def _unknown(dtype: DType) -> UnsupportedError:
    known = ", ".join(d.value for d in (*_PAIRS, DType.F32))
    return UnsupportedError(f"arithmetic on {dtype.value} in MLIR", known)
