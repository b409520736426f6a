"""Where in a text the definition is, and what the names around it stand for."""

from __future__ import annotations

import ast
from collections import ChainMap, Counter
from collections.abc import Iterator
from dataclasses import dataclass

from lowering.ground.errors import UnsupportedError
from wsched.importer.definition import Open
from wsched.importer.text.recording import Recording
from wsched.importer.text.source import Source
from wsched.importer.text.statements import Statements, imported
from wsched.importer.text.values import Function, Scope, Unread, defaults_of

__all__ = ["Found", "find", "surroundings"]

_DEFINES = (
    "ops", "add_output", "from_pytorch", "define_tensor", "define_scalar", "define_vector",
    "define_constant",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Found:
    """The statements of a definition.

    Args:
        at: the ``with`` or the function that they are in.
        handles: the names of the definition object in them; that of a class has others beside
            ``self``.
        around: the blocks that ``at`` stands in, the module first.
    """

    at: ast.With | ast.FunctionDef
    handles: tuple[str, ...]
    around: tuple[ast.AST, ...]

    @property
    def made_by(self) -> ast.ClassDef | None:
        """The class of the older front end that the definition is a method of."""
        block = self.around[-1] if self.around else None
        return block if isinstance(block, ast.ClassDef) else None

    @property
    def sharding(self) -> ast.FunctionDef | None:
        """The method of that class that shards tensors; ``schedule`` changes no results."""
        methods = self.made_by.body if self.made_by else []
        found = (m for m in methods if isinstance(m, ast.FunctionDef))
        return next((m for m in found if m.name == "multidevice_schedule"), None)

    @property
    def parameters(self) -> list[ast.arg]:
        """What a function takes beside the definition object."""
        if isinstance(self.at, ast.With):
            return []
        args = self.at.args
        return [a for a in _arguments(args) if a.arg not in self.handles]

    @property
    def defaults(self) -> dict[str, ast.expr]:
        """What the parameters of a function are where nobody gives them, by name."""
        return {} if isinstance(self.at, ast.With) else defaults_of(self.at.args)


def find(source: Source, module: ast.Module) -> Found:
    """The one definition of a text.

    It is the body of ``with FusionDefinition() as fd:``, a function with an argument
    ``fd: FusionDefinition`` that no such body calls with arguments of its own, or the method
    ``definition`` of a class of FusionDefinition's.

    Raises:
        UnsupportedError: there is none, or more than one.
    """
    blocks = [*_candidates(module)]
    candidates = [f for f in blocks if _uses(f)]
    if blocks and not candidates:
        at = blocks[0]
        raise UnsupportedError(
            f"line {at.at.lineno}: a definition that calls nothing of {at.handles[0]}",
            f"one with inputs and a result, {at.handles[0]}.add_output(...)",
        )
    functions = {f.at.name for f in candidates if isinstance(f.at, ast.FunctionDef)}
    calls = {id(f): set(_calls(f)) & functions for f in candidates}
    called = {name for names in calls.values() for name in names}
    roots = [
        f for f in candidates if not (isinstance(f.at, ast.FunctionDef) and f.at.name in called)
    ]
    if len(roots) != 1:
        raise UnsupportedError(
            f"text with {len(roots)} fusion definitions",
            "text with one, a function with an argument `fd: FusionDefinition`, the body of "
            "`with FusionDefinition() as fd:` or `definition(self)` of a class of them",
        )
    return roots[0]


def surroundings(source: Source, found: Found) -> Scope:
    """The names that are defined around a definition.

    What a function is called with and what a loop goes through is open, and so is what is assigned
    more than once; what is not understood is an error only where it is used.
    """
    reader = Statements(Recording(source))
    scope: Scope = {}
    for block in found.around:
        if not isinstance(block, ast.Module | ast.FunctionDef):
            continue
        scope = ChainMap({}, scope)
        if isinstance(block, ast.FunctionDef):
            scope.update({a.arg: Open(a.arg, block.lineno) for a in _arguments(block.args)})
        stored = Counter(n.id for n in _stored(block))
        once = {name for name, times in stored.items() if times == 1}
        scope.update({name: Open(name, getattr(block, "lineno", 1)) for name in stored})
        for s in block.body:
            if isinstance(s, ast.Import | ast.ImportFrom):
                scope.update(imported(s))
            elif isinstance(s, ast.FunctionDef):
                scope[s.name] = Function(s, scope)
            elif isinstance(s, ast.Assign):
                _assign(reader, s, once, scope)
    return ChainMap(_attributes(found), scope)


def _attributes(found: Found) -> Scope:
    """What other methods of its class give the definition object, ``__init__`` above all: open."""
    held: Scope = {}
    for method in found.made_by.body if found.made_by else ():
        if not isinstance(method, ast.FunctionDef) or method is found.at or not method.args.args:
            continue
        own = method.args.args[0].arg
        for node in ast.walk(method):
            match node:
                case ast.Attribute(value=ast.Name(id=name), attr=attr, ctx=ast.Store()):
                    if name == own:
                        held[f"fd.{attr}"] = Open(f"{own}.{attr}", node.lineno)
    return held


def _assign(reader: Statements, s: ast.Assign, once: set[str], scope: Scope) -> None:
    """Give a name what it stands for, or each of several; those assigned again stay open."""
    target, values = s.targets[0], [s.value]
    targets = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
    if targets != [target] and isinstance(s.value, ast.Tuple | ast.List):
        values = s.value.elts
    if len(values) != len(targets):
        return
    for part, value in zip(targets, values, strict=True):
        if not isinstance(part, ast.Name) or part.id not in once:
            continue
        try:
            scope[part.id] = reader.read(value, scope)
        except UnsupportedError as e:
            scope[part.id] = Unread(e)


def _stored(block: ast.Module | ast.FunctionDef) -> Iterator[ast.Name]:
    """Names that a block assigns to, but for those of functions in it."""
    pending: list[ast.AST] = list(block.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node
        if not isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            pending += ast.iter_child_nodes(node)


def _candidates(module: ast.Module) -> Iterator[Found]:
    """Every function and ``with`` that has a definition object, in the order of the text."""
    pending: list[tuple[ast.AST, tuple[ast.AST, ...]]] = [(module, ())]
    while pending:
        node, around = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.With):
            handles = _of_class(module, node, around[-1]) if around else ()
            if handles or (handles := tuple(filter(None, (_handle(node),)))):
                yield Found(node, handles, around)
        inner = (*around, node)
        children = [c for c in ast.iter_child_nodes(node) if isinstance(c, ast.stmt)]
        pending += [(c, inner) for c in reversed(children)]


def _of_class(module: ast.Module, node: ast.AST, block: ast.AST) -> tuple[str, ...]:
    """What the method ``definition`` of a class of FusionDefinition's knows the object by: its own
    argument, and the names that the text gives such objects.
    """
    if not (isinstance(block, ast.ClassDef) and isinstance(node, ast.FunctionDef)):
        return ()
    arguments = _arguments(node.args)
    derived = any(_last(base) == "FusionDefinition" for base in block.bases)
    if node.name != "definition" or not derived or len(arguments) != 1:
        return ()
    made = (
        target.id for s in ast.walk(module) if isinstance(s, ast.Assign)
        for target in s.targets
        if isinstance(target, ast.Name) and isinstance(s.value, ast.Call)
        and _last(s.value.func) == block.name
    )  # fmt: skip
    return arguments[0].arg, *made


def _handle(node: ast.FunctionDef | ast.With) -> str:
    """The name of the definition object that a block is given, if it is."""
    if isinstance(node, ast.With):
        made = ((item.context_expr, item.optional_vars) for item in node.items)
        names = (
            name.id for call, name in made
            if isinstance(name, ast.Name) and isinstance(call, ast.Call)
            and _last(call.func) == "FusionDefinition"
        )  # fmt: skip
        return next(names, "")
    arguments = _arguments(node.args)
    for a in arguments:
        if a.annotation is not None and _last(a.annotation) == "FusionDefinition":
            return a.arg
    printed = node.name.startswith("nvfuser_fusion") and len(arguments) == 1
    return arguments[0].arg if arguments and (printed or arguments[0].arg == "fd") else ""


def _last(e: ast.expr) -> str:
    """Last word of a dotted name or of a quoted annotation."""
    if isinstance(e, ast.Attribute):
        return e.attr
    if isinstance(e, ast.Name):
        return e.id
    text = e.value if isinstance(e, ast.Constant) else ""
    return text.rpartition(".")[2] if isinstance(text, str) else ""


def _uses(found: Found) -> bool:
    """Whether a block defines something, or calls what does with arguments of its own."""
    for node in ast.walk(found.at):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attr):
                if name in found.handles and attr in _DEFINES:
                    return True
            case ast.Call(func=ast.Name(), args=args, keywords=keywords):
                if _passes(args, found.handles) and len(args) + len(keywords) > 1:
                    return True
    return False


def _calls(found: Found) -> Iterator[str]:
    """Functions that a block passes its definition object to."""
    for node in ast.walk(found.at):
        match node:
            case ast.Call(func=ast.Name(id=name), args=args) if _passes(args, found.handles):
                yield name


def _passes(args: list[ast.expr], handles: tuple[str, ...]) -> bool:
    return any(isinstance(a, ast.Name) and a.id in handles for a in args)


def _arguments(args: ast.arguments) -> list[ast.arg]:
    return [*args.posonlyargs, *args.args, *args.kwonlyargs]
