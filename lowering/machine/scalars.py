"""Scalar expressions as Python closures, checked where C++ would differ from Python."""

from __future__ import annotations

from collections.abc import Callable

from lowering.ground.expr import Binary, Const, Expr, ScalarType, Select, Special, Var
from lowering.ground.scalar_ops import DIVISIONS, OPS
from lowering.machine.errors import FaultError

__all__ = ["Env", "Scalar", "bind", "compile_scalar"]

# Each operation on non-negative numbers, with what it does to them.
_NON_NEGATIVE = dict.fromkeys(DIVISIONS, "divides") | {"mulhi": "multiplies", "<<": "shifts"}
_BITS = {ScalarType.I32: 31, ScalarType.I64: 63, ScalarType.PRED: 1}


class Env(dict[str, int]):
    """Values of a warp's scalars; special registers are kept as ``%name``."""

    def __missing__(self, name: str) -> int:
        if name == "%lane":
            raise FaultError(
                "%lane differs between the threads of a warp; only elect gives it a value"
            )
        raise FaultError(f"scalar {name} has no value here")


Scalar = Callable[[Env], int]


def compile_scalar(e: Expr) -> Scalar:
    """A function that gives the value of ``e``.

    It raises FaultError on a division by a number that is not positive or of a negative one: C++
    rounds such a quotient the other way. The same goes for ``mulhi``, which divides by 2**31, and a
    shift of or by such a number means nothing there.
    """
    match e:
        case Const(value):
            return lambda env: value
        case Var(name):
            return lambda env: env[name]
        case Special(name):
            register = "%" + name
            return lambda env: env[register]
        case Select(cond, then, other):
            c, a, b = compile_scalar(cond), compile_scalar(then), compile_scalar(other)
            return lambda env: a(env) if c(env) else b(env)
        case Binary(op, lhs, rhs):
            left, right = compile_scalar(lhs), compile_scalar(rhs)
            f = _checked(op, e) if op in _NON_NEGATIVE else OPS[op][0]
            return lambda env: f(left(env), right(env))
    raise TypeError(f"not an expression: {e!r}")


def _checked(op: str, e: Expr) -> Callable[[int, int], int]:
    f = OPS[op][0]

    least = 1 if op in DIVISIONS else 0

    def checked(a: int, b: int) -> int:
        if a < 0 or b < least:
            raise FaultError(f"{e} {_NON_NEGATIVE[op]} {a} by {b}")
        return f(a, b)

    return checked


def bind(env: Env, var: Var, value: int) -> None:
    """Give ``var`` a value; raises FaultError where its type cannot hold it."""
    limit = 1 << _BITS[var.type]
    if not -limit <= value < limit:
        raise FaultError(f"{var.name}: {var.type.value} cannot hold {value}")
    env[var.name] = value
