"""Walking and rewriting statement trees. Recursion is the default; nothing is skipped silently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from enum import Enum
from functools import cache, cached_property
from itertools import chain
from operator import is_
from typing import TYPE_CHECKING, Any, TypeVar

from lowering.ground.expr import Expr, Var, free_vars, substitute
from lowering.ground.frozen import replaced
from lowering.kernel.control import Carry, Elect, For, If, OnWarp, Role, Roles, Section
from lowering.kernel.kernel import Kernel
from lowering.kernel.operands import Body, Frag, Stmt
from lowering.kernel.ring import WaitFull

__all__ = [
    "Names",
    "bodies",
    "changed",
    "consumes",
    "defined",
    "defined_in",
    "expressions",
    "inside",
    "kept",
    "map_bodies",
    "map_exprs",
    "map_roles",
    "operands",
    "reads_in",
    "rename",
    "rewrite",
    "take_name",
    "used",
    "used_in",
    "walk",
]

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    _Node = TypeVar("_Node", bound=DataclassInstance)


_LISTS = (For, Elect, OnWarp, Section)
_NESTED = frozenset({*_LISTS, If, Roles})
"""The kinds of statements with others inside; few of a kernel's are."""


def bodies(stmt: Stmt) -> tuple[Body, ...]:
    """The statement lists directly inside ``stmt``."""
    if type(stmt) not in _NESTED:
        return ()
    if isinstance(stmt, If):
        return (stmt.then, stmt.other)
    if isinstance(stmt, Roles):
        return tuple(r.body for r in stmt.roles)
    assert isinstance(stmt, _LISTS)
    return (stmt.body,)


def map_bodies(stmt: Stmt, f: Callable[[Body], Body]) -> Stmt:
    """``stmt`` with ``f`` applied to each statement list directly inside it."""
    if type(stmt) not in _NESTED:
        return stmt
    if isinstance(stmt, _LISTS):
        return changed(stmt, {"body": f(stmt.body)})
    if isinstance(stmt, If):
        return changed(stmt, {"then": f(stmt.then), "other": f(stmt.other) if stmt.other else ()})
    if isinstance(stmt, Roles):
        roles = [changed(r, {"body": f(r.body)}) for r in stmt.roles]
        return changed(stmt, {"roles": kept(stmt.roles, roles)})
    return stmt


def map_roles(kernel: Kernel, f: Callable[[Role], Role]) -> Kernel:
    """The kernel with ``f`` applied to every role."""

    def visit(stmt: Stmt) -> Stmt:
        return Roles(tuple(f(r) for r in stmt.roles)) if isinstance(stmt, Roles) else stmt

    return replaced(kernel, body=tuple(visit(s) for s in kernel.body))


def walk(stmts: Iterable[Stmt]) -> Iterator[Stmt]:
    """Every statement, parents first, in program order."""
    lists = ((s, *inside(s)) if type(s) in _NESTED else (s,) for s in stmts)
    return chain.from_iterable(lists)


def inside(stmt: Stmt) -> tuple[Stmt, ...]:
    """Every statement inside of ``stmt``, parents first, in program order."""
    known = stmt._inside
    if known is None:
        found: list[Stmt] = []
        for s in chain.from_iterable(bodies(stmt)):
            found.append(s)
            if type(s) in _NESTED:
                found += inside(s)
        known = tuple(found)
        object.__setattr__(stmt, "_inside", known)
    return known


def rewrite(body: Body, f: Callable[[Stmt], Body | None]) -> Body:
    """Replace statements bottom-up: ``f`` returns the replacement, or None for unchanged."""
    out: list[Stmt] = []
    for stmt in body:
        stmt = map_bodies(stmt, lambda inner: rewrite(inner, f))
        new = f(stmt)
        out.extend((stmt,) if new is None else new)
    return kept(body, out)


def kept(old: tuple[Any, ...], new: Sequence[Any]) -> tuple[Any, ...]:
    """``new``, as the tuple that was there if its elements are the very same."""
    same = len(old) == len(new) and all(map(is_, old, new))
    return old if same else tuple(new)


def changed(node: _Node, values: Mapping[str, Any]) -> _Node:
    """``node`` with other values in some fields; itself where they are the very same.

    Most of a tree stays as it is in most passes, and a new node costs ten times a look at it.
    """
    if all(getattr(node, name) is value for name, value in values.items()):
        return node
    return replaced(node, **values)


class _How(Enum):
    """What a value in a statement has to do with expressions and fragments."""

    NOTHING = 0
    EXPR = 1
    FRAG = 2
    TUPLE = 3
    FIELDS = 4


def _how_of(cls: type) -> _How:
    if issubclass(cls, Frag):
        return _How.FRAG
    if issubclass(cls, Expr):
        return _How.EXPR
    if issubclass(cls, tuple):
        return _How.TUPLE
    return _How.FIELDS if is_dataclass(cls) and not issubclass(cls, Stmt) else _How.NOTHING


_how: Callable[[type], _How] = cache(_how_of)

_PLAIN = frozenset({
    "str", "int", "int | None", "bool", "float", "Body", "tuple[Role, ...]",
})  # fmt: skip
"""Declared types of fields that hold neither expressions nor fragments, nor what has some, but in
statements inside.
"""

_fields: Callable[[type], tuple[str, ...]] = cache(
    lambda cls: tuple(
        n for n in cls.__match_args__ if cls.__dataclass_fields__[n].type not in _PLAIN
    )
)
"""The names of all other fields of a node."""

_read: Callable[[type], tuple[str, ...]] = cache(
    lambda cls: tuple(n for n in _fields(cls) if n == "carries" or n not in cls.TRAITS.binds)
)
"""Those of a kind of statement that it reads; of what a loop carries the first values."""


def _map(value: Any, f: Callable[[Expr], Expr], g: Callable[[Frag], Frag]) -> Any:
    """``value`` with ``f`` on the expressions and ``g`` on the fragments directly in it."""
    how = _how(type(value))
    if how is _How.EXPR:
        return f(value)
    if how is _How.FRAG:
        return g(value)
    if how is _How.TUPLE:
        return kept(value, [_map(v, f, g) for v in value])
    if how is _How.FIELDS:
        return _fields_mapped(value, f, g)
    return value


def _fields_mapped(node: _Node, f: Callable[[Expr], Expr], g: Callable[[Frag], Frag]) -> _Node:
    """The same of each field of ``node``; itself where nothing becomes another."""
    new = {}
    for name in _fields(type(node)):
        old = getattr(node, name)
        value = _map(old, f, g)
        if value is not old:
            new[name] = value
    return replaced(node, **new) if new else node


def map_exprs(stmt: Stmt, f: Callable[[Expr], Expr]) -> Stmt:
    """``stmt`` with ``f`` applied to each expression operand (not inside its statement lists).

    Binding occurrences (let, loop, carry, group variables) are expressions too and are passed to
    ``f``, so ``f`` must map a variable to a variable where it is bound.
    """
    return _fields_mapped(stmt, f, lambda g: g)


def rename(
    body: Body, scalars: Mapping[Var, Expr], frags: Mapping[str, Frag] | None = None
) -> Body:
    """Substitute scalars and fragments everywhere in ``body``."""
    table = frags or {}

    def scalar(e: Expr) -> Expr:
        return substitute(e, scalars)

    def frag(f: Frag) -> Frag:
        return table.get(f.name, f)

    def one(stmt: Stmt) -> Stmt:
        return map_bodies(_fields_mapped(stmt, scalar, frag), all_of)

    def all_of(inner: Body) -> Body:
        return kept(inner, [one(s) for s in inner])

    return all_of(body)


def expressions(stmt: Stmt) -> list[Expr]:
    """The expression operands of ``stmt`` itself, bound variables excluded."""
    bound = defined(stmt)
    found = (e for value in operands(stmt) for e in _expressions_in(value))
    return [e for e in found if not (isinstance(e, Var) and e.name in bound)]


def _expressions_in(value: Any) -> Iterator[Expr]:
    """The expressions directly in an operand."""
    how = _how(type(value))
    if how is _How.EXPR:
        yield value
    elif how is _How.TUPLE:
        for v in value:
            yield from _expressions_in(v)
    elif how is _How.FIELDS:
        for name in _fields(type(value)):
            yield from _expressions_in(getattr(value, name))


def consumes(body: Body, ring: str) -> bool:
    """Whether ``body`` waits for steps of a ring, at any depth."""
    return any(isinstance(s, WaitFull) and s.ring == ring for s in walk(body))


def defined(stmt: Stmt) -> frozenset[str]:
    """Names that ``stmt`` itself binds, inside or after it."""
    known = stmt._defined
    if known is None:
        known = frozenset([v.name for v in bound(stmt)])
        object.__setattr__(stmt, "_defined", known)
    return known


def bound(stmt: Stmt) -> list[Frag | Var]:
    """The values that ``stmt`` itself binds, inside or after it."""
    return [v for field in _binding(type(stmt)) for v in _bound(getattr(stmt, field))]


def defined_in(stmts: Iterable[Stmt]) -> set[str]:
    """Names that statements bind, of those inside them too."""
    return set[str]().union(*map(defined, walk(stmts)))


def _binding_of(cls: type[Stmt]) -> tuple[str, ...]:
    return tuple(n for n in cls.TRAITS.binds if n in cls.__match_args__)


_binding: Callable[[type], tuple[str, ...]] = cache(_binding_of)
"""The fields of a kind of statement that bind names."""


def _bound(value: object) -> list[Frag | Var]:
    """The values that stand in a field that binds."""
    match value:
        case Frag() | Var():
            return [value]
        case Carry(var=var, result=result):
            return [var, result]
        case Role(group=group):
            return _bound(group)
        case tuple():
            return [b for v in value for b in _bound(v)]
    return []


def operands(stmt: Stmt) -> Iterator[Any]:
    """What stands in the fields of ``stmt`` that it reads, element by element of a tuple.

    Of a loop's carried values the first ones; statement lists, words and numbers are left out.
    """
    for name in _read(type(stmt)):
        value = getattr(stmt, name)
        if not isinstance(value, tuple):
            yield value
        elif name == "carries":
            yield from (carry.init for carry in value)
        else:
            yield from value


def used(stmt: Stmt) -> frozenset[str]:
    """Names of scalars and fragments that ``stmt`` itself reads (not its statement lists)."""
    known = stmt._used
    if known is None:
        names: set[str] = set()
        for value in operands(stmt):
            _note(value, names)
        known = frozenset(names)
        object.__setattr__(stmt, "_used", known)
    return known


def used_in(stmts: Iterable[Stmt]) -> set[str]:
    """Names that statements read, with those inside them."""
    return set[str]().union(*map(used, walk(stmts)))


def reads_in(stmts: Iterable[Stmt]) -> Counter[str]:
    """How many statements read each name, with those inside them."""
    return Counter(chain.from_iterable(map(used, walk(stmts))))


def _note(value: Any, names: set[str]) -> None:
    """Add the names of the scalars and fragments in an operand."""
    how = _how(type(value))
    if how is _How.EXPR:
        names.update([v.name for v in free_vars(value)])
    elif how is _How.FRAG:
        names.add(value.name)
    elif how is _How.TUPLE:
        for v in value:
            _note(v, names)
    elif how is _How.FIELDS:
        for name in _fields(type(value)):
            _note(getattr(value, name), names)


def take_name(base: str, taken: set[str]) -> str:
    """``base``, or ``base`` with the smallest number from 2 on that makes it new; taken then."""
    name, number = base, 2
    while name in taken:
        name, number = f"{base}{number}", number + 1
    taken.add(name)
    return name


class Names:
    """New names for a kernel: never one that it defines, never the same twice."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    @cached_property
    def _taken(self) -> set[str]:
        """Found when a name is asked for first: in most kernels many a pass needs none."""
        kernel = self._kernel
        taken = defined_in(kernel.body) | {x.name for x in (*kernel.params, *kernel.storage)}
        return taken | {s for g in kernel.globals for e in g.entries for s in e.strides}

    def new(self, base: str) -> str:
        """A new name like ``base``."""
        return take_name(base, self._taken)

    def once_more(
        self,
        body: Body,
        scalars: Mapping[Var, Expr] | None = None,
        frags: Mapping[str, Frag] | None = None,
    ) -> Body:
        """``body`` a second time: what it binds gets new names, and what is in the tables is
        substituted, as by ``rename``.
        """
        taken, table = dict(scalars or {}), dict(frags or {})
        for stmt in walk(body):
            for value in (b for n in _binding(type(stmt)) for b in _bound(getattr(stmt, n))):
                if isinstance(value, Var):
                    taken.setdefault(value, replaced(value, name=self.new(value.name)))
                elif value.name not in table:
                    table[value.name] = replaced(value, name=self.new(value.name))
        return rename(body, taken, table)
