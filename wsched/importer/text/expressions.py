"""Expressions of a text: read from the syntax tree, never executed."""

from __future__ import annotations

import ast
from collections import ChainMap
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches

from lowering.ground.errors import UnsupportedError
from wsched.fusion.types import DataType
from wsched.importer.definition import Open, Ref, Value
from wsched.importer.text.arguments import Call
from wsched.importer.text.arithmetic import (
    PURE,
    WORDS,
    NoValueError,
    binary,
    bounded,
    compare,
    computed,
)
from wsched.importer.text.recording import NULL, Recording
from wsched.importer.text.torch_values import TORCH_TYPES, attribute, torch_value
from wsched.importer.text.values import (
    Function,
    Handle,
    Library,
    Method,
    Python,
    Scope,
    TorchTensor,
    Unread,
    is_open,
)

__all__ = ["CONDITIONS", "Expressions"]


CONDITIONS = "conditions that the text decides"

DEPTH, STEPS = 60, 100_000
"""Bounds of what is read: nesting of expressions, statements and turns of loops."""

_TYPE_OF = "torch_dtype_to_nvfuser_dtype"
_LIBRARIES = (
    "torch", "nvfuser", "nvfuser_direct", "math", "np", "numpy", "DataType", "FusionDefinition",
    _TYPE_OF, *PURE,
)  # fmt: skip
"""Names that mean something in a text that does not import them."""


class Expressions:
    """What expressions stand for; calls of the definition are recorded on the way.

    Args:
        recording: the definition so far.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.source = recording.source
        self.depth = 0
        self.steps = 0
        self.last: ast.AST | None = None

    def call_function(self, at: ast.Call, function: Function, call: Call) -> Python:
        """A call of a function of the text."""
        raise NotImplementedError

    def step(self, at: ast.AST) -> None:
        """Count a statement or a turn of a loop; all that follow the last one are refused by it."""
        self.steps += 1
        if self.steps > STEPS:
            self.last = self.last or at
            text = f"texts of at most {STEPS} steps"
            raise self.source.refusal(self.last, text, "one step too many")

    @contextmanager
    def deeper(self, at: ast.AST) -> Iterator[None]:
        """One level more of expressions, statements and calls in each other."""
        if self.depth >= DEPTH:
            raise self.source.refusal(at, f"{DEPTH} levels", "deeper nesting")
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1

    def value(self, e: ast.expr, scope: Scope) -> Value:
        """What a definition can keep: no module, function or method."""
        found = self.read(e, scope)
        if not _is_value(found):
            raise self.source.refusal(e)
        return found  # type: ignore[return-value]  # just checked

    def read(self, e: ast.expr, scope: Scope, names: tuple[str, ...] = ()) -> Python:
        """What an expression stands for; ``names`` are those that its results are assigned to.

        Raises:
            UnsupportedError: it is not understood, or a name is not defined.
        """
        with self.deeper(e):
            return self._read(e, scope, names)

    def _read(self, e: ast.expr, scope: Scope, names: tuple[str, ...]) -> Python:
        match e:
            case ast.Constant(value=bool() | int() | float() | complex() | str() | None as literal):
                return literal
            case ast.Name(id=name):
                return self.name(e, name, scope)
            case ast.Attribute():
                return self.attribute(e, scope)
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                return self.list_of(e, self.elements(elements, scope))
            case ast.Call():
                return self.call(e, scope, names)
            case ast.ListComp() | ast.GeneratorExp():
                return self.list_of(e, self.comprehension(e, e.generators, ChainMap({}, scope)))
            case ast.Subscript(value=base, slice=index):
                return self.item(e, self.read(base, scope), index, scope)
            case ast.IfExp(test=test, body=body, orelse=other):
                chosen = self.truth(test, scope)
                if chosen is None:
                    raise self.source.refusal(test, CONDITIONS)
                return self.read(body if chosen else other, scope, names)
        return self.computed(e, scope)

    def open(self, e: ast.expr) -> Open:
        """The value of an expression that the text leaves open."""
        return Open(self.source.text_of(e), e.lineno)

    # --- names ---------------------------------------------------------------------------------

    def name(self, e: ast.expr, name: str, scope: Scope) -> Python:
        """What a name stands for."""
        if name in scope:
            found = scope[name]
            if isinstance(found, Unread):
                raise found.error
            return Open(name, e.lineno) if isinstance(found, Open) else found
        if name in ("inf", "nan"):
            return WORDS[name]
        if name in _LIBRARIES:
            return Library(name)
        near = get_close_matches(name, scope, cutoff=0.5)
        hint = f"Did you mean {near[0]}?" if near else ""
        raise self.source.refusal(e, "names defined above it", f"the name {name}", hint)

    def attribute(self, e: ast.Attribute, scope: Scope) -> Python:
        """``fd.ops.linear``, ``DataType.Half``, ``tensor.size``, ``torch.bfloat16``."""
        base = self.read(e.value, scope)
        match base:
            case Handle(path=""):
                held = scope.get(f"fd.{e.attr}", Handle(e.attr))
                return self.open(e) if isinstance(held, Open) else held
            case Handle(path="ops"):
                return Handle(f"ops.{e.attr}")
            case Ref():
                return self.open(e) if e.attr == "ndim" else Method(base, e.attr)
            case Open():
                return self.open(e)
            case TorchTensor():
                return Library(base.dtype) if e.attr == "dtype" else attribute(base, e.attr)
            case Library(path=path):
                if path.rpartition(".")[2] == "DataType":
                    return self.data_type(e)
                if path in ("math", "torch", "np", "numpy") and e.attr in WORDS:
                    return WORDS[e.attr]
                return Library(f"{path}.{e.attr}")
        raise self.source.refusal(e)

    def data_type(self, e: ast.Attribute) -> Python:
        """A type by its name; the one that says that there is none as a word."""
        if e.attr == "Null":
            return NULL
        if e.attr in DataType.__members__:
            return DataType[e.attr]
        known = list(DataType.__members__)
        near = get_close_matches(e.attr, known)
        hint = f"Did you mean {near[0]}?" if near else ""
        raise self.source.refusal(e, f"DataType.{{{', '.join(known)}}}", f"DataType.{e.attr}", hint)

    # --- calls ---------------------------------------------------------------------------------

    def call(self, e: ast.Call, scope: Scope, names: tuple[str, ...]) -> Python:
        """A call of the definition, of a function of the text, or of a few of Python's."""
        function = self.read(e.func, scope)
        if function == Handle("from_pytorch"):
            return self.like_torch(e, scope, names)
        keywords = [k for k in e.keywords if k.arg is not None]
        pure = isinstance(function, Library) and function.path in PURE
        if len(keywords) != len(e.keywords) or (pure and keywords):
            raise self.source.refusal(e)
        arguments = tuple(self.elements(e.args, scope))
        named = {str(k.arg): self.read(k.value, scope) for k in keywords}
        if isinstance(function, Function):
            return self.call_function(e, function, (arguments, named))  # type: ignore[arg-type]
        given = (*arguments, *named.values())
        if (tensor := torch_value(function, arguments, named)) is not None:
            return tensor
        if isinstance(function, Library | Open):
            return self.foreign(e, function, given)
        if not all(map(_is_value, given)):
            raise self.source.refusal(e)
        return self.recorded(e, function, names, (arguments, named))  # type: ignore[arg-type]

    def like_torch(self, e: ast.Call, scope: Scope, names: tuple[str, ...]) -> Python:
        """``fd.from_pytorch``: an input like a tensor that the text makes, or of any shape."""
        found: Python = None
        if len(e.args) == 1:
            with suppress(UnsupportedError):
                found = self.read(e.args[0], scope)
        if not isinstance(found, TorchTensor):
            return self.recording.tensor_like(e, names)
        named: dict[str, Value] = {
            "sizes": found.sizes,
            "strides": found.strides,
            "dtype": DataType[TORCH_TYPES[found.dtype]],
            "is_cpu": False,
        }
        named |= {str(k.arg): self.value(k.value, scope) for k in e.keywords}
        return self.recording.define(e, "define_tensor", names, ((), named))

    def recorded(self, e: ast.Call, function: Python, names: tuple[str, ...], call: Call) -> Python:
        """A call of the definition or of a method of its tensors."""
        match function:
            case Handle(path="add_output"):
                self.recording.output(e, call)
                return None
            case Handle(path=path) if path.startswith("define_"):
                if path in ("define_tensor", "define_scalar", "define_vector"):
                    return self.recording.define(e, path, names, call)
                if path == "define_constant":
                    return self.recording.constant(e, names, call)
            case Handle(path=path) if path.startswith("ops."):
                return self.recording.operation(e, path.removeprefix("ops."), names, call)
            case Method(of=tensor, name="size" | "shape" as op):
                call = (tensor, *call[0]), call[1]
                return self.recording.operation(e, op, names, call)
            case Method(of=tensor, name="dtype"):
                return self.recording.dtype_of(tensor, e.lineno)
        raise self.source.refusal(e)

    def foreign(self, e: ast.Call, function: Library | Open, given: tuple[Python, ...]) -> Python:
        """A call of something that is not the definition's, which may not do anything to it."""
        held = any(isinstance(x, Handle | Ref | Method | Function) for x in given)
        if not held and (isinstance(function, Open) or any(map(is_open, given))):
            return self.open(e)
        match function, given:
            case Library(path=path), [Library(path=of)] if path.endswith(_TYPE_OF):
                if of in TORCH_TYPES:
                    return DataType[TORCH_TYPES[of]]
            case Library(path="float"), [str(word)] if word.lstrip("+-") not in ("inf", "nan"):
                raise self.source.refusal(e, "float('inf'), float('nan')")
            case Library(path=path), _ if path in PURE:
                return self.valued(e, lambda: computed(PURE[path], *given))
        raise self.source.refusal(e)

    # --- lists ---------------------------------------------------------------------------------

    def list_of(self, e: ast.expr, elements: list[Python]) -> Python:
        """A list, unless it is too long."""
        return self.valued(e, lambda: bounded(tuple(elements)))

    def elements(self, given: list[ast.expr], scope: Scope) -> list[Python]:
        """What a list or the arguments of a call consist of."""
        found: list[Python] = []
        for x in given:
            if isinstance(x, ast.Starred):
                inner = self.read(x.value, scope)
                if not isinstance(inner, tuple):
                    raise self.source.refusal(x, "lists that the text has")
                found += inner
            else:
                found.append(self.read(x, scope))
        return found

    def comprehension(
        self, e: ast.ListComp | ast.GeneratorExp, loops: list[ast.comprehension], scope: Scope
    ) -> list[Python]:
        """The elements of a comprehension."""
        if not loops:
            return [self.read(e.elt, scope)]
        loop, found = loops[0], list[Python]()
        for x in self.turns(loop.iter, scope):
            self.bind(loop.target, x, scope)
            chosen = [self.truth(test, scope) for test in loop.ifs]
            if None in chosen:
                raise self.source.refusal(loop.iter, CONDITIONS)
            if all(chosen):
                found += self.comprehension(e, loops[1:], scope)
        return found

    def turns(self, e: ast.expr, scope: Scope) -> tuple[Python, ...]:
        """What a loop goes through."""
        found = self.read(e, scope)
        if not isinstance(found, tuple):
            raise self.source.refusal(e, "loops over lists that the text has")
        for _ in found:
            self.step(e)
        return found

    def bind(self, target: ast.expr, value: Python, scope: Scope) -> None:
        """Give a name, or several, what they stand for."""
        match target:
            case ast.Name(id=name):
                scope[name] = value
                return
            case ast.Attribute(value=ast.Name(id=name), attr=attr):
                if scope.get(name) == Handle(""):
                    scope[f"fd.{attr}"] = value
                    return
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                if isinstance(value, Open):
                    value = (value,) * len(parts)
                if isinstance(value, tuple) and len(value) == len(parts):
                    for part, x in zip(parts, value, strict=True):
                        self.bind(part, x, scope)
                    return
        raise self.source.refusal(target)

    def item(self, e: ast.Subscript, base: Python, index: ast.expr, scope: Scope) -> Python:
        """``shape[0]``, ``shape[1:]``."""
        if isinstance(base, Open):
            return self.open(e)
        parts = (index.lower, index.upper, index.step) if isinstance(index, ast.Slice) else ()
        if parts:
            bounds = [None if p is None else self.read(p, scope) for p in parts]
            if isinstance(base, tuple) and all(type(b) in (int, type(None)) for b in bounds):
                return self.valued(e, lambda: computed(base.__getitem__, slice(*bounds)))
            raise self.source.refusal(e)
        at = self.read(index, scope)
        if isinstance(base, tuple) and type(at) is int and -len(base) <= at < len(base):
            return base[at]
        if isinstance(base, Ref) and type(at) is int:
            call = (base, at), dict[str, Value]()
            return self.recording.add("at", (f"{base}[{at}]",), call, e.lineno)[0]
        raise self.source.refusal(e)

    # --- arithmetic ----------------------------------------------------------------------------

    def computed(self, e: ast.expr, scope: Scope) -> Python:
        """Arithmetic and comparisons of numbers and lists."""
        match e:
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
                inner = self.read(operand, scope)
                if isinstance(inner, Open):
                    return self.open(e)
                if isinstance(inner, int | float | complex):
                    return -inner if isinstance(sign, ast.USub) else +inner
            case ast.BinOp(left=left, op=op, right=right):
                pair = self.read(left, scope), self.read(right, scope)
                if is_open(pair) and not any(isinstance(x, Ref) for x in pair):
                    return self.open(e)
                return self.valued(e, lambda: binary(op, *pair))
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                found = self.truth(e, scope)
                return self.open(e) if found is None else found
        raise self.source.refusal(e)

    def truth(self, e: ast.expr, scope: Scope) -> bool | None:
        """Whether a condition holds; None where the text leaves it open."""
        match e:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self.truth(operand, scope)
                return None if inner is None else not inner
            case ast.BoolOp(op=op, values=parts):
                known = [self.truth(p, scope) for p in parts]
                decisive = isinstance(op, ast.Or)
                if decisive in known:
                    return decisive
                return None if None in known else not decisive
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                pair = self.read(left, scope), self.read(right, scope)
                return None if is_open(pair) else bool(self.valued(e, lambda: compare(op, *pair)))
        found = self.read(e, scope)
        if is_open(found):
            return None
        if found is None or isinstance(found, bool | int | float | tuple | str):
            return bool(found)
        raise self.source.refusal(e, CONDITIONS)

    def valued(self, e: ast.expr, compute: Callable[[], Python]) -> Python:
        """What is computed; what has no value is refused by line."""
        try:
            return compute()
        except NoValueError as error:
            raise self.source.refusal(e, str(error)) from None


def _is_value(found: Python) -> bool:
    if isinstance(found, tuple):
        return all(map(_is_value, found))
    plain = Ref | Open | DataType | bool | int | float | complex | str
    return found is None or isinstance(found, plain)
