"""Numbers and lists that a text computes: what Python would make of them, within bounds."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import Any

__all__ = [
    "BITS", "LENGTH", "NESTING", "POWER", "PURE", "WORDS", "NoValueError", "binary", "bounded",
    "compare", "computed",
]  # fmt: skip

LENGTH, BITS, NESTING = 10_000, 128, 4
"""Bounds of a value: elements of a list, bits of a number, lists in lists."""

POWER = 64
"""Largest number that is raised to a power, and largest power."""

WORDS: dict[str, float] = {"inf": math.inf, "nan": math.nan, "pi": math.pi, "e": math.e}
"""Numbers that have a name."""

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda x, y: x in y, ast.NotIn: lambda x, y: x not in y,
}  # fmt: skip

PURE: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "bool": bool,
    "enumerate": lambda *given: tuple(enumerate(*given)),
    "float": float,
    "int": int,
    "len": len,
    "list": lambda x=(): tuple(x),
    "math.ceil": math.ceil,
    "math.floor": math.floor,
    "math.prod": math.prod,
    "math.sqrt": math.sqrt,
    "max": max,
    "min": min,
    "range": range,
    "reversed": lambda x: tuple(x)[::-1],
    "sorted": lambda x: tuple(sorted(x)),
    "sum": sum,
    "tuple": lambda x=(): tuple(x),
    "zip": lambda *given: tuple(zip(*given, strict=False)),
}
"""Python's own functions that a text may call; lists are tuples here."""


class NoValueError(Exception):
    """An expression without a value, or with one out of bounds; the text says what is allowed."""


def binary(op: ast.operator, x: Any, y: Any) -> Any:
    """``x op y`` of two numbers, of two lists, or of a list and how often it is repeated.

    Raises:
        NoValueError: operands of other kinds, a result out of bounds, or none.
    """
    function = _BINARY.get(type(op))
    numbers = [v for v in (x, y) if isinstance(v, int | float | complex)]
    lists = [v for v in (x, y) if isinstance(v, tuple)]
    if function is None or len(numbers) + len(lists) != 2:
        raise NoValueError("sums and products of numbers and lists")
    if isinstance(op, ast.Pow) and any(abs(v) > POWER for v in numbers):
        raise NoValueError(f"powers of numbers up to {POWER}")
    if lists and numbers:
        times = numbers[0]
        if not isinstance(op, ast.Mult) or not isinstance(times, int):
            raise NoValueError("lists repeated a whole number of times")
        if len(lists[0]) * times > LENGTH:
            raise NoValueError(f"lists of at most {LENGTH}")
    return computed(function, x, y)


def compare(op: ast.cmpop, x: Any, y: Any) -> bool:
    """Whether ``x op y``.

    Raises:
        NoValueError: they do not compare.
    """
    return bool(computed(_COMPARE[type(op)], x, y))


def computed(function: Callable[..., Any], *given: Any) -> Any:
    """A function's result, within bounds.

    Raises:
        NoValueError: Python refuses it, or it is out of bounds.
    """
    try:
        return bounded(function(*given))
    except (ArithmeticError, TypeError, ValueError, MemoryError):
        raise NoValueError("expressions that have a value") from None


def bounded(found: Any) -> Any:
    """A list or number, unless it is too large; a range as a list.

    Raises:
        NoValueError: it is.
    """
    if isinstance(found, tuple | range) and len(found) > LENGTH:
        raise NoValueError(f"lists of at most {LENGTH}")
    if isinstance(found, int) and found.bit_length() > BITS:
        raise NoValueError(f"numbers of at most {BITS} bits")
    if _nesting(found) > NESTING:
        raise NoValueError(f"at most {NESTING} lists in each other")
    return tuple(found) if isinstance(found, range) else found


def _nesting(found: Any) -> int:
    return 1 + max(map(_nesting, found), default=0) if isinstance(found, tuple) else 0
