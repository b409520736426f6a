"""Fold, propagate copies, drop what is not used.

Requires: nothing. Guarantees: the same kernel with no more statements than before; constants
folded, sums in their shortest known form, bindings of constants, variables and single uses of
trivial values propagated, unused bindings and branches that are never taken gone. Stages and
parities that no loop carries are divisions.

Last, so that every other pass can build expressions plainly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from lowering.ground.expr import (
    Binary,
    Const,
    Expr,
    Select,
    Special,
    Var,
    binary,
    children,
    parts_of,
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
    return replace(kernel, body=_without_unused(_Simplifier().body(kernel.body, {})[0]))


def simplify_expr(e: Expr) -> Expr:
    """A shorter expression with the same value for all values of its variables, and its type."""
    if type(e) is Binary:
        a = simplify_expr(e.lhs)
        b = simplify_expr(e.rhs)
        e = e if a is e.lhs and b is e.rhs and not _folds(a, b) else binary(e.op, a, b)
    elif type(e) is Select:
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
    if not isinstance(e, Binary):
        return e
    op, a, b = e.op, e.lhs, e.rhs
    if op == "+" and (whole := _put_together(a, b)) is not None:
        return whole
    if op in ("<", "<=", "=="):
        gap = poly(a).apart(poly(b))
        return binary(op, Const(gap), Const(0)) if gap is not None else e
    if op in ("+", "-") and (children(a) or children(b) or a == b):
        shorter = poly(e).expr()
        return shorter if _size(shorter) < _size(e) else e
    return a if op in ("max", "min") and same(a, b) else e


def _put_together(a: Expr, b: Expr) -> Expr | None:
    """What two addends are the quotient, times the divisor, and the rest of."""
    match a, b:
        case Binary("*", Binary("//", x, d), d2), Binary("%", y, d3) if x == y and d == d2 == d3:
            return x
    return None


def _size(e: Expr) -> int:
    return len([*parts_of(e)])


@dataclass(slots=True)
class _Simplifier:
    """Simplifies each statement once: what is known is known in front of all that reads it.

    Args:
        shortest: of expressions those that nothing makes shorter.
    """

    shortest: dict[Expr, Expr] = field(default_factory=dict)

    def body(self, body: Body, env: Mapping[Var, Expr]) -> tuple[Body, Mapping[Var, Expr]]:
        """``body`` simplified, and what is known at its end (a loop's yields stand there)."""
        out: list[Stmt] = []
        known = dict(env)
        for stmt in body:
            stmt = map_exprs(stmt, partial(self.shortened, known=known))
            match stmt:
                case Let(var, Const() | Var() | Special() as value):
                    known[var] = value
                    continue
                case If(Const(value), then, other):
                    out += self.body(then if value else other, known)[0]
                    continue
                case For(start=Const(a), stop=Const(b), carries=()) if b <= a:
                    continue
            if isinstance(stmt, For):
                inner, inside = self.body(stmt.body, known)
                yields = [
                    y if isinstance(y, Frag) else self.shortened(y, inside) for y in stmt.yields
                ]
                out.append(changed(stmt, {"body": inner, "yields": kept(stmt.yields, yields)}))
            else:
                out.append(map_bodies(stmt, lambda inner: self.body(inner, known)[0]))
        return kept(body, out), known

    def shortened(self, e: Expr, known: Mapping[Var, Expr]) -> Expr:
        """``e`` with what is known, simplified until nothing changes."""
        if known:
            e = substitute(e, known)
        if not children(e):
            return e
        found = self.shortest.get(e)
        if found is None:
            found = e
            while (new := simplify_expr(found)) != found:
                found = new
            self.shortest[e] = self.shortest[found] = found
        return found


def _without_unused(body: Body) -> Body:
    """Without what makes values that nothing reads that stays, and without empty branches."""
    makers: dict[str, frozenset[str]] = {}
    reads = set[str]()
    for stmt in walk(body):
        gives = _gives(stmt)
        if gives:
            makers |= dict.fromkeys(gives, used(stmt))
        else:
            reads |= used(stmt)
    pending = [*reads]
    while pending:
        more = makers.pop(pending.pop(), frozenset())
        pending += more - reads
        reads |= more
    less, decided = _kept(body, reads)
    return _without_unused(less) if decided else less  # nobody reads what it was decided by


def _gives(stmt: Stmt) -> frozenset[str]:
    """What a statement makes that does nothing else."""
    return defined(stmt) if stmt.TRAITS.pure and not bodies(stmt) else frozenset()


def _kept(body: Body, reads: set[str]) -> tuple[Body, bool]:
    """Without what gives nothing of ``reads``, and without empty branches; whether it had such."""
    out: list[Stmt] = []
    decided = False

    def visit(inner: Body) -> Body:
        nonlocal decided
        less, more = _kept(inner, reads)
        decided |= more
        return less

    for stmt in body:
        gives = _gives(stmt)
        if gives and reads.isdisjoint(gives):
            continue
        stmt = map_bodies(stmt, visit)
        if isinstance(stmt, If) and not stmt.then and not stmt.other:
            decided = True
        else:
            out.append(stmt)
    return kept(body, out), decided
