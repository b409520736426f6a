"""Functions that give the values of scalars, made once of each expression.

They take the names that have values, special registers as ``%name``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter

from lowering.ground.expr import I32_MAX, Binary, Const, Expr, Select, Special, Var
from lowering.ground.scalar_ops import OPS
from lowering.proof.board import Env
from lowering.proof.obligation import UnknownError

__all__ = ["Value", "value_of", "value_of_let", "values_of"]

Value = Callable[[Env], int]

_DIVISIONS = ("//", "%", "ceildiv", "stage", "parity")


@lru_cache(maxsize=4096)
def value_of(e: Expr) -> Value:
    """A function that gives the value of an expression; special registers are ``%name``."""
    match e:
        case Const(value):
            return lambda env: value
        case Var(name):
            return itemgetter(name)
        case Special(name):
            return itemgetter("%" + name)
        case Select(cond, then, other):
            c, a, b = value_of(cond), value_of(then), value_of(other)
            return lambda env: a(env) if c(env) else b(env)
        case Binary("mulhi"):
            raise UnknownError(f"the value of {e}: {e.rhs} is not known to be a reciprocal")
        case Binary(op, lhs, Const(number)):
            f, left = OPS[op][0], _dividend(e, value_of(lhs)) if op in _DIVISIONS else value_of(lhs)
            return lambda env: f(left(env), number)
        case Binary(op, lhs, rhs):
            f, left, right = OPS[op][0], value_of(lhs), value_of(rhs)
            left = _dividend(e, left) if op in _DIVISIONS else left
            return lambda env: f(left(env), right(env))
    raise UnknownError(f"the value of {e}")


def _dividend(e: Expr, value: Value) -> Value:
    """The same of what is divided; C++ rounds a negative quotient the other way."""

    def checked(env: Env) -> int:
        found = value(env)
        if found < 0:
            raise UnknownError(f"{e} divides {found}")
        return found

    return checked


def values_of(asked: Sequence[Expr]) -> Callable[[Env], list[int]]:
    """A function that gives the values of expressions."""
    found = [value_of(e) for e in asked]
    if all(isinstance(e, Const) for e in asked):
        known = [v({}) for v in found]
        return lambda env: [*known]
    if len(found) == 1:
        (only,) = found
        return lambda env: [only(env)]
    if len(found) == 2:
        first, second = found
        return lambda env: [first(env), second(env)]
    return lambda env: [v(env) for v in found]


def value_of_let(value: Expr, lets: Mapping[str, Expr]) -> Value:
    """A function that gives what a name stands for.

    ``mulhi(x, (2**31 - 1) // d)`` is ``x // d`` or one less (``passes.divide_by_reciprocal``), the
    first for most of the small numbers that are followed here, the other one for more and more of
    larger ones. So it is one less for multiples of ``d``, as it always is, and for odd numbers.
    """
    match value:
        case Binary("mulhi", x, Var(name)):
            match lets.get(name):
                case Binary("//", Const(most), d) if most == I32_MAX:
                    dividend, divisor = _dividend(value, value_of(x)), value_of(d)

                    def quotient(env: Env) -> int:
                        a, b = dividend(env), divisor(env)
                        return a // b - (a >= b and (a % b == 0 or a & 1))

                    return quotient
    return value_of(value)
