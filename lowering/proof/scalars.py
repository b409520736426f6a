"""What of an agent's program is about scalars: the statements that a walk over numbers takes.

Statements that use nothing but names and constants tell a walk nothing and are left out, and so is
an agent whose statements are all among those of another one: of warps that differ in what one
thread of theirs does besides, the one that does most is walked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from lowering.ground.expr import Binary, Expr, Select, Var, children, parts_of
from lowering.kernel.atomic import Atom
from lowering.kernel.control import Break, For, If, Let
from lowering.kernel.group_part import GroupPart
from lowering.kernel.operands import Body, Frag, GmemRef, Stmt
from lowering.kernel.queue import LdWord, StWord
from lowering.kernel.scalar_memory import LdGlobalScalar
from lowering.kernel.visit import bodies, expressions, operands
from lowering.proof.numbering import depends
from lowering.proof.steps import Scalar, Steps, scalars_of

__all__ = [
    "Branch",
    "Draw",
    "Leave",
    "Load",
    "Loop",
    "Name",
    "Parted",
    "Program",
    "Read",
    "Store",
    "Uses",
    "covers",
    "given",
    "products_of_parts",
    "program",
    "within",
]


@dataclass(frozen=True, slots=True)
class Name:
    """A name of a value."""

    var: Var
    value: Expr


@dataclass(frozen=True, slots=True)
class Uses:
    """Expressions that are used; coordinates with what threads add to them, at most."""

    values: frozenset[Expr]
    coords: frozenset[tuple[Expr, int]]


@dataclass(frozen=True, slots=True)
class Store:
    """A word for other warps."""

    buffer: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Load:
    """A word of other warps."""

    out: str
    buffer: str


@dataclass(frozen=True, slots=True)
class Read:
    """A scalar in memory."""

    out: str


@dataclass(frozen=True, slots=True)
class Parted:
    """A part of so many elements: where it begins, and how much it is."""

    begin: str
    size: str
    whole: Expr


@dataclass(frozen=True, slots=True)
class Draw:
    """A counter in memory."""

    out: str
    op: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Leave:
    """The end of a loop, where a condition holds."""

    cond: Expr


@dataclass(frozen=True, slots=True)
class Branch:
    """Statements where a condition holds, and where it does not."""

    cond: Expr
    then: Program
    other: Program


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop.

    Args:
        var, start, stop, step: its own.
        carried: the i32 that it carries.
        places: of each the range of a stage or a parity, None of what is neither.
        body: its statements.
        reads: whether scalars in memory are read in it.
    """

    var: Var
    start: Expr
    stop: Expr
    step: Expr
    carried: tuple[Scalar, ...]
    places: tuple[tuple[int, int] | None, ...]
    body: Program
    reads: bool


Step: TypeAlias = Name | Uses | Store | Load | Read | Parted | Draw | Leave | Branch | Loop
Program: TypeAlias = tuple[Step, ...]


def program(body: Body, steps: Steps) -> Program:
    """What of a program is about scalars."""
    return tuple(_joined(_steps(body, steps)))


def within(p: Program) -> Iterator[Step]:
    """All steps of a program, those in others as well."""
    for step in p:
        yield step
        for inner in _inner(step):
            yield from within(inner)


def given(loop: Loop) -> frozenset[str]:
    """The names that a trip of a loop gives values, but for those that stand for expressions."""
    found = set[str]()
    for step in (loop, *within(loop.body)):
        match step:
            case Loop():
                found |= {step.var.name, *(v.name for c in step.carried for v in (c.var, c.result))}
            case Load(out) | Read(out) | Draw(out):
                found.add(out)
            case Parted(begin, size):
                found |= {begin, size}
    return frozenset(found)


def products_of_parts(steps: Iterable[Step], lets: Mapping[Var, Expr]) -> Iterator[Expr]:
    """Products of where parts of groups begin and another number of parts: such are largest between
    their corners.
    """
    every = list(steps)
    parts = [s for s in every if isinstance(s, Parted)]
    begins = frozenset(s.begin for s in parts)
    numbers = begins | {s.size for s in parts}
    said = [s.value for s in every if isinstance(s, Name)]
    said += [
        e for s in every if isinstance(s, Uses) for e in (*s.values, *(c for c, _ in s.coords))
    ]
    for e in (p for whole in said for p in parts_of(whole)) if parts else ():
        if isinstance(e, Binary) and e.op in ("*", "mulhi"):
            of_parts = [x for x in children(e) if depends(x, numbers, lets)]
            if len(of_parts) > 1 and any(depends(x, begins, lets) for x in of_parts):
                yield e


def covers(a: Program, b: Program) -> bool:
    """Whether ``a`` uses all that ``b`` uses, under the same conditions at least, and leaves loops
    where ``b`` does.
    """
    at = 0
    for step in b:
        while at < len(a) and not _covers(a[at], step):
            if isinstance(a[at], Leave):
                return False
            at += 1
        if at == len(a):
            return False
        at += not isinstance(step, Uses)  # what stands in between may be used in two steps of ``b``
    return not any(isinstance(x, Leave) for x in a[at:])


def _covers(a: Step, b: Step) -> bool:
    match a, b:
        case Uses(), Uses():
            return a.values >= b.values and a.coords >= b.coords
        case Branch(), Branch():
            both = covers(a.then, b.then) and covers(a.other, b.other)
            return a.cond == b.cond and both
        case Loop(), Loop():
            mine = a.var, a.start, a.stop, a.step, a.carried, a.places
            its = b.var, b.start, b.stop, b.step, b.carried, b.places
            return mine == its and covers(a.body, b.body)
    return a == b


def _inner(step: Step) -> Sequence[Program]:
    match step:
        case Branch(then=then, other=other):
            return then, other
        case Loop(body=body):
            return (body,)
    return ()


def _joined(found: Iterable[Step]) -> Iterator[Step]:
    """With all that is used between two other steps in one."""
    values: frozenset[Expr] = frozenset()
    coords: frozenset[tuple[Expr, int]] = frozenset()
    for step in found:
        if isinstance(step, Uses):
            values, coords = values | step.values, coords | step.coords
            continue
        if values or coords:
            yield Uses(values, coords)
            values, coords = frozenset(), frozenset()
        yield step
    if values or coords:
        yield Uses(values, coords)


def _steps(body: Body, steps: Steps) -> Iterator[Step]:
    for stmt in body:
        match stmt:
            case Let(var=var, value=value):
                yield Name(var, value)
            case For(var=var, start=start, stop=stop, step=step):
                carried = tuple(scalars_of(stmt))
                places = tuple(_place(c.var.name, steps) for c in carried)
                inner = program(stmt.body, steps)
                reads = any(isinstance(s, Read) for s in within(inner))
                yield Loop(var, start, stop, step, carried, places, inner, reads)
            case If(cond, then, other):
                inside = program(then, steps), program(other, steps)
                yield Uses(_made([cond]), frozenset())
                if any(inside):
                    yield Branch(cond, *inside)
            case Break(cond):
                yield Leave(cond)
            case _:
                yield Uses(_made(expressions(stmt)), frozenset(_coords(stmt)))
                yield from _named(stmt)
                for part in bodies(stmt):
                    yield from _steps(part, steps)


def _named(stmt: Stmt) -> Iterator[Step]:
    """What a statement that is no other one's place makes of scalars."""
    match stmt:
        case StWord(dst=dst, value=value):
            yield Store(dst.buffer, value)
        case LdWord(out=out, src=src):
            yield Load(out.name, src.buffer)
        case LdGlobalScalar(out=out):
            yield Read(out.name)
        case GroupPart(begin=begin, size=size, whole=whole):
            yield Parted(begin.name, size.name, whole)
        case Atom(out=out, value=value, op=op):
            yield Draw(out.name, op, value)


def _made(found: Iterable[Expr]) -> frozenset[Expr]:
    """Expressions that compute something."""
    return frozenset(e for e in found if type(e) is Binary or type(e) is Select)


def _coords(stmt: Stmt) -> Iterator[tuple[Expr, int]]:
    """Coordinates to which threads add something."""
    if stmt.TRAITS.plain and (side := _side(stmt)):
        for ref in operands(stmt):
            if isinstance(ref, GmemRef):
                yield from ((c, side) for c in ref.coords)


def _side(stmt: Stmt) -> int:
    """What threads add to a coordinate, at most: the elements of the longer side of a tile."""
    tiles = [
        x.type for x in (getattr(stmt, n, None) for n in ("value", "out")) if isinstance(x, Frag)
    ]
    sides = [n for t in tiles for n in (t.rows, t.cols)]
    return max([*sides, getattr(stmt, "rows", 1), getattr(stmt, "cols", 1)]) - 1


def _place(name: str, steps: Steps) -> tuple[int, int] | None:
    """The range of a stage or a parity."""
    for s in steps.rings:
        if kind := steps.kind(name, s):
            return 0, s - 1 if kind == "stage" else 1
    return None
