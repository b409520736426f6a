"""Named values while a section is lowered: shared extents, indices along the transform graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lowering.ground.expr import (
    Binary,
    Const,
    Expr,
    Select,
    Special,
    Var,
    binary,
    free_vars,
    select,
    type_of,
)
from lowering.kernel.nodes import Body, Let
from lowering.kernel.visit import take_name, used, used_in
from wsched.schedule.graph import Group, TransformGraph
from wsched.schedule.options import DebugPrint
from wsched.schedule.proof.indices import indices

__all__ = ["Namer", "Scopes", "Shared"]


class Namer:
    """Readable names from labels, each handed out once."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)

    def new(self, label: str) -> str:
        """A name made from a domain's label: ``tile·k`` becomes ``tile_k``."""
        base = "".join(c if c.isalnum() and c.isascii() else "_" for c in label).strip("_") or "i"
        base = f"i{base}" if base[0].isdigit() else base
        return take_name(base, self._taken)


def _needed(lets: list[Let], body: Body) -> list[Let]:
    """Those of ``lets`` that a body reads, or another of them that it reads."""
    if not lets:
        return []
    read = used_in(body)
    chosen = []
    for let in reversed(lets):
        if let.var.name in read:
            chosen.append(let)
            read |= used(let)
    return chosen[::-1]


@dataclass
class Shared:
    """Extents and bounds, bound once in front of both sections when they are first used.

    That both sides read the same variable is what keeps their numbers of steps equal. ``prints``
    are lines that leaves print.
    """

    namer: Namer
    prints: tuple[DebugPrint, ...] = ()
    labels: dict[Expr, str] = field(default_factory=dict)
    lets: list[Let] = field(default_factory=list)
    table: dict[Expr, Expr] = field(default_factory=dict)

    def label(self, name: str, e: Expr) -> None:
        """Bind ``e`` as ``name`` wherever it turns up from here on."""
        if _divides(e) or not isinstance(e, (Const, Var, Special)):
            self.labels.setdefault(e, name)

    def apply(self, e: Expr) -> Expr:
        """``e`` with every labelled subexpression replaced by the variable bound to it."""
        if e in self.table:
            return self.table[e]
        match e:
            case Binary(op, a, b):
                new = binary(op, self.apply(a), self.apply(b))
            case Select(c, a, b):
                new = select(self.apply(c), self.apply(a), self.apply(b))
            case _:
                return e
        if e in self.labels and not isinstance(new, (Const, Var, Special)):
            var = Var(self.namer.new(self.labels[e]))
            self.lets.append(Let(var, new))
            new = var
        self.table[e] = new
        return new

    def needed(self, body: Body) -> list[Let]:
        """Those of the bindings that a body reads: indices that nobody asked for also left some."""
        return _needed(self.lets, body)


@dataclass
class _Scope:
    """A statement list: what is defined in front of its statements, and what is bound there."""

    defined: set[Var]
    lets: list[Let] = field(default_factory=list)
    table: dict[Expr, Var] = field(default_factory=dict)


class Scopes:
    """The statement lists around the place that is lowered, each with its bindings.

    An index is bound at the outermost list that determines it, so that a tile's is computed once a
    tile; but not outside of a branch, which may not be taken.

    Args:
        shared: names and extents.
    """

    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        self._open: list[_Scope] = []
        self._branches: list[int] = []

    def enter(self, *defined: Var, branch: bool = False) -> None:
        """Begin a list; ``defined`` are the loop's variables, or what its entry makes."""
        if branch:
            self._branches.append(len(self._open))
        self._open.append(_Scope(set(defined)))

    def leave(self, body: Body) -> Body:
        """End the innermost list: its statements behind those of its bindings that are read."""
        scope = self._open.pop()
        if self._branches and self._branches[-1] == len(self._open):
            self._branches.pop()
        return (*_needed(scope.lets, body), *body)

    def bind(self, label: str, e: Expr) -> Expr:
        """``e`` with extents by their names, and as a variable where it divides."""
        short = self.shared.apply(e)
        return self._let(label, short) if _divides(short) else short

    def indices(self, graph: TransformGraph, known: Mapping[Group, Expr]) -> dict[Group, Expr]:
        """Index of every group that ``known`` determines, each bound under its label."""
        return indices(graph, known, lambda group, e: self.bind(group.label, e))

    def let(self, label: str, e: Expr) -> tuple[Var, Body]:
        """``e`` as a variable, and its binding if that is to stand here: it depends on the
        innermost list, where it would live too long from the beginning on.
        """
        short = self.shared.apply(e)
        if self._place(short) < len(self._open) - 1:
            return self._let(label, short), ()
        var = Var(self.shared.namer.new(label), type_of(short))
        return var, (Let(var, short),)

    def _let(self, label: str, short: Expr) -> Var:
        scope = self._open[self._place(short)]
        if short not in scope.table:
            var = Var(self.shared.namer.new(label), type_of(short))
            scope.lets.append(Let(var, short))
            scope.defined.add(var)
            scope.table[short] = var
        return scope.table[short]

    def _place(self, e: Expr) -> int:
        """Which of the open lists is the outermost that determines ``e``."""
        variables = free_vars(e)
        least = self._branches[-1] if self._branches else 0
        inner = (n for n, scope in enumerate(self._open) if scope.defined & variables)
        return max([least, *inner])


def _divides(e: Expr) -> bool:
    match e:
        case Binary(op, a, b):
            return op in ("//", "%", "ceildiv", "min", "max") or _divides(a) or _divides(b)
        case Select():
            return True
    return False
