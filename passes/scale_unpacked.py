"""Widen integers of 4 bits to a part of them that takes fewer instructions, and make up for it.

Requires: main loops that begin their sums with zero. Guarantees: where A of all products of such a
loop is made of integers whose type is in ``SMALLER``, with a sum or difference of pairs at most
behind, it is that times a power of two, and behind the loop sums are multiplied by its reciprocal,
in place. Powers of two change no bits but of sums below the smallest normal number times that.

After ``pair_arithmetic``, which makes the differences; before ``load_scales_ahead``, which asks who
reads what a loop carries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lowering.ground.dtypes import DType
from lowering.ground.expr import FALSE
from lowering.ground.pairs import SMALLER, bits_of
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import (
    Body,
    For,
    Frag,
    FragCast,
    FragFill,
    FragPointwise,
    FragUpdate,
    MmaTile,
    Stmt,
)
from lowering.kernel.visit import Names, defined, map_bodies, reads_in, rename, used
from passes.options import LoweringOptions

__all__ = ["scale_unpacked"]


def scale_unpacked(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """A is smaller, sums are multiplied.

    before::

        for k in 0 .. n carry (acc: frag<f32, 64x16> = before -> total) {
          left: frag<bf16, 64x128> = frag.cast q
          acc1: frag<f32, 64x16> = mma.tile acc, left, B_s[s, 0, 0], 128, 0 < k
          yield acc1
        }
        store.tile D[row, 0], total

    after, where ``q`` is of u4::

        for k in 0 .. n carry (acc: frag<f32, 64x16> = before -> total) {
          left: frag<bf16, 64x128> = frag.cast q, exponent=-6
          acc1: frag<f32, 64x16> = mma.tile acc, left, B_s[s, 0, 0], 128, 0 < k
          yield acc1
        }
        whole: frag<f32, 64x16> = frag.update mul, total, 64.0
        store.tile D[row, 0], whole

    What is taken from ``q``, as pairs, is multiplied by the power of two first.
    """
    return replace(kernel, body=_body(kernel.body, Names(kernel), reads_in(kernel.body), {}))


def _body(body: Body, names: Names, reads: Mapping[str, int], multiplied: dict[str, Frag]) -> Body:
    """A statement list; what is multiplied in it is noted by what it was called."""
    out: list[Stmt] = []
    for at, stmt in enumerate(body):
        found = _smaller(out, stmt, names, reads) if isinstance(stmt, For) else None
        if found is None:
            out.append(_inside(stmt, names, reads))
            continue
        loop, exponent = found
        out.append(loop)
        for carry in loop.carries:
            if isinstance(carry.result, Frag) and reads[carry.result.name]:
                whole = replace(carry.result, name=names.new("whole"))
                out.append(FragUpdate(whole, "mul", carry.result, (2.0**-exponent,)))
                multiplied[carry.result.name] = whole
        behind = rename(body[at + 1 :], {}, multiplied)
        return (*out, *_body(behind, names, reads, multiplied))
    return tuple(out)


def _inside(stmt: Stmt, names: Names, reads: Mapping[str, int]) -> Stmt:
    """A statement with others inside, which yields what is multiplied there."""
    multiplied = dict[str, Frag]()
    stmt = map_bodies(stmt, lambda inner: _body(inner, names, reads, multiplied))
    if not isinstance(stmt, For) or not multiplied:
        return stmt
    yields = (multiplied.get(y.name, y) if isinstance(y, Frag) else y for y in stmt.yields)
    return replace(stmt, yields=tuple(yields))


@dataclass(frozen=True, slots=True)
class _Made:
    """How an operand is made: the cast, and the pair operation behind it, if there is one."""

    cast: FragCast
    behind: FragPointwise | None = None


def _smaller(
    before: Sequence[Stmt], loop: For, names: Names, reads: Mapping[str, int]
) -> tuple[For, int] | None:
    """The loop with smaller operands, and by which power of two; None where it stays."""
    products = [s for s in loop.body if isinstance(s, MmaTile)]
    found = {id(x): x for p in products if (x := _made(loop.body, p.a, reads)) is not None}
    exponents = {SMALLER[x.cast.value.type.dtype, x.cast.out.type.dtype] for x in found.values()}
    if len(found) < len(products) or len(exponents) != 1 or not _begin(before, loop, products):
        return None
    exponent, body = exponents.pop(), loop.body
    for made in found.values():
        body = _replaced(body, made, names, exponent)
    return replace(loop, body=body), exponent


def _replaced(body: Body, made: _Made, names: Names, exponent: int) -> Body:
    """Where an operand is made smaller: what is taken from it first, so that ptxas has the product
    that widens and the difference side by side.
    """
    first, args = list[Stmt](), list[Frag | float]()
    for arg in () if made.behind is None else made.behind.args:
        if isinstance(arg, Frag) and arg != made.cast.out:
            small = replace(arg, name=names.new("small"))
            first += _times(names, arg, small, exponent)
            args.append(small)
        else:
            args.append(arg if isinstance(arg, Frag) else arg * 2.0**exponent)
    out: list[Stmt] = []
    for stmt in body:
        if stmt is made.cast:
            out += *first, replace(made.cast, exponent=exponent)
        elif made.behind is not None and stmt is made.behind:
            out.append(replace(made.behind, args=tuple(args)))
        else:
            out.append(stmt)
    return tuple(out)


def _begin(before: Sequence[Stmt], loop: For, products: list[MmaTile]) -> bool:
    """Whether all that a loop sums begins with zero in it."""
    zeros = {s.out.name for s in before if isinstance(s, FragFill) and not s.value}
    carried = [c for c in loop.carries if isinstance(c.init, Frag)]
    none = all(isinstance(c.init, Frag) and c.init.name in zeros for c in carried)
    first = loop.start < loop.var
    return all(p.accumulate == first or (p.accumulate == FALSE and none) for p in products)


def _made(body: Body, a: object, reads: Mapping[str, int]) -> _Made | None:
    """How A is made of a type of which there is a smaller one; None where it is otherwise."""
    by_name = {s.out.name: s for s in body if isinstance(s, FragCast | FragPointwise)}
    made = by_name.get(a.name) if isinstance(a, Frag) and reads[a.name] == 1 else None
    if isinstance(made, FragCast):
        return _Made(made) if (made.value.type.dtype, made.out.type.dtype) in SMALLER else None
    if made is None or made.out.type.dtype is DType.F32:
        return None
    inner = [by_name.get(x.name) for x in made.args if isinstance(x, Frag) and x.type.cols > 1]
    numbers = [x for x in made.args if not isinstance(x, Frag)]
    if len(inner) != 1 or not isinstance(cast := inner[0], FragCast):
        return None
    exponent = SMALLER.get((cast.value.type.dtype, cast.out.type.dtype))
    if exponent is None or reads[cast.out.name] > 1:
        return None
    known = all(bits_of(made.out.type.dtype, x * 2.0**exponent) is not None for x in numbers)
    late = {x for s in body[body.index(cast) : body.index(made)] for x in defined(s)}
    late -= {cast.out.name}
    return None if late & used(made) or not known else _Made(cast, made)


def _times(names: Names, value: Frag, out: Frag, exponent: int) -> Iterator[Stmt]:
    """A number for each row times a power of two."""
    wide = Frag(names.new("wide"), replace(value.type, dtype=DType.F32))
    yield FragPointwise(wide, "mul", (value, 2.0**exponent))
    yield FragCast(out, wide)
