"""Elements of each data type: fp32 of a register, and registers of fp32."""

from __future__ import annotations

from lowering.ground.dtypes import FLOATS_OF_8_BITS, DType
from lowering.ground.errors import UnsupportedError
from lowering.mlir.emitter import Emitter
from lowering.mlir.ssa import F32, I1, I16, I32, Value

__all__ = ["WIDENED", "as_f32", "condition", "pack", "pack_four", "widened"]

WIDENED = {DType.S8: DType.BF16, DType.U8: DType.BF16, DType.E4M3: DType.F16, DType.E5M2: DType.F16}
"""What elements of 8 bits become in few instructions; others are made of that. Both are exact."""

# 0x43 in front of a byte: 128 + its lower 7 bits, and 128 or 256 for its highest one.
_INTEGERS = (
    "{{ .reg .b32 w, low, high; prmt.b32 w, $1, $2, {selector}; "
    "and.b32 low, w, 0xff7fff7f; and.b32 high, w, 0xff80ff80; {rest} }}"
)
_EXPONENTS = "{ .reg .b32 zero; mov.u32 zero, %tid.y; add.u32 $0, zero, 0x43434343; }"
"""tid.y is 0, which ptxas does not know: one of two constants of a prmt it would move to a register
each time.
"""
_REST = {
    DType.S8: "sub.rn.bf16x2 $0, low, high;",
    DType.U8: ".reg .b32 least; mov.b32 least, 0x43804380; sub.rn.bf16x2 high, high, least; "
    "add.rn.bf16x2 $0, low, high;",
}
_FLOATS = (
    "{{ .reg .b16 part<2>; mov.b32 {{part0, part1}}, $1; cvt.rn.f16x2.{kind}x2 $0, part{half}; }}"
)
_SELECTORS = 0x4140, 0x4342
"""Of ``prmt``: two bytes of a word, each below one of the other."""

_PAIRS = (DType.BF16, DType.F16)
"""Types of which two share a register."""


def as_f32(e: Emitter, dtype: DType, register: Value, part: int = 0) -> Value:
    """An element of a register as fp32: ``part`` says which one where several are packed.

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
    if dtype in WIDENED:
        return as_f32(e, WIDENED[dtype], widened(e, dtype, register, part // 2), part % 2)
    raise _unknown(dtype)


def widened(e: Emitter, dtype: DType, register: Value, half: int) -> Value:
    """Two neighbours of four elements of 8 bits, as ``WIDENED`` says: those of the upper row, or
    (``half`` 1) of the one 8 below.
    """

    def asm(text: str, *taken: Value) -> Value:
        return e.asm(text, taken, [I32], memory=False, volatile=False)[0].value

    def made() -> Value:
        if dtype not in _REST:
            return asm(_FLOATS.format(kind=dtype.ptx, half=half), register)
        text = _INTEGERS.format(selector=_SELECTORS[half], rest=_REST[dtype])
        return asm(text, register, e.once(("exponents",), lambda: asm(_EXPONENTS)))

    return e.once(("widened", dtype, register.name, half), made)


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


_FOUR = (
    "{{ .reg .b16 upper, lower; cvt.rn.satfinite.{kind}x2.f32 upper, $2, $1; "
    "cvt.rn.satfinite.{kind}x2.f32 lower, $4, $3; mov.b32 $0, {{upper, lower}}; }}"
)


def pack_four(e: Emitter, dtype: DType, *values: Value) -> Value:
    """A register of four values of fp32, the first in the lowest byte, at most the largest number.

    Raises:
        UnsupportedError: nothing is rounded to the type, or four of it do not share a register.
    """
    if dtype not in FLOATS_OF_8_BITS:
        raise _unknown(dtype)
    (word,) = e.asm(_FOUR.format(kind=dtype.ptx), values, [I32], memory=False, volatile=False)
    return word.value


def _unknown(dtype: DType) -> UnsupportedError:
    known = ", ".join(d.value for d in (*_PAIRS, DType.F32))
    return UnsupportedError(f"arithmetic on {dtype.value} in MLIR", known)
