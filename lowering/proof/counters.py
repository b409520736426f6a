"""Counters in global memory: zero again when a grid has ended, and who raises which.

*Tickets.* One thread of each cluster draws ``inc`` of one counter until a ticket is no smaller than
``E``, at the latest the E + 1st. The first E tickets are smaller, each further one is the last of
its cluster's: with X clusters E + X are drawn, and a limit of ``E + X - 1`` makes the counter zero
with the last of them. So a ticket that ends a loop comes before the loop's trips are over.

*Splits.* The CTAs along z, each with a part of K, execute the same tiles. For each number of z the
program is looked at alone: one waits for as many as the others raise, at the same counter, and sets
it back; the slots that it adds are those that the others store. Different tiles, CTAs and
warpgroups have different counters and slots: digits of their number, each smaller than its base.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import gcd
from typing import TypeGuard

from lowering.ground.expr import ONE, ZERO, Binary, Const, Expr, Special, Var, substitute
from lowering.ground.poly import Poly, poly
from lowering.kernel.atomic import Atom
from lowering.kernel.control import Break, Elect, For, If
from lowering.kernel.kernel import Kernel
from lowering.kernel.operands import Body, Stmt
from lowering.kernel.visit import bodies, walk
from lowering.proof.agent import Agent
from lowering.proof.handed import ADD, RAISE, STORE, WAIT, sums_of
from lowering.proof.numbers import given
from lowering.proof.obligation import Obligation, RefutedError, UnknownError, Verdict
from lowering.proof.shape import Shape, renamed, text
from lowering.proof.views import Views

__all__ = ["splits", "tickets"]

NAME = "counters"
_ONE = poly(ONE)
_X, _GROUP, _PART = Special("ctaid.x"), Var("group"), Var("part")


def tickets(kernel: Kernel, agents: tuple[Agent, ...], views: Views) -> Iterator[Obligation]:
    """Counters that tickets are drawn from are zero again, and a last ticket comes."""
    for counter in kernel.counters:
        drawing = [a for a in agents if any(True for _ in _draws(a.body, counter.name))]
        ops = {s.op for a in agents for s in walk(a.body) if _changes(s, counter.name)}
        if ops == {"add", "exch"} and kernel.workspaces:
            continue  # partial sums
        if counter.name in given(kernel):
            continue  # numbers of CTAs
        try:
            if ops != {"inc"}:
                raise UnknownError(f"nothing is known of {', '.join(sorted(ops)) or 'no'} changes")
            _drawn(kernel, drawing, counter.name, views)
            yield Obligation(NAME, counter.name)
        except UnknownError as e:
            yield Obligation(NAME, counter.name, Verdict.UNPROVED, str(e))


def _changes(stmt: Stmt, counter: str) -> TypeGuard[Atom]:
    return isinstance(stmt, Atom) and stmt.counter.array == counter


def _draws(body: Body, counter: str) -> Iterator[Atom]:
    """The draws from a counter in a program, but for branches that are never taken."""
    for stmt in body:
        if _changes(stmt, counter) and stmt.op == "inc":
            yield stmt
        taken = bodies(stmt)
        if isinstance(stmt, If) and isinstance(stmt.cond, Const):
            taken = (stmt.then if stmt.cond.value else stmt.other,)
        for inner in taken:
            yield from _draws(inner, counter)


def _drawn(kernel: Kernel, drawing: list[Agent], counter: str, views: Views) -> None:
    """Fail unless one thread of each cluster draws until its last ticket."""
    if len(drawing) > 1 or len(drawing[0].warps) > 1:
        raise UnknownError("more than one warp of a cluster draws")
    (agent,) = drawing
    steps = views.steps[agent]
    loops = [s for s in walk(agent.body) if isinstance(s, For) and any(_draws(s.body, counter))]
    if len(loops) != 1 or not any(
        isinstance(s, Elect) and loops[0] in walk(s.body) for s in walk(agent.body)
    ):
        raise UnknownError("tickets are not drawn by one thread, in one loop")
    (loop,) = loops
    draws = [s for s in loop.body if isinstance(s, Atom)]
    conds = [steps.resolve(s.cond) for s in loop.body if isinstance(s, Break)]
    if len(draws) != 1 or len(list(_draws(agent.body, counter))) != 1 or len(conds) != 1:
        raise UnknownError("not one ticket is drawn in each trip")
    ticket = draws[0].out
    match conds[0]:
        case Binary("<=", end, Binary("min", t, bound)) if t == ticket and bound == end:
            pass
        case Binary("<=", end, t) if t == ticket:
            pass
        case _:
            raise UnknownError(f"the loop ends at {conds[0]}")
    clusters = Special("nctaid.x") // kernel.cluster
    limit, stop = (poly(steps.resolve(e)) for e in (draws[0].value, loop.stop))
    if limit != poly(end) + poly(clusters) - _ONE:
        raise UnknownError(f"the limit {limit.expr()} is not {end} and {clusters} last tickets")
    if loop.start != ZERO or loop.step != ONE or not views.facts.follows(stop - poly(end) - _ONE):
        raise UnknownError(f"a loop of {loop.stop} trips may end before the last ticket")


def splits(kernel: Kernel, agents: tuple[Agent, ...], views: Views) -> Iterator[Obligation]:
    """Of a kernel whose CTAs along z share out K: counters and slots of its partial sums."""
    if kernel.splits == 1 or not kernel.workspaces:
        return
    subject = kernel.workspaces[0].name
    try:
        rows = (Var(n) for n, e in views.facts.defined.items() if e == kernel.grid_y)
        found = _Splits(kernel, next(rows, kernel.grid_y))
        for agent in agents:
            shape = sums_of(kernel, agent, views) if agent in views.ways else ()
            if any(word in text(shape) for word in (WAIT, RAISE)):
                found.note(agent, shape)
        found.check()
        yield Obligation(NAME, subject)
    except RefutedError as e:
        yield Obligation(NAME, subject, Verdict.REFUTED, e.why)
    except UnknownError as e:
        yield Obligation(NAME, subject, Verdict.UNPROVED, str(e))


@dataclass(frozen=True, slots=True)
class _Site:
    """An event: its word, counter or slot, what else it says, and the loops around it."""

    word: str
    at: Poly
    value: Expr
    loops: tuple[object, ...]


def _sites(shape: Shape, loops: tuple[object, ...] = ()) -> Iterator[_Site]:
    """The events of a program whose conditions are known."""
    for part in shape:
        match part:
            case ("if", Const(value), tuple() as then, tuple() as other):
                yield from _sites(then if value else other, loops)
            case ("if", _, tuple() as then, tuple() as other):
                if any(True for branch in (then, other) for _ in _sites(branch, loops)):
                    raise UnknownError(f"{text(part)} depends on more than the part of K")
            case ("loop", start, stop, step, _, tuple() as inner):
                yield from _sites(inner, (*loops, (start, stop, step)))
            case (str() as word, Expr() as at, *more):
                count = [e for e in more if isinstance(e, Expr)]
                yield _Site(word, poly(at), count[0] if count else ZERO, loops)


@dataclass
class _Splits:
    """The counters and slots of each warpgroup and part of K, of all CTAs of a cluster; ``rows`` is
    what the kernel calls the CTAs along y.
    """

    kernel: Kernel
    rows: Expr
    counters: dict[tuple[int, int], Poly] = field(default_factory=dict)
    slots: dict[tuple[int, int], Poly] = field(default_factory=dict)
    loops: set[tuple[object, ...]] = field(default_factory=set)

    def note(self, agent: Agent, shape: Shape) -> None:
        """Note what an agent does, for each part; fail where that does not fit together."""
        group = agent.group or 0
        parts = range(self.kernel.splits)
        sites = [list(_sites(renamed(shape, {Special("ctaid.z"): Const(z)}))) for z in parts]
        waits = [(z, s) for z in parts for s in sites[z] if s.word == WAIT]
        raises = [(z, s) for z in parts for s in sites[z] if s.word == RAISE]
        stores = {z: s for z in parts for s in sites[z] if s.word == STORE}
        if len(waits) != 1 or sorted({z for z, _ in raises} | {waits[0][0]}) != list(parts):
            raise RefutedError(NAME, "", f"{len(waits)} parts wait, {len(raises)} raise")
        ((last, wait),) = waits
        if wait.value != Const(len(raises)) or sorted(stores) != sorted(z for z, _ in raises):
            why = f"part {last} waits for {wait.value} of {len(raises)}"
            raise RefutedError(NAME, "", why)
        for z, site in raises:
            if site.at != wait.at or site.loops != wait.loops or stores[z].loops != wait.loops:
                why = f"part {z} raises {site.at.expr()}, awaited is {wait.at.expr()}"
                raise RefutedError(NAME, "", why)
        added = [p for s in sites[last] if s.word == ADD for p in _unrolled(s, len(wait.loops))]
        if sorted(map(str, added)) != sorted(str(s.at) for s in stores.values()):
            raise RefutedError(NAME, "", "slots that are added are not those that are stored")
        self.loops.add(wait.loops)
        _put(self.counters, (group, 0), wait.at)
        for n, z in enumerate(sorted(stores)):
            _put(self.slots, (group, n), stores[z].at)

    def check(self) -> None:
        """Fail unless all counters, and all slots, are different ones."""
        depths = {len(nest) for nest in self.loops}
        if depths - {0, 1} or len(depths) > 1:
            raise UnknownError("warpgroups have their sums in several loops")
        looped = 1 in depths
        for places in (self.counters, self.slots):
            if not self.distinct(places, looped):
                first = next(iter(places.values()), Poly(())).expr()
                raise UnknownError(f"{first} may be the same for two")

    def distinct(self, places: Mapping[tuple[int, int], Poly], looped: bool) -> bool:
        """Whether places differ for all trips, CTAs, warpgroups and parts."""
        groups, parts = (1 + max((key[n] for key in places), default=0) for n in (0, 1))
        base = places.get((0, 0), Poly(()))
        by_group = places.get((1, 0), base) - base
        by_part = places.get((0, 1), base) - base
        for (g, n), place in places.items():
            if place != base + by_group * poly(Const(g)) + by_part * poly(Const(n)):
                return False
        whole, radix = base, dict[Expr, Poly | None]({_X: poly(Special("nctaid.x"))})
        for digit, count, by in ((_GROUP, groups, by_group), (_PART, parts, by_part)):
            if count > 1:
                whole += by * poly(digit)
                radix[digit] = poly(Const(count))
        if self.kernel.grid_y != ONE:
            radix[Special("ctaid.y")] = poly(self.rows)
        if looped:
            radix[Var("%0")] = None
        return len(places) == groups * parts and _peeled(whole, radix)


def _put(places: dict[tuple[int, int], Poly], key: tuple[int, int], at: Poly) -> None:
    if places.setdefault(key, at) != at:
        raise UnknownError("CTAs of a cluster have their sums at different places")


def _unrolled(site: _Site, depth: int) -> Iterator[Poly]:
    """The slots that the loop around an addition goes through."""
    match site.loops[depth:]:
        case ((Expr() as start, Expr() as stop, Expr() as step),):
            count = poly(stop).apart(poly(start))
            if count is None or not isinstance(step, Const) or count % step.value:
                raise UnknownError("how many parts are added is not known")
            var = Var(f"%{depth}")
            for n in range(0, count, step.value):
                yield poly(substitute(site.at.expr(), {var: start + n}))
        case _:
            raise UnknownError("parts are not added in one loop")


def _peeled(place: Poly, radix: dict[Expr, Poly | None]) -> bool:
    """Whether a number has each of some digits, each below its base; None is of the first digit."""
    while radix:
        terms = {m: c for m, c in place.terms if m}
        common = gcd(*terms.values()) if terms else 0
        digit = next(
            (d for d in radix if terms.get((d,)) == common and _over(terms, d, radix[d], common)),
            None,
        )
        if digit is None:
            return False
        base, rest = radix.pop(digit), {m: c // common for m, c in terms.items() if m != (digit,)}
        if base is not None:
            place = _divided(rest, base)
        elif rest or radix:
            return False
    return True


def _over(terms: dict[tuple[Expr, ...], int], digit: Expr, base: Poly | None, common: int) -> bool:
    """Whether all terms but a digit's own are multiples of its base."""
    others = {m: c for m, c in terms.items() if m != (digit,)}
    if base is None:
        return not others
    number = base.constant()
    if number is not None:
        return all(c % (common * number) == 0 for c in others.values())
    ((atoms, _),) = base.terms
    return all(atoms[0] in m for m in others)


def _divided(terms: dict[tuple[Expr, ...], int], base: Poly) -> Poly:
    number = base.constant()
    if number is not None:
        return Poly.of((m, c // number) for m, c in terms.items())
    ((atoms, _),) = base.terms
    at = {m: m.index(atoms[0]) for m in terms}
    return Poly.of(((*m[: at[m]], *m[at[m] + 1 :]), c) for m, c in terms.items())
