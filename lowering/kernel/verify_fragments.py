"""Which layouts fragments exchange, and which numbers random elements have. Part of ``verify``."""

from __future__ import annotations

from collections.abc import Iterator

from lowering.ground.dtypes import DType
from lowering.ground.expr import ScalarType, type_of
from lowering.ground.layouts import ACCUMULATOR
from lowering.ground.types import FragmentType
from lowering.kernel.nodes import FragCast, FragPointwise, FragRandom, FragShuffle, FragUpdate, Stmt
from lowering.kernel.operands import Frag

__all__ = ["fragment_rules"]


def fragment_rules(stmt: Stmt) -> Iterator[str]:
    """Rules that one statement breaks."""
    match stmt:
        case FragShuffle(out, value):
            yield from _exchanged(value, out)
        case FragCast(out, value) if (out.type.rows, out.type.cols) != (
            value.type.rows, value.type.cols,
        ):  # fmt: skip
            yield f"{out.name} is {out.type}, {value.name} {value.type}: a cast changes no shape"
        case FragRandom(out):
            if out.type.dtype is not DType.F32:
                yield f"{stmt.OP} gives f32, not {out.type.dtype.value}"
            for name in ("seed", "offset"):
                kind = type_of(getattr(stmt, name))
                if kind is not ScalarType.I64:
                    yield f"{name} is {kind.value}, {stmt.OP} takes i64"
            for name in ("first", "stride"):
                if type_of(getattr(stmt, name)) is ScalarType.PRED:
                    yield f"{name} is pred, {stmt.OP} counts in i32 or i64"
        case FragPointwise(out, args=args) | FragUpdate(out=out, args=args):
            for arg in args:
                if isinstance(arg, Frag) and arg.type.layout != out.type.layout:
                    yield f"{arg.name} is {arg.type}, {out.name} {out.type}: layouts differ"


def _exchanged(value: Frag, out: Frag) -> Iterator[str]:
    """The same whole tile, in layouts of which one is twice as wide."""
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
