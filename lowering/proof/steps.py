"""Which step of a ring a stage and a parity belong to: the counter automaton of one agent.

Of a ring of S stages, step m has stage ``m % S`` and parity ``m // S % 2``: together they are m
modulo 2 S. A *place* is a polynomial that both are known to belong to. Loops that carry a stage and
a parity move through places: the pair is taken for the place ``h``, a new unknown, at the head of
every trip; what is yielded has to be ``h`` and some steps, for all 2 S values that the pair can
have. That makes stage and parity right at init, step, skip and exit by induction over the trips,
and it is decided by trying all values: no arithmetic is believed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from lowering.ground.expr import (
    ONE,
    ZERO,
    Binary,
    Const,
    Expr,
    ScalarType,
    Select,
    Var,
    ceildiv,
    evaluate,
    free_vars,
    maximum,
    substitute,
)
from lowering.ground.poly import Poly, poly
from lowering.kernel.control import Break, Carry, For, Let
from lowering.kernel.operands import Body, Stmt
from lowering.kernel.sync import MBarrierWait
from lowering.kernel.visit import bodies, defined, walk
from lowering.proof.linear import Facts

__all__ = ["Head", "Scalar", "Steps", "congruent", "put", "scalars_of", "trips"]


@dataclass(frozen=True, slots=True)
class Head:
    """A loop's pair of stage and parity, of a ring of ``stages``.

    Args:
        at: the place at the head of a trip.
        first: the place in front of the loop, in terms of what is known there.
        delta: what a trip adds to the place.
        moved: what all trips add: trips times ``delta``, or an unknown where trips differ.
        stages: of the ring.
        name: of the carried value, for people.
    """

    at: Var
    first: Poly
    delta: Poly
    moved: Poly
    stages: int
    name: str

    @property
    def end(self) -> Poly:
        """The place behind the loop."""
        return self.first + self.moved


@dataclass
class Steps:
    """Places of the scalars of one agent's program, whose names in front of all roles stay names.

    ``rings`` are the numbers of stages that there are. ``heads`` has those of each loop, by the
    name of its variable; ``wrong`` what carries no places though a loop's init says so, and why;
    ``indices`` the names of stages, which are no parities.
    """

    rings: tuple[int, ...]
    facts: Facts
    lets: dict[Var, Expr] = field(default_factory=dict)
    heads: dict[str, tuple[Head, ...]] = field(default_factory=dict)
    wrong: dict[tuple[str, int], str] = field(default_factory=dict)
    indices: frozenset[str] = frozenset()
    _places: dict[tuple[str, int], tuple[str, Poly]] = field(default_factory=dict)
    _resolved: dict[Expr, Expr] = field(default_factory=dict)
    _found: dict[tuple[Expr, Expr | None, int], Poly | None] = field(default_factory=dict)

    @staticmethod
    def of(body: Body, rings: tuple[int, ...], facts: Facts) -> Steps:
        """The places in ``body``: what turns out to carry none is taken back, and all that was
        built on it.
        """
        wrong: dict[tuple[str, int], str] = {}
        while True:
            steps = Steps(rings, facts, wrong=dict(wrong), indices=_indices(body))
            steps.note(body)
            if steps.wrong == wrong:
                return steps
            wrong = steps.wrong

    def resolve(self, e: Expr) -> Expr:
        """``e`` without names that a ``let`` gave."""
        found = self._resolved.get(e)
        if found is None:
            whole = e
            while free_vars(whole) & self.lets.keys():
                whole = substitute(whole, self.lets)
            found = self._resolved[e] = whole
        return found

    def note(self, body: Body) -> None:
        """Note the places of a statement list."""
        for stmt in body:
            if isinstance(stmt, Let) and stmt.var.name not in self.facts.defined:
                self.lets[stmt.var] = stmt.value
            elif isinstance(stmt, For):
                self.loop(stmt)
            else:
                for inner in bodies(stmt):
                    self.note(inner)

    def loop(self, loop: For) -> None:
        """Note the places that a loop carries."""
        tried = [t for s in self.rings for t in self.tried(loop, s)]
        for at, _, carried, s in tried:
            self.name(s, [c.var for c in carried], poly(at))
        self.note(loop.body)
        heads = []
        for at, first, carried, s in tried:
            following = self.place_of([c.following for c in carried], s)
            name = carried[0].var.name
            if following is None or _moving(following, at) != 1:
                self.wrong[name, s] = f"{name} and its parity are no place at the end of a trip"
                continue
            delta = following - poly(at)
            head = Head(at, first, delta, self.moved(loop, delta, at), s, name)
            self.name(s, [c.result for c in carried], head.end)
            heads.append(head)
        self.heads[loop.var.name] = tuple(heads)

    def moved(self, loop: For, delta: Poly, at: Var) -> Poly:
        """What all trips of a loop add to a place."""
        inside = {n for s in (loop, *walk(loop.body)) for n in defined(s)} - {
            n for c in loop.carries for n in [c.result.name]
        }
        names = {v.name for monomial, _ in delta.terms for a in monomial for v in free_vars(a)}
        broken = any(isinstance(s, Break) for s in _directly(loop.body))
        if broken or names & inside or any(n.startswith("@") for n in names):
            return poly(Var(f"{at.name}.moved"))
        return poly(trips(loop, self, self.facts)) * delta

    def tried(self, loop: For, s: int) -> Iterator[tuple[Var, Poly, list[Scalar], int]]:
        """Neighbours among the carried values that are a place in front of the loop."""
        scalars = list(scalars_of(loop))
        width, taken = 1 if s == 1 else 2, -1
        for n in range(len(scalars) - width + 1):
            carried = scalars[n : n + width]
            if n <= taken:
                continue
            name = carried[0].var.name
            if (name, s) in self.wrong or carried[-1].var.name in self.indices:
                continue
            first = self.place_of([c.init for c in carried], s)
            if first is not None:
                taken = n + width - 1
                yield Var(f"@{name}.{s}"), first, carried, s

    def place_of(self, values: list[Expr], s: int) -> Poly | None:
        """The place of a stage and a parity; the only stage is not among the values."""
        stage, parity = [ZERO, *values] if s == 1 else values
        return self.place(stage, parity, s)

    def name(self, s: int, names: list[Var], place: Poly) -> None:
        """Names of the stage and the parity of a place."""
        for kind, var in zip(("parity",) if s == 1 else ("stage", "parity"), names, strict=True):
            self._places[var.name, s] = kind, place

    def kind(self, name: str, s: int) -> str:
        """Whether a name is the stage or the parity of a place; empty if it is neither."""
        return self._places.get((name, s), ("",))[0]

    def place(self, stage: Expr, parity: Expr | None, s: int) -> Poly | None:
        """The place, modulo 2 S, of a stage and a parity, or that of a stage alone, modulo S."""
        key = stage, parity, s
        if key not in self._found or self._found[key] is None:
            self._found[key] = self.tabled(stage, parity, s)
        return self._found[key]

    def tabled(self, stage: Expr, parity: Expr | None, s: int) -> Poly | None:
        """The same, from a table of all values of what the two are made of."""
        bases: dict[Poly, Var] = {}
        wanted = [e for e in (stage, parity) if e is not None]
        both = [found for e in wanted if (found := self.based(e, s, bases)) is not None]
        if len(both) < len(wanted) or len(bases) > 2:
            return None
        modulus = s if parity is None else 2 * s

        def at(values: tuple[int, ...]) -> int | None:
            env: dict[str, int] = {}
            for u, v in zip(bases.values(), values, strict=True):
                env |= {f"{u.name}.stage": v % s, f"{u.name}.parity": v // s}
            found = [evaluate(e, env) for e in both]
            if not 0 <= found[0] < s or not 0 <= found[-1] < (s if parity is None else 2):
                return None
            return found[0] + (0 if parity is None else s * found[1])

        zero = at((0,) * len(bases))
        units = [at(tuple(int(i == n) for i in range(len(bases)))) for n in range(len(bases))]
        if zero is None or None in units:
            return None
        times = [(u - zero) % modulus for u in units if u is not None]
        for values in product(range(2 * s), repeat=len(bases)):
            due = (zero + sum(t * v for t, v in zip(times, values, strict=True))) % modulus
            if at(values) != due:
                return None
        total = Poly(((((), zero if zero <= s else zero - modulus)),)) if zero else Poly(())
        for base, t in zip(bases, times, strict=True):
            total = total + base * Poly((((), t),)) if t else total
        return total

    def based(self, e: Expr, s: int, bases: dict[Poly, Var]) -> Expr | None:
        """``e`` over stages and parities of places, which are added to ``bases``."""

        def of(kind: str, place: Poly) -> Expr:
            u = bases.setdefault(place, Var(f"u{len(bases)}"))
            return Var(f"{u.name}.{kind}")

        match e:
            case Const():
                return e
            case Binary("%", Binary("//", x, Const(n)), Const(2)) if n == s:
                return of("parity", poly(self.resolve(x)))
            case Binary("%", x, Const(n)) if n == (s if s > 1 else 2):
                return of("stage" if s > 1 else "parity", poly(self.resolve(x)))
            case Var(name) if (name, s) in self._places:
                return of(*self._places[name, s])
            case Var() if e in self.lets:
                return self.based(self.lets[e], s, bases)
            case Binary(op, a, b):
                both = self.all_based((a, b), s, bases)
                return None if both is None else Binary(op, *both)
            case Select(c, a, b):
                three = self.all_based((c, a, b), s, bases)
                return None if three is None else Select(*three)
        return None

    def all_based(self, es: tuple[Expr, ...], s: int, bases: dict[Poly, Var]) -> list[Expr] | None:
        """All of them so, or None."""
        found = [x for e in es if (x := self.based(e, s, bases)) is not None]
        return found if len(found) == len(es) else None


def trips(loop: For, steps: Steps, facts: Facts) -> Expr:
    """How often a loop runs."""
    span = steps.resolve(loop.stop - loop.start)
    span = poly(span).expr()
    if loop.step != ONE:
        span = ceildiv(span, steps.resolve(loop.step))
    return span if facts.follows(poly(span)) else maximum(span, 0)


def congruent(a: Poly, b: Poly, modulus: int) -> bool:
    """Whether two polynomials are equal modulo a number, for all values of their atoms."""
    return all(c % modulus == 0 for _, c in (a - b).terms)


def put(p: Poly, values: Mapping[Any, Poly]) -> Poly:
    """A polynomial with polynomials in place of atoms, those within other atoms excepted."""
    if not any(a in values for m, _ in p.terms for a in m):
        return p
    total = Poly(())
    for monomial, c in p.terms:
        term = Poly((((), c),))
        for atom in monomial:
            term = term * values.get(atom, Poly((((atom,), 1),)))
        total = total + term
    return total


def _indices(body: Body) -> frozenset[str]:
    """Names of what is the index of an mbarrier that is waited for, and of what that is from."""
    loops = [s for s in walk(body) if isinstance(s, For)]
    waits = (s.bar.index for s in walk(body) if isinstance(s, MBarrierWait))
    found, before = {e.name for e in waits if isinstance(e, Var)}, 0
    while len(found) > before:
        before = len(found)
        for c in (c for loop in loops for c in loop.carries):
            if not found.isdisjoint((c.var.name, c.result.name)):
                found |= {x.name for x in (c.var, c.init, c.result) if isinstance(x, Var)}
    return frozenset(found)


def _directly(body: Body) -> Iterator[Stmt]:
    """The statements of a loop's body that are in no loop in it."""
    for stmt in body:
        yield stmt
        if not isinstance(stmt, For):
            for inner in bodies(stmt):
                yield from _directly(inner)


def _moving(p: Poly, at: Var) -> int | None:
    """The coefficient of a place in another one, if it stands alone."""
    found = [(m, c) for m, c in p.terms if at in m]
    return found[0][1] if len(found) == 1 and found[0][0] == (at,) else None


@dataclass(frozen=True, slots=True)
class Scalar:
    """An i32 that a loop carries, with what it yields for the next trip."""

    var: Var
    init: Expr
    result: Var
    following: Expr


def scalars_of(loop: For) -> Iterator[Scalar]:
    """The i32 that a loop carries."""
    for carry, following in zip(loop.carries, loop.yields, strict=True):
        match carry, following:
            case Carry(Var(type=ScalarType.I32) as var, Expr() as init, Var() as result), Expr():
                yield Scalar(var, init, result, following)
