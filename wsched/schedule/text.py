"""The calls of a schedule as text: Python in form, parsed and never executed.

::

    def schedule(s : Schedule) -> None :
        s.cache_after('T2', LoadStoreOpType.CpAsyncBulkTensorTile)
        s.split('T5', 0, 128, labels=('Mo', 'Mi'))

One call a line; arguments are numbers, strings, tuples, lists and dicts, members of the enums of
the scheduling language, ``WarpSpecialized(...)``, ``Pipelined()`` and extents such as
``ceildiv(Var('M'), 128)`` or ``Special('nctaid.x') // 2``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import Any

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import SPECIALS, Expr, Special, Var, as_expr, binary
from wsched.fusion import (
    DataType,
    LoadStoreOpType,
    MemoryType,
    ParallelType,
    Pipelined,
    PrimitiveCall,
    WarpSpecialized,
    is_long,
)
from wsched.importer.text.source import Fault, Source
from wsched.schedule.options import CachePolicy, MmaInputSmemSwizzle, TensorMapL2Promotion
from wsched.schedule.primitives.replay import PRIMITIVES

__all__ = ["calls_text", "has_calls", "parse_calls"]

_ENUMS = {
    e.__name__: e
    for e in (
        CachePolicy,
        DataType,
        LoadStoreOpType,
        MemoryType,
        MmaInputSmemSwizzle,
        ParallelType,
        TensorMapL2Promotion,
    )
}
_LOADERS = {"WarpSpecialized": WarpSpecialized, "Pipelined": Pipelined}
_OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%"}
_FUNCTIONS = {"ceildiv": "ceildiv", "minimum": "min", "maximum": "max", "min": "min", "max": "max"}
_CALLS = ("configure", "debug_print", *PRIMITIVES)

_VALUES = (
    "numbers, strings, True, False and None", "tuples, lists and dicts",
    *(f"{name}.{{{', '.join(e.__members__)}}}" for name, e in _ENUMS.items()),
    "WarpSpecialized(...)", "Pipelined()", "Special('nctaid.x')", "Var('M')",
    f"{', '.join(_OPERATORS.values())} and {', '.join([*_FUNCTIONS][:3])} of extents",
)  # fmt: skip


_DEEP = "this is nested deeper than Python takes it"
_LONG = "a number has more than 64 bits"

_FUNCTION = re.compile(r"^def schedule\(\s*\w+\s*:\s*(?:wsched\.)?Schedule\s*\)", re.MULTILINE)


def has_calls(text: str) -> bool:
    """Whether a text has a function ``schedule(s : Schedule)``."""
    return _FUNCTION.search(text) is not None


def calls_text(history: Iterable[PrimitiveCall]) -> str:
    """The calls as a function ``schedule``, ending with a newline."""
    lines = [f"    s.{call}\n" for call in history] or ["    pass\n"]
    return "".join(["def schedule(s : Schedule) -> None :\n", *lines])


def parse_calls(text: str) -> Iterator[tuple[int, PrimitiveCall]]:
    """The calls of the one function ``schedule`` in a text, each with its line, from 1.

    Raises:
        ScheduleError: rule ``text``: no Python, no such function or more than one, or a statement
            or argument of another kind; it names the line.
    """
    source = Source(text)
    module = _parsed(source)
    found = [s for s in module.body if isinstance(s, ast.FunctionDef) and s.name == "schedule"]
    legal = ("def schedule(s : Schedule) -> None :",)
    if len(found) != 1:
        why = f"the text has {len(found)} functions schedule(s), a schedule is one"
        raise ScheduleError("text", "def schedule", why, legal)
    (function,) = found
    takes = function.args
    if len(takes.args) != 1 or takes.posonlyargs or takes.kwonlyargs or takes.vararg or takes.kwarg:
        wrote = f"line {function.lineno}: {source.shown(function.lineno)}"
        raise ScheduleError("text", wrote, "a schedule takes one argument, itself", legal)
    reader = _Reader(source, takes.args[0].arg)
    for statement in function.body:
        if not isinstance(statement, ast.Pass):
            try:
                call = reader.call(statement)
            except RecursionError:
                raise reader.refuse(statement, _DEEP) from None
            yield statement.lineno, call


def _parsed(source: Source) -> ast.Module:
    """The syntax tree; raises as :func:`parse_calls`."""
    found = source.read()
    if not isinstance(found, Fault):
        return found
    why = {
        Fault.Kind.CHARACTER: f"Python has no {found.character}",
        Fault.Kind.DEPTH: _DEEP,
        Fault.Kind.DIGITS: _LONG,
        Fault.Kind.OTHER: "this is no Python",
    }[found.kind]
    raise ScheduleError("text", f"line {found.line}: {source.shown(found.line)}", why)


class _Reader:
    """Reads calls of the object ``name`` from syntax trees."""

    def __init__(self, source: Source, name: str) -> None:
        self.source, self.name = source, name

    def call(self, s: ast.stmt) -> PrimitiveCall:
        """``s.primitive(...)``."""
        match s:
            case ast.Expr(ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=op)) as call):
                if name == self.name and op in _CALLS:
                    args = tuple(map(self.value, call.args))
                    return PrimitiveCall(op, args, self.keywords(call))
        calls = tuple(f"{self.name}.{op}(...)" for op in _CALLS)
        raise self.refuse(s, "this is no call of the schedule", calls)

    def keywords(self, call: ast.Call) -> tuple[tuple[str, Any], ...]:
        """Named arguments; ``**`` is refused."""
        found = []
        for k in call.keywords:
            if k.arg is None:
                raise self.refuse(k.value, "arguments are written out", ("name=value",))
            found.append((k.arg, self.value(k.value)))
        return tuple(found)

    def value(self, e: ast.expr) -> Any:
        """A literal, a container, an enum's member, who loads, or an extent."""
        match e:
            case ast.Constant(value=bool() | int() | str() | None as literal):
                return self.short(e, literal)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(n))):
                return self.short(e, -n)
            case ast.Tuple(elts=elements):
                return tuple(map(self.value, elements))
            case ast.List(elts=elements):
                return list(map(self.value, elements))
            case ast.Dict(keys=keys, values=values):
                plain = [k for k in keys if k is not None]
                if len(plain) == len(keys):
                    return dict(zip(map(self.key, plain), map(self.value, values), strict=True))
            case ast.Attribute(value=ast.Name(id=enum), attr=member) if enum in _ENUMS:
                if member in _ENUMS[enum].__members__:
                    return _ENUMS[enum][member]
            case ast.Call(func=ast.Name(id=name)) if name in _LOADERS:
                return self.who_loads(e, name)
            case ast.Call() | ast.BinOp():
                return self.extent(e)
        raise self.refuse(e, f"{ast.unparse(e)} is no argument of a call", _VALUES)

    def short(self, e: ast.expr, value: Any) -> Any:
        """The value, unless it is a number that no reason could print."""
        if is_long(value):
            raise self.refuse(e, _LONG)
        return value

    def key(self, e: ast.expr) -> Any:
        """A key of a dict: a tensor or a position."""
        if isinstance(e, ast.Constant) and isinstance(e.value, str | int):
            return self.short(e, e.value)
        raise self.refuse(e, f"{ast.unparse(e)} is no key of a dict", ("numbers", "strings"))

    def who_loads(self, call: ast.Call, name: str) -> Any:
        """Who loads: ``WarpSpecialized(on=ParallelType.TIDy, ...)`` or ``Pipelined()``."""
        args = tuple(map(self.value, call.args))
        try:
            return _LOADERS[name](*args, **dict(self.keywords(call)))
        except TypeError:
            legal = ("WarpSpecialized(on, num_registers, stage_slice_position)", "Pipelined()")
            raise self.refuse(call, f"{name} takes other arguments", legal) from None

    def extent(self, e: ast.expr) -> Expr:
        """A number of iterations: sums, products and quotients of names and numbers."""
        match e:
            case ast.Constant(value=int(n)) if not isinstance(e.value, bool):
                return as_expr(self.short(e, n))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                made = binary(_OPERATORS[type(op)], self.extent(left), self.extent(right))
                self.short(e, made)
                return made
            case ast.Call(func=ast.Name(id=op), args=[a, b], keywords=[]) if op in _FUNCTIONS:
                return binary(_FUNCTIONS[op], self.extent(a), self.extent(b))
            case ast.Call(
                func=ast.Name(id="Special"), args=[ast.Constant(value=str(name))], keywords=[]
            ) if name in SPECIALS:
                return Special(name)
            case ast.Call(
                func=ast.Name(id="Var"), args=[ast.Constant(value=str(name))], keywords=[]
            ):
                return Var(name)
        raise self.refuse(e, f"{ast.unparse(e)} is no extent", _VALUES[-3:])

    def refuse(
        self, at: ast.stmt | ast.expr, why: str, legal: tuple[str, ...] = ()
    ) -> ScheduleError:
        """The error for a piece of text; the caller raises it."""
        line = self.source.shown(at.lineno)
        return ScheduleError("text", f"line {at.lineno}: {line}", why, legal)
