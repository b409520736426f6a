"""Divide by multiplying: no division in a loop by a number that stays the same in it.

Requires: nothing. Guarantees: an i32 ``x // d``, ``x % d`` or ``ceildiv(x, d)`` in a loop, with a
``d`` that is not a constant and does not change in the outermost loop for which that is so, is a
product with a reciprocal that is computed once, before that loop, and a correction. Constant
divisors stay: C++ compilers multiply by themselves.

For 0 <= x < 2**31, 1 <= d < 2**31 and the reciprocal ``r = (2**31 - 1) // d``::

    2**31 / d - 1 <= r < 2**31 / d,   so   x / d - 1 < x * r / 2**31 <= x / d

and ``mulhi(x, r)``, the product without its low 31 bits, is the quotient or one less. The rest
says which. (Division by invariant integers is Granlund and Montgomery, PLDI 1994; with an exact
multiplier there is no correction, but it takes a division of 64 bits to find one.)

After ``step_stages``, which takes the divisions by the stages out; before ``simplify``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import is_

from lowering.ground.expr import (
    Binary,
    Const,
    Expr,
    ScalarType,
    Select,
    Special,
    Var,
    binary,
    children,
    free_vars,
    maximum,
    select,
    type_of,
)
from lowering.ground.frozen import replaced
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import Body, For, Frag, Let, Stmt
from lowering.kernel.visit import Names, defined_in, expressions, map_bodies, map_exprs, walk
from passes.options import LoweringOptions

__all__ = ["divide_by_reciprocal"]

LARGEST = Const(2**31 - 1)
_DIVISIONS = ("//", "%", "ceildiv")


def divide_by_reciprocal(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """Take divisions by what a loop leaves alone out of the loop.

    before::

        for tile in 0 .. tiles {
          prefetch.tensormap A[tile // n, tile % n]
        }

    after::

        let reciprocal: i32 = 2147483647 // max(n, 1)
        for tile in 0 .. tiles {
          let quotient: i32 = mulhi(tile, reciprocal)
          let rest: i32 = tile - quotient * n
          ... A[quotient + select(n <= rest, 1, 0), select(n <= rest, rest - n, rest)]
        }
    """
    return replaced(kernel, body=_body(kernel.body, Names(kernel)))


def _body(body: Body, names: Names) -> Body:
    out: list[Stmt] = []
    for stmt in body:
        if isinstance(stmt, For):
            found = tuple(dict.fromkeys(_divisors(stmt)))
            if not found:
                out.append(stmt)
                continue
            before, stmt = _loop(stmt, found, names)
            out += before
        out.append(map_bodies(stmt, lambda b: _body(b, names)))
    return tuple(out)


def _loop(loop: For, found: Iterable[Expr], names: Names) -> tuple[Body, For]:
    """What to bind before ``loop``, and the loop without divisions by those of the divisors in it
    that it leaves alone.
    """
    varying = defined_in((loop,))
    before: list[Stmt] = []
    divisors: dict[Expr, _Divisor] = {}
    for d in found:
        if {v.name for v in free_vars(d)} & varying:
            continue
        value = d
        if not isinstance(d, (Var, Special)):
            value = Var(names.new("divisor"))
            before.append(Let(value, d))
        reciprocal = Var(names.new("reciprocal"))
        # A loop that makes no trips may have a divisor of 0, which must not be divided by here.
        before.append(Let(reciprocal, LARGEST // maximum(value, 1)))
        divisors[d] = _Divisor(value, reciprocal)
    return tuple(before), _Scope(names, divisors).loop(loop) if divisors else loop


def _divisors(loop: For) -> Iterator[Expr]:
    """Divisors in the body and in what it yields, in program order."""
    own = [y for y in loop.yields if not isinstance(y, Frag)]
    for e in [*(e for s in walk(loop.body) for e in expressions(s)), *own]:
        yield from _in(e)


def _in(e: Expr) -> Iterator[Expr]:
    for c in children(e):
        if children(c):
            yield from _in(c)
    match e:
        case Binary(op, _, d) if op in _DIVISIONS and not isinstance(d, Const):
            yield from (d,) if type_of(e) is ScalarType.I32 else ()


@dataclass(frozen=True, slots=True)
class _Divisor:
    value: Expr
    reciprocal: Var


@dataclass(slots=True)
class _Scope:
    """A statement list: ``known`` has the dividends and the (dividend, divisor) bound so far."""

    names: Names
    divisors: Mapping[Expr, _Divisor]
    known: dict[object, tuple[Expr, ...]] = field(default_factory=dict)
    out: list[Stmt] = field(default_factory=list)

    def loop(self, loop: For) -> For:
        """``loop`` with its body and yields rewritten, its bounds left alone."""
        inner = _Scope(self.names, self.divisors, dict(self.known))
        inner.body(loop.body)
        yields = tuple(y if isinstance(y, Frag) else inner.expr(y) for y in loop.yields)
        return replaced(loop, body=tuple(inner.out), yields=yields)

    def body(self, body: Body) -> Body:
        for stmt in body:
            if isinstance(stmt, For):
                bounds = map_exprs(replaced(stmt, yields=()), self.expr)
                assert isinstance(bounds, For)
                self.out.append(self.loop(replaced(bounds, yields=stmt.yields)))
            else:
                new = map_exprs(stmt, self.expr)
                self.out.append(map_bodies(new, self.nested))
        return tuple(self.out)

    def nested(self, body: Body) -> Body:
        return _Scope(self.names, self.divisors, dict(self.known)).body(body)

    def expr(self, e: Expr) -> Expr:
        match e:
            case Binary(op, a, b):
                x, divisor = self.expr(a), self.divisors.get(b)
                if op not in _DIVISIONS or divisor is None or type_of(e) is not ScalarType.I32:
                    y = self.expr(b)
                    return e if x is a and y is b else binary(op, x, y)
                quotient, rest = self.divide(x, divisor)
                short = divisor.value <= rest
                if op == "//":
                    return quotient + select(short, 1, 0)
                if op == "%":
                    return select(short, rest - divisor.value, rest)
                return quotient + select(rest > 0, 1, 0) + select(rest > divisor.value, 1, 0)
            case Select():
                old = children(e)
                new = [self.expr(x) for x in old]
                return e if all(map(is_, old, new)) else select(*new)
        return e

    def divide(self, x: Expr, d: _Divisor) -> tuple[Expr, ...]:
        """The quotient of ``x`` or one less, and what is left of ``x``."""
        if not isinstance(x, (Var, Const, Special)):
            if x not in self.known:
                self.known[x] = (self.let("dividend", x),)
            (x,) = self.known[x]
        if (x, d) not in self.known:
            quotient = self.let("quotient", Binary("mulhi", x, d.reciprocal))
            self.known[x, d] = quotient, self.let("rest", x - quotient * d.value)
        return self.known[x, d]

    def let(self, name: str, value: Expr) -> Var:
        var = Var(self.names.new(name))
        self.out.append(Let(var, value))
        return var
