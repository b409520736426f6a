"""What follows from linear inequalities over scalar expressions, for all values of their atoms.

A *fact* is a polynomial that is not negative. Monomials count as unknowns of their own, so that
what follows is linear; what an atom is (a quotient, a minimum, a special register) is added as
facts about it. The answer "it follows" holds for all integers; where the rationals do not suffice,
or a question grows too large, the answer is "not known".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import gcd

from lowering.ground.expr import Binary, Const, Expr, Select, Special, Var, free_vars
from lowering.ground.poly import Poly, poly

__all__ = ["NOTHING", "Facts", "natural", "positive"]

SPLITS = 3
"""Minima, maxima and choices of one question that are taken apart, each into its two cases."""

ROWS = 80
"""Inequalities that an elimination may come to; more are not worked on."""

Monomial = tuple[Expr, ...]
_Row = tuple[tuple[int, int], ...]
"""A sum that is not negative: numbers of monomials, with how often each is in it."""
_CONSTANT = 0
_ONE = Poly((((), 1),))
_RANKS = {"ctaid.x": "nctaid.x", "ctaid.y": "nctaid.y"}


@dataclass(frozen=True, slots=True)
class Facts:
    """Polynomials that are not negative, on one path through a kernel.

    Args:
        known: the polynomials.
        natural: names of variables that are not negative: sizes, and the like.
        defined: what other names stand for.
        positive: divisors that are positive although their form does not say so.
        memo: questions that have been answered, about the same names.
    """

    known: tuple[Poly, ...] = ()
    natural: frozenset[str] = frozenset()
    defined: Mapping[str, Expr] = field(default_factory=dict, compare=False)
    positive: frozenset[Expr] = frozenset()
    memo: dict[tuple[frozenset[Poly], int, bool], bool] = field(default_factory=dict, compare=False)

    def __add__(self, more: Iterable[Poly]) -> Facts:
        return replace(self, known=(*self.known, *(p for p in more if p not in self.known)))

    def without(self, names: frozenset[str]) -> Facts:
        """Those that say nothing about some variables."""
        kept = (p for p in self.known if not any(names & _names(a) for a in _atoms(p)))
        return replace(self, known=tuple(kept))

    def common(self, other: Facts) -> Facts:
        """What is known on two paths that meet."""
        kept = [p for p in self.known if p in other.known or other.follows(p, deep=False)]
        kept += [p for p in other.known if p not in kept and self.follows(p, deep=False)]
        return replace(self, known=tuple(kept))

    def follows(self, goal: Poly, deep: bool = True, products: bool = False) -> bool:
        """Whether ``goal`` is never negative; if not ``deep``, whatever names stand for. With
        ``products`` facts are multiplied by what is not negative, where products are asked about.
        """
        constant = goal.constant()
        if constant is not None:
            return constant >= 0
        found = self._contradicts(-goal - _ONE, deep=deep)
        return found or (products and self._contradicts(*self._multiplied(-goal - _ONE)))

    def equal(self, difference: Poly, products: bool = False) -> bool:
        """Whether ``difference`` is always zero."""
        both = (difference, -difference)
        return not difference.terms or all(self.follows(d, products=products) for d in both)

    @property
    def impossible(self) -> bool:
        """Whether they contradict one another."""
        return bool(self.known) and self._refuted([*self.known], 0, False)

    def decide(self, cond: Expr) -> bool | None:
        """Whether a predicate always holds, never does, or neither is known."""
        if isinstance(cond, Const):
            return bool(cond.value)
        if all(self._contradicts(*case) for case in _cases(cond, False)):
            return True
        if all(self._contradicts(*case) for case in _cases(cond, True)):
            return False
        return None

    def assumed(self, cond: Expr, truth: bool) -> Facts:
        """With what a predicate says where it holds, or does not; nothing of two cases."""
        cases = list(_cases(cond, truth))
        return self + cases[0] if len(cases) == 1 else self

    def _contradicts(self, *more: Poly, deep: bool = True) -> bool:
        rows = [*more, *self._about(more)]
        shallow = self._refuted(rows, 0, False) or self._refuted(rows, SPLITS, False)
        return shallow or (deep and self._refuted(rows, SPLITS, True))

    def _refuted(self, rows: list[Poly], splits: int, deep: bool) -> bool:
        key = frozenset(rows), splits, deep
        if key not in self.memo:
            self.memo[key] = _infeasible(rows, self, splits, deep)
        return self.memo[key]

    def _multiplied(self, goal: Poly) -> tuple[Poly, ...]:
        """A goal, and products of it and of facts with the factors of products in them."""
        rows = [goal, *self.known]
        meant = [*rows, *_meanings(rows, self, False, True)]
        factors = {a for r in meant for m, _ in r.terms if len(m) > 1 for a in m}
        factors = {a for a in factors if natural(a, self)}
        plain = [r for r in rows if all(len(m) < 2 for m, _ in r.terms)]
        return (*rows, *(r * poly(a) for r in plain for a in sorted(factors, key=str)))

    def _about(self, goals: tuple[Poly, ...]) -> list[Poly]:
        """The facts that share unknowns with the goals, or with facts that do."""
        reached = {m for g in goals for m, _ in g.terms for m in (m, *((a,) for a in m)) if m}
        left, found, grew = list(self.known), [], True
        while grew:
            near = [p for p in left if any(m in reached for m, _ in p.terms)]
            grew = bool(near)
            left = [p for p in left if p not in near]
            found += near
            reached |= {m for p in near for m, _ in p.terms if m}
        return found


NOTHING = Facts()


def _cases(cond: Expr, truth: bool) -> Iterator[tuple[Poly, ...]]:
    """Groups of facts, one of which holds where the predicate is ``truth``; empty if unknown."""
    match cond:
        case Binary("<", a, b):
            yield (poly(b) - poly(a) - _ONE,) if truth else (poly(a) - poly(b),)
        case Binary("<=", a, b):
            yield (poly(b) - poly(a),) if truth else (poly(a) - poly(b) - _ONE,)
        case Binary("==" | "!=" as op, a, b):
            d = poly(a) - poly(b)
            if (op == "==") == truth:
                yield d, -d
            else:
                yield (d - _ONE,)
                yield (-d - _ONE,)
        case Binary("and" | "or" as op, a, b) if (op == "and") == truth:
            for first in _cases(a, truth):
                for second in _cases(b, truth):
                    yield *first, *second
        case Binary("and" | "or", a, b):
            yield from _cases(a, truth)
            yield from _cases(b, truth)
        case Const(value):
            if bool(value) == truth:
                yield ()
        case _:
            yield ()


def _infeasible(
    rows: list[Poly], facts: Facts, splits: int, deep: bool, apart: frozenset[Expr] = frozenset()
) -> bool:
    """Whether no integers satisfy all rows; if ``deep``, names are what they stand for, and
    ``splits`` times what is no sum is taken apart, none of ``apart`` again.
    """
    rows = [*rows, *_meanings(rows, facts, deep, bool(splits))]
    if _eliminated(rows):
        return True
    for atom in sorted(_all_atoms(rows) - apart, key=str) if splits else ():
        found = list(_apart(atom))
        if found:
            return all(
                _infeasible(
                    [*rows, *case, poly(atom) - value, value - poly(atom)],
                    facts, splits - 1, deep, apart | {atom},
                )
                for value, *case in found
            )  # fmt: skip
    return False


def _apart(atom: Expr) -> Iterator[tuple[Poly, ...]]:
    """The cases of an atom: its value, and what is not negative then."""
    match atom:
        case Binary("min", a, b):
            yield poly(a), poly(b) - poly(a)
            yield poly(b), poly(a) - poly(b) - _ONE
        case Binary("max", a, b):
            yield poly(a), poly(a) - poly(b)
            yield poly(b), poly(b) - poly(a) - _ONE
        case Select(cond, a, b):
            for case in _cases(cond, True):
                yield poly(a), *case
            for case in _cases(cond, False):
                yield poly(b), *case


def _meanings(rows: list[Poly], facts: Facts, deep: bool, far: bool) -> Iterator[Poly]:
    """What is true of the atoms of some rows, and, if ``far``, of the atoms in that."""
    pending, seen = _all_atoms(rows), set[Expr]()
    while pending:
        atom = pending.pop()
        if atom in seen:
            continue
        seen.add(atom)
        for fact in _meaning(atom, facts, deep):
            yield fact
            if far:
                pending |= _atoms(fact)
    for monomial in {m for r in rows for m, _ in r.terms if len(m) > 1}:
        if all(natural(a, facts) for a in monomial):
            yield Poly(((monomial, 1),))


def _meaning(atom: Expr, facts: Facts, deep: bool) -> Iterator[Poly]:
    this = poly(atom)
    if natural(atom, facts):
        yield this
    match atom:
        case Var(name) if deep and name in facts.defined:
            yield from (this - poly(facts.defined[name]), poly(facts.defined[name]) - this)
        case Special(name):
            if name.startswith("n"):
                yield this - _ONE
            if name in _RANKS:
                yield poly(Special(_RANKS[name])) - this - _ONE
        case Binary("//", a, b) if positive(b, facts):
            yield poly(a) - this * poly(b)
            yield this * poly(b) + poly(b) - _ONE - poly(a)
        case Binary("ceildiv", a, b) if positive(b, facts):
            yield this * poly(b) - poly(a)
            yield poly(a) + poly(b) - _ONE - this * poly(b)
        case Binary("%", a, b) if positive(b, facts):
            yield this
            yield poly(b) - _ONE - this
        case Binary("min", a, b):
            yield from (poly(a) - this, poly(b) - this)
        case Binary("max", a, b):
            yield from (this - poly(a), this - poly(b))


def natural(e: Expr, facts: Facts) -> bool:
    """Whether the form of an expression says that it is not negative."""
    match e:
        case Const(value):
            return value >= 0
        case Var(name):
            meant = facts.defined.get(name)
            return name in facts.natural if meant is None else natural(meant, facts)
        case Special():
            return True
        case Binary("max", a, b):
            return natural(a, facts) or natural(b, facts)
        case Binary("+" | "*" | "min" | "//" | "%" | "ceildiv" | "mulhi", a, b):
            return natural(a, facts) and natural(b, facts)
        case Select(_, a, b):
            return natural(a, facts) and natural(b, facts)
    return False


def positive(e: Expr, facts: Facts) -> bool:
    """Divisors that are positive whatever happens: constants, counts of CTAs, maxima with one."""
    match e:
        case Const(value):
            return value > 0
        case Special(name):
            return name.startswith("n")
        case _ if e in facts.positive:
            return True
        case Var(name) if name in facts.defined:
            return positive(facts.defined[name], facts)
        case Binary("max", a, b):
            return positive(a, facts) or positive(b, facts)
        case Binary("//", Special(name), Const(value)):
            return name.startswith("n") and value > 0  # clusters of a grid
    return False


def _eliminated(rows: list[Poly]) -> bool:
    """Whether no rationals satisfy all rows (Fourier and Motzkin), monomials being unknowns."""
    numbers: dict[Monomial, int] = {(): _CONSTANT}
    table = {_row({numbers.setdefault(m, len(numbers)): c for m, c in r.terms}) for r in rows}
    while True:
        counts: dict[int, list[int]] = {}
        for row in table:
            if not row or (len(row) == 1 and row[0][0] == _CONSTANT):
                if row and row[0][1] < 0:
                    return True
                continue
            for unknown, c in row:
                if unknown != _CONSTANT:
                    counts.setdefault(unknown, [0, 0])[c > 0] += 1
        if not counts or len(table) > ROWS:
            return False
        best = min(counts, key=lambda m: counts[m][0] * counts[m][1] - sum(counts[m]))
        kept, above, below = set[_Row](), list[dict[int, int]](), list[dict[int, int]]()
        for row in table:
            terms = dict(row)
            c = terms.get(best, 0)
            if c:
                (above if c > 0 else below).append(terms)
            else:
                kept.add(row)
        table = kept | {_joined(a, b, best) for a in above for b in below}


def _joined(a: dict[int, int], b: dict[int, int], unknown: int) -> _Row:
    x, y = a[unknown], -b[unknown]
    total = {m: y * c for m, c in a.items()}
    for m, c in b.items():
        total[m] = total.get(m, 0) + x * c
    return _row(total)


def _row(terms: dict[int, int]) -> _Row:
    """A row divided by what its coefficients have in common, its constant rounded down."""
    common = max(gcd(*(c for m, c in terms.items() if m != _CONSTANT)), 1)
    return tuple(sorted([(m, c // common) for m, c in terms.items() if c // common]))


def _all_atoms(rows: Iterable[Poly]) -> set[Expr]:
    return {a for r in rows for a in _atoms(r)}


def _atoms(p: Poly) -> set[Expr]:
    return {a for monomial, _ in p.terms for a in monomial}


def _names(atom: Expr) -> frozenset[str]:
    return frozenset(v.name for v in free_vars(atom))
