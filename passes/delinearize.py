"""Turn the load side's one loop over tile x k back into two, so that nothing is divided in it.

Requires: a loop ``for m in 0 .. a * b``, or over any interval, whose body uses ``m // b`` and
``m % b``.
Guarantees: an outer loop over ``a`` and an inner loop over ``b`` that visit the same values of
``m`` in the same order; of an interval the outer loop visits what it touches, and the inner one
still counts ``m``, from where the one before it ended up to the end of its ``b`` or of the
interval. What is bound in a loop and does not depend on it is bound before it, so that a tile's
indices are computed once per tile.

The schedule needs the merged loop (it is what circular buffering is applied to, and what makes
the two sides comparable); the machine does not.

After ``allocate_mbarriers``, before ``step_stages``, which steps stage and parity through the two
loops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from lowering.ground.expr import (
    ONE,
    ZERO,
    Binary,
    Const,
    Expr,
    Select,
    Var,
    binary,
    ceildiv,
    children,
    maximum,
    minimum,
    select,
)
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import Body, Carry, For, Let, Stmt
from lowering.kernel.visit import (
    Names,
    defined,
    expressions,
    map_bodies,
    map_exprs,
    rewrite,
    used,
    walk,
)
from passes.options import LoweringOptions

__all__ = ["delinearize"]


def delinearize(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """Split loops over a product whose index is taken apart again.

    before::

        for m in 0 .. tiles * k_steps {
          let row: i32 = m // k_steps * 128
          let kcol: i32 = m % k_steps * 64
          tma.load A_s[m % 4, 0, 0], A[row, kcol]
        }

    after::

        for m_o in 0 .. tiles {
          let row: i32 = m_o * 128
          for m_i in 0 .. k_steps {
            let kcol: i32 = m_i * 64
            tma.load A_s[(m_o * k_steps + m_i) % 4, 0, 0], A[row, kcol]
          }
        }
    """
    names = Names(kernel)

    def split(stmt: Stmt) -> Body | None:
        if not isinstance(stmt, For):
            return None
        plain = not (stmt.carries or stmt.unroll) and stmt.start == ZERO and stmt.step == ONE
        match stmt.stop:
            case Binary("*", tiles, inner) if plain and _divides(stmt, inner):
                return _hoisted(_nest(names, stmt, tiles, inner))
        divisor = _divisor(stmt)
        if divisor is not None and not (stmt.carries or stmt.unroll) and stmt.step == ONE:
            return _interval(names, stmt, divisor)
        return _hoisted(stmt)

    return replace(kernel, body=rewrite(kernel.body, split))


def _divides(loop: For, extent: Expr) -> bool:
    quotient = Binary("//", loop.var, extent)
    return any(quotient in _parts(e) for s in walk(loop.body) for e in expressions(s))


def _nest(names: Names, loop: For, tiles: Expr, extent: Expr) -> For:
    outer = Var(names.new(f"{loop.var.name}_o"))
    inner = Var(names.new(f"{loop.var.name}_i"))
    body = _taken_apart(loop, extent, quotient=outer, rest=inner, whole=outer * extent + inner)
    return For(outer, ZERO, tiles, _hoisted(For(inner, ZERO, extent, body)))


def _taken_apart(loop: For, extent: Expr, quotient: Expr, rest: Expr, whole: Expr) -> Body:
    """The body of ``loop`` with its index over ``extent``, the remainder and the index replaced."""

    def apart(e: Expr) -> Expr:
        match e:
            case Binary("//", a, b) if a == loop.var and b == extent:
                return quotient
            case Binary("%", a, b) if a == loop.var and b == extent:
                return rest
            case Var() if e == loop.var:
                return whole
            case Binary(op, a, b):
                return binary(op, apart(a), apart(b))
            case Select(c, a, b):
                return select(apart(c), apart(a), apart(b))
        return e

    return _map_deep(loop.body, apart)


def _divisor(loop: For) -> Expr | None:
    """The one run-time extent that the index of a loop is divided by.

    None for a loop that counts entries of a queue: its stages are a constant, and it may be left.
    """
    found = {
        e.rhs
        for s in walk(loop.body)
        for whole in expressions(s)
        for e in _parts(whole)
        if isinstance(e, Binary)
        and e.op == "//"
        and e.lhs == loop.var
        and not isinstance(e.rhs, Const)
    }
    return found.pop() if len(found) == 1 else None


def _parts(e: Expr) -> Iterator[Expr]:
    yield e
    for c in children(e):
        yield from _parts(c)


def _interval(names: Names, loop: For, extent: Expr) -> Body:
    """``loop`` over an interval as loops over the blocks of ``extent`` that it touches and, in
    each, over the part of the interval.
    """
    block, first, end = (
        Var(names.new(f"{loop.var.name}_{what}")) for what in ("o", "first", "stop")
    )
    begin, after = (Var(names.new(f"{loop.var.name}_{what}")) for what in ("begin", "end"))
    count = ceildiv(loop.stop, maximum(extent, 1)) - first
    quotient = first + block
    rest = loop.var - quotient * extent
    inner = For(loop.var, begin, end, _taken_apart(loop, extent, quotient, rest, whole=loop.var))
    bound = Let(end, minimum(loop.stop, (quotient + 1) * extent))
    outer = For(
        block, ZERO, count, (bound, *_hoisted(inner)),
        carries=(Carry(begin, loop.start, after),), yields=(end,),
    )  # fmt: skip
    return (Let(first, loop.start // maximum(extent, 1)), *_hoisted(outer))


def _hoisted(loop: For) -> Body:
    """``loop`` behind those of its bindings that do not depend on it."""
    varying = set(defined(loop))
    before: list[Stmt] = []
    inside: list[Stmt] = []
    for stmt in loop.body:
        if isinstance(stmt, Let) and not used(stmt) & varying:
            before.append(stmt)
        else:
            varying.update(defined(stmt))
            inside.append(stmt)
    return (*before, replace(loop, body=tuple(inside)))


def _map_deep(body: Body, f: Callable[[Expr], Expr]) -> Body:
    return tuple(map_bodies(map_exprs(s, f), lambda b: _map_deep(b, f)) for s in body)
