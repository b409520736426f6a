"""One step of a schedule as plain data: the call that made it."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from lowering.ground.expr import Binary, Const, Special, Var
from lowering.ground.frozen import quick

__all__ = ["PrimitiveCall", "call_text"]


_INFIX = ("+", "-", "*", "//", "%", "<<", "^", "<", "<=")
_FUNCTIONS = {"min": "minimum", "max": "maximum"}


def call_text(op: str, args: tuple[Any, ...], kwargs: tuple[tuple[str, Any], ...] = ()) -> str:
    """A call as Python source, ``split('T3', 0, 128)``."""
    named = [f"{k}={_python(v)}" for k, v in kwargs]
    return f"{op}({', '.join([*map(_python, args), *named])})"


def _python(value: Any) -> str:
    """Python that makes ``value``: operators of expressions, dataclasses without defaults."""
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
