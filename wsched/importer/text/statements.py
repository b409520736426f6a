"""Statements of a definition, one after the other; its functions are followed where called."""

from __future__ import annotations

import ast
from collections import ChainMap
from dataclasses import dataclass

from lowering.ground.errors import UnsupportedError
from wsched.importer.definition import Ref
from wsched.importer.text.arguments import Call
from wsched.importer.text.expressions import CONDITIONS, Expressions
from wsched.importer.text.values import (
    Function,
    Library,
    Python,
    Scope,
    Unread,
    defaults_of,
    touches,
)

__all__ = ["Returned", "Statements"]


@dataclass(frozen=True, slots=True)
class Returned:
    """What a function returns."""

    value: Python


class Statements(Expressions):
    """Reads statements into the recording."""

    def block(self, body: list[ast.stmt], scope: Scope) -> Returned | None:
        """Read statements; what is returned, if they end so.

        Raises:
            UnsupportedError: a statement that is not understood.
        """
        for s in body:
            self.step(s)
            with self.deeper(s):
                if (found := self.statement(s, scope)) is not None:
                    return found
        return None

    def statement(self, s: ast.stmt, scope: Scope) -> Returned | None:
        """Read one statement; assertions say nothing and are passed over."""
        match s:
            case ast.Pass() | ast.Assert() | ast.Global() | ast.Nonlocal():
                return None
            case ast.Return(value=value):
                return Returned(None if value is None else self.read(value, scope))
            case ast.Import() | ast.ImportFrom():
                scope.update(imported(s))
            case ast.FunctionDef():
                scope[s.name] = Function(s, scope)
            case ast.Assign(targets=targets, value=value):
                self.assign(s, targets, value, scope)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self.assign(s, [target], value, scope)
            case ast.AugAssign(target=ast.Name() as target, op=op, value=value):
                sum_ = ast.BinOp(ast.Name(target.id, ast.Load()), op, value)
                self.assign(s, [target], _at(sum_, s), scope)
            case ast.Expr(value=value):
                self.expression(s, value, scope)
            case ast.For(orelse=[]):
                for x in self.turns(s.iter, scope):
                    self.bind(s.target, x, scope)
                    if (found := self.block(s.body, scope)) is not None:
                        return found
            case ast.If():
                return self.condition(s, scope)
            case _:
                raise self.source.refusal(s)
        return None

    def assign(self, s: ast.stmt, targets: list[ast.expr], value: ast.expr, scope: Scope) -> None:
        """Give names what an expression stands for.

        What is not understood is an error here where it has to do with the definition, else where
        the name is used.
        """
        last = targets[-1]
        parts = last.elts if isinstance(last, ast.Tuple | ast.List) else [last]
        names = tuple(n for p in parts if (n := _name(p)))
        try:
            found = self.read(value, scope, names if len(names) == len(parts) else ())
        except UnsupportedError as e:
            if touches(value, scope) or len(parts) > 1:
                raise
            found = Unread(e)
        for target in targets:
            self.bind(target, found, scope)

    def expression(self, s: ast.stmt, e: ast.expr, scope: Scope) -> None:
        """A call whose result nobody takes, or a literal."""
        if not isinstance(e, ast.Call):
            if isinstance(e, ast.Constant):
                return
            raise self.source.refusal(s)
        base: ast.expr = e
        while isinstance(base, ast.Attribute | ast.Call | ast.Subscript):
            base = base.func if isinstance(base, ast.Call) else base.value
        of = scope.get(base.id) if isinstance(base, ast.Name) else None
        if isinstance(of, Ref) and isinstance(e.func, ast.Attribute):
            self.recording.mark(e, of, e.func.attr)
        elif touches(e, scope) or isinstance(of, Function):
            self.read(e, scope)

    def condition(self, s: ast.If, scope: Scope) -> Returned | None:
        """The branch that the text decides for; both, where it does not but they define nothing."""
        chosen = self.truth(s.test, scope)
        if chosen is not None:
            return self.block(s.body if chosen else s.orelse, scope)
        before = self.state(scope)
        for body in (s.body, s.orelse):
            if self.block(body, scope) is not None or self.state(scope) != before:
                raise self.source.refusal(s, CONDITIONS)
        return None

    def state(self, scope: Scope) -> tuple[int, int, Scope]:
        """What a statement may change, but for marks."""
        return len(self.recording.nodes), len(self.recording.outputs), dict(scope)

    def call_function(self, at: ast.Call, function: Function, call: Call) -> Python:
        """Follow a call of a function of the text, whose statements count."""
        args, (given, named) = function.node.args, call
        names = [a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
        defaults = defaults_of(args)
        bound: Scope = {**dict(zip(names, given, strict=False)), **named}
        for name, default in defaults.items():
            if name not in bound:
                bound[name] = self.read(default, function.scope)
        twice = set(names[: len(given)]) & set(named)
        fits = set(bound) == set(names) and len(given) <= len(names) and not twice
        if args.vararg or args.kwarg or not fits:
            raise self.source.refusal(at, f"{function.node.name}({', '.join(names)})")
        returned = self.block(function.node.body, ChainMap(bound, function.scope))
        return None if returned is None else returned.value


def imported(s: ast.Import | ast.ImportFrom) -> Scope:
    """The names that an import defines."""
    module = f"{s.module}." if isinstance(s, ast.ImportFrom) and s.module else ""
    return {a.asname or a.name.partition(".")[0]: _library(module, a) for a in s.names}


def _library(module: str, alias: ast.alias) -> Library:
    whole = module or alias.asname
    return Library(f"{module}{alias.name if whole else alias.name.partition('.')[0]}")


def _name(target: ast.expr) -> str:
    """What results that are assigned to a target are called."""
    if isinstance(target, ast.Name):
        return target.id
    return target.attr if isinstance(target, ast.Attribute) else ""


def _at(made: ast.expr, s: ast.stmt) -> ast.expr:
    return ast.fix_missing_locations(ast.copy_location(made, s))
