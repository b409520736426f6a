"""One step of a schedule as plain data: the call that made it."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from lowering.ground.expr import Binary, Const, Expr, Special, Var, children
from lowering.ground.frozen import quick

__all__ = ["MOST_PARTS", "PrimitiveCall", "call_text", "has_many_parts", "is_long", "value_text"]

MOST_PARTS = 100
"""Names, numbers and operators of an expression of a schedule: what recurses over them may."""

_MOST_BITS = 64

_INFIX = ("+", "-", "*", "//", "%", "<<", "^", "<", "<=")
_FUNCTIONS = {"min": "minimum", "max": "maximum"}


def call_text(op: str, args: tuple[Any, ...], kwargs: tuple[tuple[str, Any], ...] = ()) -> str:
    """A call as Python source, ``split('T3', 0, 128)``."""
    named = [f"{k}={value_text(v)}" for k, v in kwargs]
    return f"{op}({', '.join([*map(value_text, args), *named])})"


def value_text(value: Any) -> str:
    """A value as Python source; what no schedule takes, expressions of many parts, long numbers and
    what is nested deeply, is left out.
    """
    try:
        return _python(value)
    except RecursionError:
        return "..."


def has_many_parts(e: Expr) -> bool:
    """Whether an expression has more than :data:`MOST_PARTS`, each as often as it is read."""
    left, found = [e], 0
    while left and found <= MOST_PARTS:
        found += 1
        left += children(left.pop())
    return found > MOST_PARTS


def is_long(value: Any) -> bool:
    """Whether a value is a number of more digits than any that a schedule takes has."""
    value = value.value if isinstance(value, Const) else value
    return isinstance(value, int) and value.bit_length() > _MOST_BITS


def _python(value: Any) -> str:
    """Python that makes ``value``: operators of expressions, dataclasses without defaults."""
    if is_long(value) or (isinstance(value, Expr) and has_many_parts(value)):
        return "..."
    match value:
        case Special(name) | Var(name):
            return f"{type(value).__name__}({name!r})"
        case Const(number):
            return str(number)
        case Binary(op, lhs, rhs) if op in _INFIX:
            nested = f"({_python(rhs)})" if isinstance(rhs, Binary) else _python(rhs)
            outer = f"({_python(lhs)})" if isinstance(lhs, Binary) else _python(lhs)
            return f"{outer} {op} {nested}"
        case Binary(op, lhs, rhs):
            return f"{_FUNCTIONS.get(op, op)}({_python(lhs)}, {_python(rhs)})"
    if is_dataclass(value):
        named = [(f.name, getattr(value, f.name), f.default) for f in fields(value)]
        given = tuple((name, v) for name, v, default in named if v != default)
        return call_text(type(value).__name__, (), given)
    if type(value) is dict:
        return f"{{{', '.join(f'{_python(k)}: {_python(v)}' for k, v in value.items())}}}"
    if type(value) in (tuple, list):
        inside = ", ".join(map(_python, value))
        return f"[{inside}]" if type(value) is list else f"({inside}{',' * (len(value) == 1)})"
    return repr(value)


@quick
@dataclass(frozen=True, slots=True)
class PrimitiveCall:
    """A call of the primitive ``op``; the fusion, its first argument, is left out."""

    op: str
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        return call_text(self.op, self.args, self.kwargs)
