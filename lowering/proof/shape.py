"""The shape of an agent's program, as events of some kind see it, such as waits at an mbarrier.

That is its loops, conditions and events with all else taken out. Names of its own are replaced by
their place in it: ``%0`` is the trip of the outermost loop, ``%0.1`` a value that it carries.
Behind that loop the value has the loop's name beside its own: shapes that are equal have the same
loop, with the same values, and so leave it with the same. A
word that is loaded has the name that it has where it is stored: the ring, and the trip of the loop
whose step it is, of a team with which of how many. What is left that only one warp knows has its
warp's name, and is equal to nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lowering.ground.expr import (
    Binary,
    Const,
    Expr,
    Select,
    Special,
    Var,
    free_vars,
    substitute,
)
from lowering.ground.poly import poly
from lowering.kernel.control import Break, For, If
from lowering.kernel.group_part import GroupPart
from lowering.kernel.operands import Body, SmemRef, Stmt
from lowering.kernel.queue import LdWord, StWord
from lowering.kernel.scalar_memory import LdGlobalScalar
from lowering.kernel.visit import bodies, walk
from lowering.proof.agent import Agent
from lowering.proof.odometer import Odometers
from lowering.proof.rings import Ring
from lowering.proof.state import Walked
from lowering.proof.steps import Steps, scalars_of

__all__ = ["Event", "Shape", "Shaper", "Share", "named", "renamed", "share_of", "text", "uses"]

Shape = tuple[object, ...]

Event = Callable[[Stmt], "str | tuple[str | Expr, ...] | None"]
"""What a statement is as events of some kind see it."""


@dataclass(frozen=True, slots=True)
class Share:
    """The words of a buffer that a team loads in the trips of a loop: word ``team``, and every
    ``count``-th one from there.
    """

    buffer: str
    team: int
    count: int

    @property
    def suffix(self) -> str:
        """Of the name of such a word."""
        return f" as {self.team} of {self.count}" if self.count > 1 else ""


def share_of(word: Var) -> Share | None:
    """Which words of a buffer a word's name stands for, if it is one of an outermost loop."""
    found = re.fullmatch(r"%word (\w+)\[.*\] of %0( as (\d+) of (\d+))?", word.name)
    if found is None:
        return None
    return Share(found[1], *(map(int, found.group(3, 4)) if found[2] else (0, 1)))


@dataclass
class Shaper:
    """Makes the shape of one agent's program.

    Args:
        agent, steps, way: the agent, its places, and what came of its walk.
        event: the word of a statement that is an event, None of others; or a tuple of the word and
            expressions.
        rings: all of the kernel.
        known: names that stand for the same in all warps.
    """

    agent: Agent
    steps: Steps
    event: Event
    way: Walked
    rings: tuple[Ring, ...]
    known: frozenset[str]
    loops: list[str] = field(default_factory=list)
    names: dict[Var, Expr] = field(default_factory=dict)
    words: dict[Expr, Expr] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.odometers = Odometers.of(self.agent.body, self.steps)

    def whole(self) -> Shape:
        """The shape of the program."""
        return self.owned(self.shape(self.agent.body, 0))

    def owned(self, shape: Shape) -> Shape:
        """With names that only this agent knows told from those of others."""
        own = {v for v in named(shape) if v.name not in self.known and not v.name.startswith("%")}
        return renamed(shape, {v: Var(f"{v.name} of {self.agent}") for v in own})

    def word(self, ref: SmemRef, depth: int, team: str = "") -> Var:
        """What a word of the step of a loop's trip is called."""
        return Var(f"%word {ref.buffer}{_at(ref.coords)} of %{depth - 1}{team}")

    def team(self, ref: SmemRef) -> str:
        """Which words of a ring this agent loads, if not all."""
        for ring in self.rings:
            if ref.buffer in ring.buffers and self.loops:
                key = self.loops[-1], ring.full
                if self.way.lengths.get(key) != poly(Const(1)):
                    return f" of {self.agent}"
                begin, skip = (d.get(key) for d in (self.way.begins, self.way.skips))
                if begin is not None or skip is not None:
                    first = 0 if begin is None else begin.constant()
                    left = 0 if skip is None else skip.constant()
                    if first is None or left is None:
                        return f" of {self.agent}"
                    return Share(ref.buffer, first, left + 1).suffix
        return ""

    def shape(self, body: Body, depth: int) -> Shape:
        """That of a statement list."""
        found: list[object] = []
        for stmt in body:
            word = self.event(stmt)
            if word is not None:
                found.append(word if isinstance(word, str) else tuple(map(self.said, word)))
                continue
            match stmt:
                case LdWord(out=out, src=src):
                    self.names[out] = self.word(src, depth, self.team(src))
                case LdGlobalScalar(out=out, src=src, order="weak"):
                    at = ", ".join(str(self.key(c)) for c in (src.entry or Const(0), *src.coords))
                    self.names[out] = Var(f"%memory {src.map}[{at}]")
                case GroupPart(begin=begin, size=size, whole=whole):
                    of = self.key(whole)
                    self.names |= {begin: Var(f"%part {of}"), size: Var(f"%size of part {of}")}
                case For():
                    self.stored(stmt.body, depth + 1)
                    inner = self.loop(stmt, depth)
                    if inner is not None:
                        found.append(inner)
                case If(cond, then, other):
                    inside = self.shape(then, depth), self.shape(other, depth)
                    key = self.key(cond)
                    if isinstance(key, Const):
                        found += inside[not key.value]
                    elif inside[0] == inside[1]:
                        found += inside[0]
                    elif any(inside):
                        found.append(("if", key, *inside))
                case Break(cond):
                    if any(map(self.happens, body)):
                        found.append(("break", self.key(cond)))
                case _:
                    for inner_body in bodies(stmt):
                        found += self.shape(inner_body, depth)
        return tuple(found)

    def stored(self, body: Body, depth: int) -> None:
        """Note what each trip of a loop stores as words, which conditions in it may name."""
        for stmt in body:
            if isinstance(stmt, StWord):
                self.words.setdefault(self.key(stmt.value), self.word(stmt.dst, depth))
            elif not isinstance(stmt, If) and (not isinstance(stmt, For) or stmt.unroll):
                for inner in bodies(stmt):
                    self.stored(inner, depth)

    def happens(self, stmt: Stmt) -> bool:
        """Whether a statement is an event, or has one in it."""
        return any(self.event(s) is not None for s in walk((stmt,)))

    def loop(self, loop: For, depth: int) -> Shape | None:
        """A loop, with the carried values that its shape names."""
        if not self.happens(loop):
            return None
        start, stop, step = (self.key(e) for e in (loop.start, loop.stop, loop.step))
        self.names[loop.var] = Var(f"%{depth}")
        scalars = list(scalars_of(loop))
        inits = {c.var: self.key(c.init) for c in scalars}
        self.loops.append(loop.var.name)
        inner = self.shape(loop.body, depth + 1)
        self.loops.pop()
        named = [c for c in scalars if uses(inner, c.var)]
        canonical: dict[Var, Expr] = {c.var: Var(f"%{depth}.{n}") for n, c in enumerate(named)}
        if start == Const(0):  # as of no team's share of the trips
            behind = {c.result: Var(f"%{depth}.{n} behind {loop.var}") for n, c in enumerate(named)}
            self.names.update(behind)
        carried = tuple((inits[c.var], substitute(self.key(c.following), canonical)) for c in named)
        return ("loop", start, stop, step, carried, renamed(inner, canonical))

    def said(self, part: str | Expr) -> str | Expr:
        """A part of an event."""
        return part if isinstance(part, str) else self.key(part)

    def key(self, e: Expr) -> Expr:
        """An expression in terms of what is the same for all agents."""
        e = substitute(self.odometers.told(self.steps.resolve(e)), self.names)
        return poly(_replaced(e, self.words)).expr() if not _pred(e) else _replaced(e, self.words)


def _at(coords: tuple[Expr, ...]) -> str:
    return f"[{', '.join(map(str, coords))}]"


def _pred(e: Expr) -> bool:
    return isinstance(e, Binary) and e.op in ("<", "<=", "==", "!=", "and", "or")


def named(part: object) -> set[Var]:
    """The names in a shape."""
    if isinstance(part, tuple):
        return {n for p in part for n in named(p)}
    return set(free_vars(part)) if isinstance(part, Expr) else set()


Names = Mapping[Var, Expr] | Mapping[Special, Expr]


def renamed(shape: Shape, names: Names) -> Shape:
    """A shape with other names."""
    return tuple(_renamed(s, names) for s in shape)


def _renamed(part: object, names: Names) -> object:
    if isinstance(part, tuple):
        return renamed(part, names)
    return substitute(part, names) if isinstance(part, Expr) else part


def uses(shape: object, var: Var) -> bool:
    """Whether a shape names a variable."""
    if isinstance(shape, tuple):
        return any(uses(s, var) for s in shape)
    return isinstance(shape, Expr) and var in free_vars(shape)


def text(shape: object) -> str:
    """A shape for people."""
    if isinstance(shape, tuple):
        return f"({' '.join(map(text, shape))})"
    return str(shape)


def _replaced(e: Expr, table: dict[Expr, Expr]) -> Expr:
    """``e`` with whole expressions replaced."""
    if e in table:
        return table[e]
    match e:
        case Binary(op, a, b):
            return Binary(op, _replaced(a, table), _replaced(b, table))
        case Select(c, a, b):
            return Select(*(_replaced(x, table) for x in (c, a, b)))
    return e
