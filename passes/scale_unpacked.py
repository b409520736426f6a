"""Widen small integers to a part of them that takes fewer instructions, and make up for it.

Requires: main loops that begin their sums with zero. Guarantees: where A of all products of such a
loop is made of integers whose type is in ``SMALLER``, with a sum or difference of pairs at most
behind, it is that times a power of two, and behind the loop what sums these products is multiplied
by its reciprocal, in place; what else the loop carries is not. A loop stays as it is in which
something is made of the products that is no sum of them, times numbers at most. Powers of two
change no bits but of sums below the smallest normal number times that.

After ``pair_arithmetic``, which makes the differences; before ``load_scales_ahead``, which asks who
reads what a loop carries.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lowering.ground.dtypes import DType
from lowering.ground.expr import FALSE, Expr
from lowering.ground.pairs import SMALLER, bits_of
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import (
    Body,
    For,
    Frag,
    FragCast,
    FragColumns,
    FragFill,
    FragPointwise,
    FragRows,
    FragUpdate,
    MmaTile,
    Stmt,
)
from lowering.kernel.visit import Names, defined, map_bodies, reads_in, rename, used, used_in
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
        loop, exponent, sums = found
        out.append(loop)
        for carry in loop.carries:
            if carry.var.name in sums and reads[carry.result.name]:
                assert isinstance(carry.result, Frag)
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
) -> tuple[For, int, frozenset[str]] | None:
    """The loop with smaller operands, by which power of two, and what it carries of their sums;
    None where it stays.
    """
    products = [s for s in loop.body if isinstance(s, MmaTile)]
    found = {id(x): x for p in products if (x := _made(loop.body, p.a, reads)) is not None}
    exponents = {SMALLER[x.cast.value.type.dtype, x.cast.out.type.dtype] for x in found.values()}
    if len(found) < len(products) or len(exponents) != 1:
        return None
    if (sums := _sums(before, loop, products)) is None:
        return None
    exponent, body = exponents.pop(), loop.body
    for made in found.values():
        body = _replaced(body, made, names, exponent)
    return replace(loop, body=body), exponent, sums


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


def _sums(before: Sequence[Stmt], loop: For, products: Sequence[MmaTile]) -> frozenset[str] | None:
    """What a loop carries of sums of its products, by the names inside; None where one does not
    begin with zero, or something else is made of the products.
    """
    zeros = {s.out.name for s in (*before, *loop.body) if isinstance(s, FragFill) and not s.value}
    first, reads = loop.start < loop.var, reads_in(loop.body)
    begun = [p.acc.name for p in products if p.accumulate == first]
    pairs = [
        (c, y) for c, y in zip(loop.carries, loop.yields, strict=True)
        if isinstance(c.init, Frag) and isinstance(y, Frag)
    ]  # fmt: skip
    sums = {c.var.name for c, _ in pairs if isinstance(c.init, Frag) and (
        c.init.name in zeros or begun.count(c.var.name) == reads[c.var.name] > 0)}  # fmt: skip
    while True:
        held = _held(loop.body, sums, zeros, first)
        left = {c.var.name for c, y in pairs if c.var.name in sums and y.name in held}
        if left == sums:
            break
        sums = left
    others = any(y.name in held for c, y in pairs if c.var.name not in sums)
    whole = all(p.out.name in held for p in products)
    strange = any(used_in((s,)) & held and not defined(s) & held for s in loop.body)
    return None if others or strange or not whole else frozenset(sums)


def _held(body: Body, sums: Iterable[str], zeros: Container[str], first: Expr) -> set[str]:
    """What holds sums of products, times numbers at most, where what the loop carries does that has
    these names.
    """
    held = set(sums)
    for stmt in body:
        match stmt:
            case MmaTile():
                cleared = stmt.accumulate == FALSE and stmt.cols is None
                linear = cleared or stmt.acc.name in held
            case FragUpdate():
                some = stmt.rows is not None or stmt.cols is not None
                kept = not some or stmt.acc.name in held
                linear = kept and _linear(stmt.op, (stmt.acc, *stmt.args), held, zeros)
            case FragPointwise():
                wide = stmt.out.type.dtype is DType.F32
                linear = wide and _linear(stmt.op, stmt.args, held, zeros)
            case FragRows() | FragColumns():
                linear = bool(used(stmt) & held)
            case _:
                continue
        if linear:
            held.add(stmt.out.name)
    return held


def _linear(
    op: str, args: Sequence[Frag | float], held: Container[str], zeros: Container[str]
) -> bool:
    """Whether an operation makes of sums of products such a sum, or that times numbers."""
    names = [x.name for x in args if isinstance(x, Frag)]
    count = sum(n in held for n in names)
    if op in ("add", "sub"):
        return count > 0 and len(names) == len(args) and all(n in held or n in zeros for n in names)
    return op in ("mul", "neg") and count == 1


def _made(body: Body, a: object, reads: Mapping[str, int]) -> _Made | None:
    """How A is made of a type of which there is a smaller one; None where it is otherwise. Pairs of
    16 bits are sums or differences, which may be of smaller terms; all else gives fp32
    (``lowering.kernel.verify_values``).
    """
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
