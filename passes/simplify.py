"""Fold, propagate copies, drop what is not used.

Requires: nothing. Guarantees: the same kernel with no more statements than before; constants
folded, sums in their shortest known form, bindings of constants, variables and single uses of
trivial values propagated, unused bindings and branches that are never taken gone. Stages and
parities that no loop carries are divisions.

Last, so that every other pass can build expressions plainly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lowering.ground.expr import (
    Binary,
    Const,
    Expr,
    Select,
    Special,
    Var,
    binary,
    children,
    plain,
    select,
    substitute,
    type_of,
)
from lowering.ground.poly import poly, same
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import (
    Body,
    For,
    Frag,
    If,
    Let,
    Stmt,
)
from lowering.kernel.visit import (
    bodies,
    changed,
    defined,
    kept,
    map_bodies,
    map_exprs,
    rename,
    used,
    walk,
)
from passes.options import LoweringOptions

__all__ = ["simplify", "simplify_expr"]


def simplify(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """Simplify until nothing changes.

    before::

        let a: i32 = wg * 0 + n - n
        let row: i32 = t // 4 * 4 + t % 4
        tma.load A_s[a, 0, 0], A[row, 0]

    after::

        tma.load A_s[0, 0, 0], A[t, 0]
    """
    body, shortest = kernel.body, set[Expr]()
    while True:
        new = _drop_unused(_body(body, {}, shortest)[0])
        if new is body or new == body:
            return replace(kernel, body=body)
        body = new


def simplify_expr(e: Expr) -> Expr:
    """A shorter expression with the same value for all values of its variables, and its type."""
    if isinstance(e, Binary):
        a, b = simplify_expr(e.lhs), simplify_expr(e.rhs)
        e = e if a is e.lhs and b is e.rhs and not _folds(a, b) else binary(e.op, a, b)
    elif isinstance(e, Select):
        e = select(simplify_expr(e.cond), simplify_expr(e.then), simplify_expr(e.other))
    else:
        return e
    new = _rule(e)
    return new if new is e or type_of(new) is type_of(e) else e


def _folds(a: Expr, b: Expr) -> bool:
    """Whether one side is a number, which may decide a whole expression."""
    return isinstance(a, Const) or isinstance(b, Const)


def _rule(e: Expr) -> Expr:
    """``e`` by the first rule that fits, without a look at its type; its operands are simple."""
    e = plain(e)
    match e:
        case Binary("+", Binary("*", Binary("//", x, d), d2), Binary("%", y, d3)) if (
            x == y and d == d2 == d3
        ):
            return x
        case Binary("<" | "<=" | "==" as op, a, b):
            gap = (poly(a) - poly(b)).constant()
            return binary(op, Const(gap), Const(0)) if gap is not None else e
        case Binary("+" | "-"):
            shorter = poly(e).expr()
            return shorter if _size(shorter) < _size(e) else e
        case Binary("max", a, b) | Binary("min", a, b) if same(a, b):
            return a
    return e


def _size(e: Expr) -> int:
    return 1 + sum(_size(c) for c in children(e))


def _shortened(e: Expr, shortest: set[Expr]) -> Expr:
    """``e`` simplified; ``shortest`` are those that stay as they are, which is most of them."""
    if e in shortest:
        return e
    new = simplify_expr(e)
    if new == e:
        shortest.add(e)
    return new


def _body(
    body: Body, env: Mapping[Var, Expr], shortest: set[Expr]
) -> tuple[Body, Mapping[Var, Expr]]:
    """``body`` simplified, and what is known at its end (a loop's yields stand there)."""
    out: list[Stmt] = []
    known = dict(env)
    for stmt in body:
        stmt = rename((stmt,), known)[0] if known else stmt
        stmt = map_exprs(stmt, lambda e: _shortened(e, shortest))
        match stmt:
            case Let(var, Const() | Var() | Special() as value):
                known[var] = value
                continue
            case If(Const(value), then, other):
                out += _body(then if value else other, known, shortest)[0]
                continue
            case For(start=Const(a), stop=Const(b), carries=()) if b <= a:
                continue
        if isinstance(stmt, For):
            inner, inside = _body(stmt.body, {}, shortest)
            yields = [
                y if isinstance(y, Frag) else simplify_expr(substitute(y, inside))
                for y in stmt.yields
            ]
            out.append(changed(stmt, {"body": inner, "yields": kept(stmt.yields, yields)}))
        else:
            out.append(map_bodies(stmt, lambda b: _body(b, {}, shortest)[0]))
    return kept(body, out), known


def _drop_unused(body: Body) -> Body:
    reads = set().union(*(used(s) for s in walk(body)))

    def keep(stmt: Stmt) -> bool:
        gives = () if bodies(stmt) else defined(stmt)
        if gives and stmt.TRAITS.pure:
            return not reads.isdisjoint(gives)
        return not (isinstance(stmt, If) and not stmt.then and not stmt.other)

    def visit(inner: Body) -> Body:
        return kept(inner, [map_bodies(s, visit) for s in inner if keep(s)])

    return visit(body)
