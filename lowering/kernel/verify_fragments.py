"""Which layouts fragments exchange, which numbers random elements have, and which sums are settled.
Part of ``verify``.
"""

from __future__ import annotations

from collections.abc import Iterator

from lowering.ground.dtypes import DType
from lowering.ground.expr import ScalarType, type_of
from lowering.ground.layouts import ACCUMULATOR
from lowering.ground.pairs import SMALLER
from lowering.ground.types import FragmentType
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import (
    FragCast,
    FragPointwise,
    FragPrint,
    FragRandom,
    FragShuffle,
    FragUpdate,
    Wgmma,
    WgmmaWait,
)
from lowering.kernel.operands import Frag
from lowering.kernel.rules import about

__all__ = ["RULES"]


def _cast(_: Kernel, stmt: FragCast) -> Iterator[str]:
    out, value = stmt.out, stmt.value
    if (out.type.rows, out.type.cols) != (value.type.rows, value.type.cols):
        yield f"{out.name} is {out.type}, {value.name} {value.type}: a cast changes no shape"
    types = value.type.dtype, out.type.dtype
    if stmt.exponent not in (0, SMALLER.get(types, 0)):
        given, to = (x.value for x in types)
        yield f"{given} times 2 ** {stmt.exponent} as {to}, of which there is no smaller one"


def _random(_: Kernel, stmt: FragRandom) -> Iterator[str]:
    if stmt.out.type.dtype is not DType.F32:
        yield f"{stmt.OP} gives f32, not {stmt.out.type.dtype.value}"
    for name in ("seed", "offset"):
        kind = type_of(getattr(stmt, name))
        if kind is not ScalarType.I64:
            yield f"{name} is {kind.value}, {stmt.OP} takes i64"
    for name in ("first", "stride"):
        if type_of(getattr(stmt, name)) is ScalarType.PRED:
            yield f"{name} is pred, {stmt.OP} counts in i32 or i64"


def _alike(_: Kernel, stmt: FragPointwise | FragUpdate) -> Iterator[str]:
    out = stmt.out
    for arg in stmt.args:
        if isinstance(arg, Frag) and arg.type.layout != out.type.layout:
            yield f"{arg.name} is {arg.type}, {out.name} {out.type}: layouts differ"


def _exchanged(_: Kernel, stmt: FragShuffle) -> Iterator[str]:
    """The same whole tile, in layouts of which one is twice as wide."""
    value, out = stmt.value, stmt.out
    a, b = value.type, out.type
    if (a.dtype, a.rows, a.cols) != (b.dtype, b.rows, b.cols):
        yield f"{out.name} is {b}, {value.name} {a}: a shuffle changes the layout only"
    for kind in (a, b):
        if kind.rows % kind.layout.rows or kind.cols % kind.layout.columns:
            yield f"{kind} is not of whole groups"
    if a.layout.lanes != b.layout.lanes or a.layout.lanes != ACCUMULATOR.lanes:
        yield f"{a} as {b}: four lanes of a row exchange its columns"
    spans = sorted((a.layout.span, b.layout.span))
    if spans[1] != 2 * spans[0]:
        yield f"from a span of {a.layout.span} to one of {b.layout.span}, not twice or half as wide"
    elif a.dtype is DType.PRED or _piece_bits(a, b) not in (16, 32, 64):
        yield f"pieces of {spans[0]} {a.dtype.value}; 16, 32 or 64 bits are exchanged"


def _piece_bits(a: FragmentType, b: FragmentType) -> int:
    return min(a.layout.span, b.layout.span) * a.dtype.register_bits


def _printed(_: Kernel, stmt: FragPrint) -> Iterator[str]:
    kind = stmt.value.type
    inside = 0 <= stmt.row < kind.rows and 0 <= stmt.col < kind.cols
    if not inside or kind.layout != ACCUMULATOR:
        yield f"{stmt.OP} of element {stmt.row}, {stmt.col} of {kind}"


def _issued(_: Kernel, stmt: Wgmma) -> Iterator[str]:
    if not stmt.out.type.in_flight:
        yield f"{stmt.out.name} is settled, which {stmt.OP} leaves in flight"


def _waited(_: Kernel, stmt: WgmmaWait) -> Iterator[str]:
    """Which groups write a sum is no rule of a statement, so all have to be over."""
    if stmt.pending and not stmt.out.type.in_flight:
        yield f"{stmt.out.name} is settled, with {stmt.pending} groups pending"


RULES = (
    about(_issued, Wgmma),
    about(_waited, WgmmaWait),
    about(_printed, FragPrint),
    about(_exchanged, FragShuffle),
    about(_cast, FragCast),
    about(_random, FragRandom),
    about(_alike, FragPointwise, FragUpdate),
)
"""Of fragments."""
