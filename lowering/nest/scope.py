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
)
from lowering.kernel.nodes import Body, Let
from lowering.kernel.visit import used, walk
from wsched.fusion import ParallelType
from wsched.schedule.proof.graph import Group, TransformGraph

__all__ = ["CTA_INDEX", "Indices", "Namer", "Shared"]

CTA_INDEX = {ParallelType.BIDx: Special("ctaid.x"), ParallelType.BIDz: Special("ctaid.z")}
"""Index of the loops that run on CTAs."""


class Namer:
    """Readable names from labels, each handed out once."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)

    def new(self, label: str) -> str:
        """A name made from a domain's label: ``tile·k`` becomes ``tile_k``."""
        base = "".join(c if c.isalnum() and c.isascii() else "_" for c in label).strip("_") or "i"
        base = f"i{base}" if base[0].isdigit() else base
        name, number = base, 2
        while name in self._taken:
            name, number = f"{base}{number}", number + 1
        self._taken.add(name)
        return name


@dataclass
class Shared:
    """Extents and bounds, bound once in front of both sections when they are first used.

    That both sides read the same variable is what keeps their numbers of steps equal.
    """

    namer: Namer
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
        read = {name for stmt in walk(body) for name in used(stmt)}
        chosen = []
        for let in reversed(self.lets):
            if let.var.name in read:
                chosen.append(let)
                read |= used(let)
        return chosen[::-1]


class Indices:
    """Index of every group that the loops of a section determine, each bound under its label."""

    def __init__(self, graph: TransformGraph, known: Mapping[Group, Expr], shared: Shared) -> None:
        self._shared = shared
        self._lets: list[Let] = []
        self._known = dict(known)
        self.found = graph.indices(known, self._bind)

    def _bind(self, group: Group, e: Expr) -> Expr:
        short = self._shared.apply(e)
        if not _divides(short):
            return short
        var = Var(self._shared.namer.new(group.label))
        self._lets.append(Let(var, short))
        return var

    def lets(self, roots: Iterable[Expr]) -> list[Let]:
        """The bindings that ``roots`` need, in order of definition."""
        needed = {v for e in roots for v in free_vars(e)}
        chosen = []
        for let in reversed(self._lets):
            if let.var in needed:
                chosen.append(let)
                needed |= free_vars(let.value)
        return chosen[::-1]


def _divides(e: Expr) -> bool:
    match e:
        case Binary(op, a, b):
            return op in ("//", "%", "ceildiv", "min", "max") or _divides(a) or _divides(b)
        case Select():
            return True
    return False
