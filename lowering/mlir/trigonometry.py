"""Sine and cosine: the function of ``lowering.cuda.trigonometry``, operation by operation.

What it computes, and why, is said there. All operations are exact or rounded as they stand, so the
bits are the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from lowering.kernel.turns import two_over_pi
from lowering.mlir.emitter import Emitter
from lowering.mlir.ssa import F32, Value

__all__ = ["sine"]

_FMA = "(f32, f32, f32) -> f32"


def sine(e: Emitter, args: Sequence[Value], more: int) -> Value:
    """Sine of a number and ``more`` quarter turns."""
    e.functions["sine_of_turns"] = _TEXT
    operands = f"{args[0]}, {e.out.constant(more)}"
    return e.out.op(f"llvm.call @sine_of_turns({operands}) : (f32, i32) -> f32", F32)


def _word(name: str, at: int) -> list[str]:
    """Word ``%w + at`` of 2 / pi, behind one of zeros, for ``%w`` from 0 to 4."""
    words = (0, *two_over_pi(7))[at : at + 5]
    signed = [word - (word >> 31 << 32) for word in words]
    lines = [f"%{name}4 = arith.constant {signed[4]} : i32"]
    for w in reversed(range(4)):
        lines += [
            f"%{name}_{w} = arith.constant {signed[w]} : i32",
            f"%{name}{w} = arith.select %is{w}, %{name}_{w}, %{name}{w + 1} : i32",
        ]
    return lines


_LARGE = [
    "%bits = arith.bitcast %x : f32 to i32",
    "%mantissa = arith.constant 8388607 : i32",
    "%leading = arith.constant 8388608 : i32",
    "%low_bits = arith.andi %bits, %mantissa : i32",
    "%m32 = arith.ori %low_bits, %leading : i32",
    "%m = arith.extui %m32 : i32 to i64",
    "%c23 = arith.constant 23 : i32",
    "%c255 = arith.constant 255 : i32",
    "%c120 = arith.constant 120 : i32",
    "%c5 = arith.constant 5 : i32",
    "%c31 = arith.constant 31 : i32",
    "%raw = arith.shrui %bits, %c23 : i32",
    "%exponent = arith.andi %raw, %c255 : i32",
    "%start = arith.subi %exponent, %c120 : i32",
    "%w = arith.shrsi %start, %c5 : i32",
    "%shift = arith.andi %start, %c31 : i32",
    *(
        line
        for w in range(4)
        for line in (
            f"%at{w} = arith.constant {w} : i32",
            f"%is{w} = arith.cmpi eq, %w, %at{w} : i32",
        )
    ),
    *(line for at, name in enumerate("abcd") for line in _word(name, at)),
    "%high = llvm.intr.fshl(%a0, %b0, %shift) : (i32, i32, i32) -> i32",
    "%middle = llvm.intr.fshl(%b0, %c0, %shift) : (i32, i32, i32) -> i32",
    "%low = llvm.intr.fshl(%c0, %d0, %shift) : (i32, i32, i32) -> i32",
    "%low64 = arith.extui %low : i32 to i64",
    "%middle64 = arith.extui %middle : i32 to i64",
    "%word = arith.constant 32 : i64",
    "%p2 = arith.muli %m, %low64 : i64",
    "%p2_high = arith.shrui %p2, %word : i64",
    "%product1 = arith.muli %m, %middle64 : i64",
    "%p1 = arith.addi %product1, %p2_high : i64",
    "%p1_high = arith.shrui %p1, %word : i64",
    "%p1_top = arith.trunci %p1_high : i64 to i32",
    "%product0 = arith.muli %m32, %high : i32",
    "%p0 = arith.addi %product0, %p1_top : i32",
    "%p0_wide = arith.extui %p0 : i32 to i64",
    "%c34 = arith.constant 34 : i64",
    "%c2w = arith.constant 2 : i64",
    "%c30w = arith.constant 30 : i64",
    "%c63w = arith.constant 63 : i64",
    "%c30 = arith.constant 30 : i32",
    "%upper = arith.shli %p0_wide, %c34 : i64",
    "%p1_low = arith.trunci %p1 : i64 to i32",
    "%p1_low64 = arith.extui %p1_low : i32 to i64",
    "%between = arith.shli %p1_low64, %c2w : i64",
    "%p2_low = arith.trunci %p2 : i64 to i32",
    "%lowest32 = arith.shrui %p2_low, %c30 : i32",
    "%lowest = arith.extui %lowest32 : i32 to i64",
    "%upper_two = arith.ori %upper, %between : i64",
    "%part = arith.ori %upper_two, %lowest : i64",
    "%whole = arith.shrui %p0, %c30 : i32",
    "%half64 = arith.shrui %part, %c63w : i64",
    "%half = arith.trunci %half64 : i64 to i32",
    "%quarters = arith.addi %whole, %half : i32",
    "%signed = arith.sitofp %part : i64 to f64",
    f"%unit = arith.constant {1.5707963267948966 / 18446744073709551616.0!r} : f64",
    "%left = arith.mulf %signed, %unit : f64",
    "%positive0 = arith.constant 0.0 : f32",
    "%zero32 = arith.constant 0 : i32",
    "%below = arith.cmpf olt, %x, %positive0 : f32",
    "%negative = arith.negf %left : f64",
    "%angle = arith.select %below, %negative, %left : f64",
    "%angle32 = arith.truncf %angle : f64 to f32",
    "%turned_back = arith.subi %zero32, %quarters : i32",
    "%q_large = arith.select %below, %turned_back, %quarters : i32",
    "scf.yield %angle32, %q_large : f32, i32",
]
"""A finite number from 2**16 on: what is left, in radians, and the quarter turns."""

_FEW = [
    "%per = arith.constant 0.63661977 : f32",
    "%shifter = arith.constant 12582912.0 : f32",
    f"%moved = llvm.intr.fma(%x, %per, %shifter) : {_FMA}",
    "%turns = arith.subf %moved, %shifter : f32",
    "%first = arith.constant -1.5707964 : f32",
    "%second = arith.constant 4.371139e-8 : f32",
    "%third = arith.constant 1.7151245e-15 : f32",
    f"%r1 = llvm.intr.fma(%turns, %first, %x) : {_FMA}",
    f"%r2 = llvm.intr.fma(%turns, %second, %r1) : {_FMA}",
    f"%r3 = llvm.intr.fma(%turns, %third, %r2) : {_FMA}",
    "%q_few = arith.bitcast %moved : f32 to i32",
    "scf.yield %r3, %q_few : f32, i32",
]


def _choice(name: str, cosine: str, sine: str) -> list[str]:
    """A coefficient of either series."""
    return [
        f"%{name}_c = arith.constant {cosine} : f32",
        f"%{name}_s = arith.constant {sine} : f32",
        f"%{name} = arith.select %odd, %{name}_c, %{name}_s : f32",
    ]


_SERIES = [
    "%c1 = arith.constant 1 : i32",
    "%c2 = arith.constant 2 : i32",
    "%none = arith.constant 0 : i32",
    "%q = arith.addi %reduced#1, %more : i32",
    "%lowest_bit = arith.andi %q, %c1 : i32",
    "%odd = arith.cmpi ne, %lowest_bit, %none : i32",
    "%s = arith.mulf %reduced#0, %reduced#0 : f32",
    "%k0 = arith.constant -2.7557319e-7 : f32",
    "%k1 = arith.constant 2.4801587e-5 : f32",
    f"%v0_c = llvm.intr.fma(%s, %k0, %k1) : {_FMA}",
    "%v0_s = arith.constant 2.7557319e-6 : f32",
    "%v0 = arith.select %odd, %v0_c, %v0_s : f32",
    *_choice("k2", "-1.3888889e-3", "-1.9841270e-4"),
    f"%v1 = llvm.intr.fma(%s, %v0, %k2) : {_FMA}",
    *_choice("k3", "4.1666668e-2", "8.3333333e-3"),
    f"%v2 = llvm.intr.fma(%s, %v1, %k3) : {_FMA}",
    *_choice("k4", "-0.5", "-0.16666667"),
    f"%v3 = llvm.intr.fma(%s, %v2, %k4) : {_FMA}",
    "%cube = arith.mulf %reduced#0, %s : f32",
    "%factor = arith.select %odd, %s, %cube : f32",
    "%one = arith.constant 1.0 : f32",
    "%rest = arith.select %odd, %one, %reduced#0 : f32",
    f"%v4 = llvm.intr.fma(%factor, %v3, %rest) : {_FMA}",
    "%second_bit = arith.andi %q, %c2 : i32",
    "%turned = arith.cmpi ne, %second_bit, %none : i32",
    "%nothing = arith.constant 0.0 : f32",
    "%opposite = arith.subf %nothing, %v4 : f32",
    "%found = arith.select %turned, %opposite, %v4 : f32",
    "llvm.return %found : f32",
]

_TEXT = "\n    ".join([
    "llvm.func internal @sine_of_turns(%x: f32, %more: i32) -> f32 attributes {always_inline} {",
    "%size = llvm.intr.fabs(%x) : (f32) -> f32",
    "%few_turns = arith.constant 65536.0 : f32",
    "%few = arith.cmpf olt, %size, %few_turns : f32",
    "%reduced:2 = scf.if %few -> (f32, i32) {",
    *_FEW,
    "} else {",
    "%infinity = arith.constant 0x7F800000 : f32",
    "%finite = arith.cmpf olt, %size, %infinity : f32",
    "%other:2 = scf.if %finite -> (f32, i32) {",
    *_LARGE,
    "} else {",
    "%nan = arith.subf %x, %x : f32",
    "%no_turns = arith.constant 0 : i32",
    "scf.yield %nan, %no_turns : f32, i32",
    "}",
    "scf.yield %other#0, %other#1 : f32, i32",
    "}",
    *_SERIES,
    "}",
])  # fmt: skip
