"""Add and subtract pairs of 16 bits where fp32 would give the same bits.

Requires: pointwise operations on fragments. Guarantees: a sum or difference in fp32 whose one
reader rounds it to 16 bits, and of which that type has all arguments, is one of that type. So no
argument is widened for it, and two elements take one instruction: zero points that are taken from
weights, above all.

After ``promote_sums``, which takes zero points of groups away; before ``load_scales_ahead``, which
asks who reads what a loop carries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lowering.ground.dtypes import DType
from lowering.ground.pairs import OPERATIONS, PAIRED, bits_of, has_all
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import Body, Frag, FragCast, FragPointwise, Stmt
from lowering.kernel.visit import Names, map_bodies, reads_in
from passes.options import LoweringOptions

__all__ = ["pair_arithmetic"]


def pair_arithmetic(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """Arithmetic in fp32 that is rounded becomes arithmetic of what it is rounded to.

    before::

        wide: frag<f32, 64x32> = frag.cast q
        zeros: frag<f32, 64x1> = frag.cast z
        less: frag<f32, 64x32> = frag.pointwise sub, wide, zeros
        w: frag<bf16, 64x32> = frag.cast less

    after, where ``q`` is of u4 and ``z`` of bf16::

        short: frag<bf16, 64x32> = frag.cast q
        w: frag<bf16, 64x32> = frag.pointwise sub, short, z
    """
    return replace(kernel, body=_body(kernel.body, Names(kernel), reads_in(kernel.body)))


@dataclass(frozen=True, slots=True)
class _Argument:
    """An argument of an operation on pairs.

    Args:
        value: that it takes, or the number.
        made: the statement in front that makes it of a narrower one.
        widened: what no one reads any more.
    """

    value: Frag | float
    made: FragCast | None = None
    widened: str = ""


def _body(body: Body, names: Names, reads: Mapping[str, int]) -> Body:
    made = {s.out.name: s for s in body if isinstance(s, FragCast | FragPointwise)}
    gone, instead = set[str](), dict[str, list[Stmt]]()
    for stmt in body:
        wide = made.get(stmt.value.name) if isinstance(stmt, FragCast) else None
        if not isinstance(stmt, FragCast) or not isinstance(wide, FragPointwise):
            continue
        if not _is_rounded(wide, stmt) or reads[wide.out.name] > 1:
            continue
        found = [_argument(x, stmt.out.type.dtype, made, names, reads) for x in wide.args]
        args = [x for x in found if x is not None]
        if len(args) < len(found):
            continue
        paired = FragPointwise(stmt.out, wide.op, tuple(x.value for x in args))
        instead[wide.out.name] = [*(x.made for x in args if x.made is not None), paired]
        gone |= {stmt.out.name, *(x.widened for x in args)}
    out: list[Stmt] = []
    for stmt in body:
        if not isinstance(stmt, FragCast | FragPointwise):
            out.append(map_bodies(stmt, lambda inner: _body(inner, names, reads)))
        elif stmt.out.name not in gone:
            out += instead.get(stmt.out.name, [stmt])
    return tuple(out)


def _is_rounded(wide: FragPointwise, cast: FragCast) -> bool:
    """Whether there is an instruction for pairs that computes and rounds a whole tile."""
    kind = cast.out.type
    return kind.dtype in PAIRED and wide.op in OPERATIONS and min(kind.rows, kind.cols) > 1


def _argument(
    value: Frag | float, dtype: DType, made: Mapping[str, FragCast | FragPointwise], names: Names,
    reads: Mapping[str, int],
) -> _Argument | None:  # fmt: skip
    """An argument as a type of pairs; None where that does not have it."""
    if not isinstance(value, Frag):
        return None if bits_of(dtype, value) is None else _Argument(value)
    cast, source, widened = made.get(value.name), value, ""
    if isinstance(cast, FragCast) and value.type.dtype is DType.F32:
        source, widened = cast.value, value.name if reads[value.name] == 1 else ""
    if not has_all(dtype, source.type.dtype):
        return None
    if source.type.dtype is dtype:
        return _Argument(source, widened=widened)
    short = Frag(names.new("short"), replace(source.type, dtype=dtype))
    return _Argument(short, FragCast(short, source), widened)
