"""Import from text: what nvFuser prints for a definition, read without running it.

The text is Python, but only the statements that such text consists of are understood; they are
interpreted from the syntax tree, so nothing in a bug report is ever executed and nvFuser need not
be installed. Statements around the definition (imports, inputs, ``fd.execute``) are passed over.
"""

from __future__ import annotations

import ast

from lowering.ground.errors import UnsupportedError
from wsched.fusion.types import DataType
from wsched.importer.definition import Definition, Node, Ref, Value

__all__ = ["record_text"]

_SUPPORTED = (
    "the statements of a definition: x = fd.define_tensor(...), x = fd.define_scalar(...), "
    "x = fd.ops.NAME(...) and fd.add_output(x), with literal arguments and names defined above"
)
_WORDS = {"inf": float("inf"), "nan": float("nan")}


def record_text(text: str) -> Definition:
    """The definition in ``text``.

    Args:
        text: ``repr(fd)``, or a script that contains it: a function ``f(fd: FusionDefinition)``,
            or a body below ``with FusionDefinition() as fd:``.

    Raises:
        UnsupportedError: there is no definition or more than one, or a statement is not of the
            kinds that such a text has; the error names line and text.
    """
    try:
        module = ast.parse(text)
    except SyntaxError as error:
        line = (error.text or "").strip()
        raise UnsupportedError(f"line {error.lineno}: `{line}`", "Python") from None
    bodies = [body for s in module.body if (body := _body(s)) is not None]
    if len(bodies) != 1:
        raise UnsupportedError(
            f"text with {len(bodies)} fusion definitions",
            "text with one, a function with an argument `fd: FusionDefinition` "
            "or the body of `with FusionDefinition() as fd:`",
        )
    return _Recorder(text, *bodies[0]).definition()


def _body(s: ast.stmt) -> tuple[str, list[ast.stmt]] | None:
    """Name of the definition object and the statements, if ``s`` holds a definition."""
    if isinstance(s, ast.FunctionDef) and len(s.args.args) == 1:
        argument = s.args.args[0]
        named = argument.annotation is not None and _last(argument.annotation) == "FusionDefinition"
        return (argument.arg, s.body) if named or s.name.startswith("nvfuser_fusion") else None
    if not isinstance(s, ast.With) or len(s.items) != 1:
        return None
    item = s.items[0]
    made = isinstance(item.context_expr, ast.Call) and _last(item.context_expr.func)
    if made != "FusionDefinition" or not isinstance(item.optional_vars, ast.Name):
        return None
    calls_function = len(s.body) == 1 and _is_plain_call(s.body[0])
    return None if calls_function else (item.optional_vars.id, s.body)


def _last(e: ast.expr) -> str:
    """Last word of a dotted name or of a quoted annotation."""
    if isinstance(e, ast.Attribute):
        return e.attr
    if isinstance(e, ast.Name):
        return e.id
    return str(e.value) if isinstance(e, ast.Constant) else ""


def _is_plain_call(s: ast.stmt) -> bool:
    """``f(fd)``: the definition is in the function."""
    return (
        isinstance(s, ast.Expr)
        and isinstance(s.value, ast.Call)
        and isinstance(s.value.func, ast.Name)
    )


class _Recorder:
    """Interprets the statements of one definition."""

    def __init__(self, text: str, fd: str, body: list[ast.stmt]) -> None:
        self.lines = text.splitlines()
        self.fd = fd
        self.body = body
        self.nodes: list[Node] = []
        self.outputs: list[str] = []
        # Python name -> name in the definition, which differs once a name is assigned again.
        self.known: dict[str, str] = {}

    def definition(self) -> Definition:
        """Interpret every statement."""
        for s in self.body:
            self.statement(s)
        return Definition(tuple(self.nodes), tuple(self.outputs))

    def refuse(self, at: ast.stmt | ast.expr, supported: str = _SUPPORTED) -> UnsupportedError:
        """The error for a piece of text; the caller raises it."""
        line = self.lines[at.lineno - 1].strip()
        return UnsupportedError(f"line {at.lineno}: `{line}`", supported)

    def statement(self, s: ast.stmt) -> None:
        """Record an assignment or an output; pass over docstrings, ``pass`` and ``return``."""
        match s:
            case ast.Pass() | ast.Return(value=None) | ast.Expr(value=ast.Constant()):
                return
            case ast.Assign(targets=[target], value=ast.Call() as call):
                self.assign(s, target, call)
            case ast.Expr(value=ast.Call() as call) if self.method(call) == "add_output":
                self.output(s, call)
            case _:
                raise self.refuse(s)

    def method(self, call: ast.Call) -> str:
        """``add_output`` of ``fd.add_output``, ``ops.linear`` of ``fd.ops.linear``, else empty."""
        match call.func:
            case ast.Attribute(value=ast.Name(id=name), attr=attr) if name == self.fd:
                return attr
            case ast.Attribute(
                value=ast.Attribute(value=ast.Name(id=name), attr="ops"), attr=attr
            ) if name == self.fd:
                return f"ops.{attr}"
        return ""

    def assign(self, s: ast.stmt, target: ast.expr, call: ast.Call) -> None:
        """``x = fd...(...)`` or ``x, y = fd...(...)``."""
        targets = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
        names = tuple(t.id for t in targets if isinstance(t, ast.Name))
        method = self.method(call)
        is_op = method.startswith("ops.")
        if len(names) != len(targets) or not (
            is_op or method in ("define_tensor", "define_scalar")
        ):
            raise self.refuse(s)
        operands = tuple(self.value(a) for a in call.args)
        kwargs = tuple((self.keyword(k), self.value(k.value)) for k in call.keywords)
        results = tuple(f"{n}@{s.lineno}" if n in self.known else n for n in names)
        self.nodes.append(Node(method.removeprefix("ops."), results, operands, kwargs, s.lineno))
        self.known.update(zip(names, results, strict=True))

    def output(self, s: ast.stmt, call: ast.Call) -> None:
        """``fd.add_output(x)``."""
        match [self.value(a) for a in call.args]:
            case [Ref(name)] if not call.keywords:
                self.outputs.append(name)
            case _:
                raise self.refuse(s)

    def keyword(self, k: ast.keyword) -> str:
        """Name of a named argument; ``**`` is refused."""
        if k.arg is None:
            raise self.refuse(k.value)
        return k.arg

    def value(self, e: ast.expr) -> Value:
        """A literal, a list of them, ``DataType.X`` or a name defined above."""
        match e:
            case ast.Constant(value=bool() | int() | float() | str() | None as literal):
                return literal
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                inner = self.value(operand)
                if isinstance(inner, int | float) and not isinstance(inner, bool):
                    return -inner
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                return tuple(self.value(x) for x in elements)
            case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str(word))]):
                if word.lstrip("+-") in _WORDS:
                    return float(word)
            case ast.Name(id=name) if name in self.known:
                return Ref(self.known[name])
            case ast.Name(id=name) if name in _WORDS:
                return _WORDS[name]
            case ast.Attribute(value=base, attr=name) if _last(base) == "DataType":
                if name in DataType.__members__:
                    return DataType[name]
                raise self.refuse(e, f"DataType.{{{', '.join(DataType.__members__)}}}")
        raise self.refuse(e)
