"""Whether all who fill a ring and all who read it take the same steps, for all sizes.

The *shape* of an agent's program, as one array of mbarriers sees it, is its loops, conditions and
waits with all else taken out, and names of its own replaced by their place in it. Agents with equal
shapes wait equally often, whatever the sizes: each bound and condition is the same function of what
is the same for them.

Of teams, the shape of one that takes each step is dealt out: where it has a loop of ``X`` trips,
team t of T has one of ``ceildiv(max(X - t, 0), T)``, which begins t trips late and skips T - 1 of
them behind each of its own. The trips ``T * i + t`` of all teams are those from 0 to X, each once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lowering.ground.expr import (
    Binary,
    Const,
    Expr,
    Select,
    Special,
    Var,
    ceildiv,
    children,
    free_vars,
    maximum,
    substitute,
)
from lowering.ground.poly import Poly, poly
from lowering.kernel.control import Break, For, If
from lowering.kernel.kernel import Kernel
from lowering.kernel.operands import Body, Stmt
from lowering.kernel.queue import LdWord, StWord
from lowering.kernel.sync import MBarrierWait
from lowering.kernel.visit import bodies, walk
from lowering.proof.agent import Agent
from lowering.proof.automaton import Walked
from lowering.proof.rings import Ring, defined
from lowering.proof.steps import Steps, congruent, scalars_of

__all__ = ["Dealt", "same_steps"]

Shape = tuple[object, ...]

TEAMS = 4
"""Teams that may take steps in turn."""


@dataclass(frozen=True, slots=True)
class Dealt:
    """Who takes which steps of a ring.

    Args:
        teams: of agents that take steps in turn with others, which of the teams they are in.
        why: what keeps the steps of all from being the same; empty if they are.
    """

    teams: Mapping[Agent, int]
    why: str = ""


def same_steps(
    kernel: Kernel, ring: Ring, ways: Mapping[Agent, Walked], steps: Mapping[Agent, Steps]
) -> Dealt:
    """All who fill a ring and all who read it take the same steps, in every CTA of a cluster."""
    filling, reading = (
        {a: s for a in ways if (s := _Shaper(kernel, a, steps[a], array).shape(a.body, 0))}
        for array in (ring.empty, ring.full)
    )
    whole = {s for a, s in filling.items() if not _parted(ways[a], ring.empty)}
    if len(whole) != 1 or any(_parted(ways[a], ring.empty) for a in filling):
        return Dealt({}, f"those who fill it do so in {len(whole)} ways")
    (shape,) = whole
    if kernel.cluster > 1 and not _uniform(kernel, shape):
        return Dealt({}, "steps may differ from CTA to CTA")
    teams = {a: s for a, s in reading.items() if _parted(ways[a], ring.full) or s != shape}
    return _dealt(shape, teams, ways, ring) if teams else Dealt({})


def _parted(way: Walked, array: str) -> bool:
    """Whether an agent leaves steps at an array to others."""
    return any(a == array for _, a in (*way.skips, *way.begins))


def _dealt(
    shape: Shape, teams: dict[Agent, Shape], ways: Mapping[Agent, Walked], ring: Ring
) -> Dealt:
    """Whether teams take the steps of one who takes all, each step one of them."""
    found: dict[Agent, tuple[int, int]] = {}
    for agent, mine in teams.items():
        places = [(t, n) for n in range(2, TEAMS + 1) for t in range(n)]
        fitting = [p for p in places if _of_team(shape, *p) == mine]
        if len(fitting) != 1:
            return Dealt({}, f"{agent}: {_text(mine)} is no team's part of {_text(shape)}")
        ((team, count),) = fitting
        way, outer = ways[agent], _outer(agent, ring.full)
        key = outer, ring.full
        if any(k != key and k[1] == ring.full for k in (*way.skips, *way.begins)):
            return Dealt({}, f"{agent} leaves out steps in more than one loop")
        length, modulus = way.lengths.get(key, Poly(())), 2 * ring.stages
        zero = Poly(())
        begins, skips = way.begins.get(key, zero), way.skips.get(key, zero)
        if not congruent(begins, length * poly(Const(team)), modulus) or not congruent(
            skips, length * poly(Const(count - 1)), modulus
        ):
            why = f"{agent} begins {begins.expr()} steps late and skips {skips.expr()}"
            return Dealt({}, why)
        found[agent] = team, count
    count = max(n for _, n in found.values())
    for rank in {a.rank for a in found}:
        there = {found[a] for a in found if a.rank == rank}
        if there != {(t, count) for t in range(count)}:
            return Dealt({}, f"teams {sorted(t for t, _ in there)} of {count} in CTA {rank}")
    return Dealt({a: t for a, (t, _) in found.items()})


def _outer(agent: Agent, array: str) -> str:
    """The outermost loop in which an agent waits at an array."""
    for stmt in walk(agent.body):
        if isinstance(stmt, For) and any(
            isinstance(s, MBarrierWait) and s.bar.array == array for s in walk(stmt.body)
        ):
            return stmt.var.name
    return ""


def _of_team(shape: Shape, team: int, count: int) -> Shape:
    """What is left of a shape for one team."""
    match shape:
        case (("loop", start, stop, step, carried, inner),):
            index = Var("%0")
            assert isinstance(stop, Expr)
            if start == Const(0) and step == Const(1) and not carried and not _uses(inner, index):
                trips = ceildiv(maximum(stop - team, 0), count)
                return (("loop", start, poly(trips).expr(), step, carried, inner),)
    return ("no loop to deal out",)


def _uses(shape: object, var: Var) -> bool:
    if isinstance(shape, tuple):
        return any(_uses(s, var) for s in shape)
    return isinstance(shape, Expr) and var in free_vars(shape)


@dataclass
class _Shaper:
    """Makes the shape of one agent's program for one array."""

    kernel: Kernel
    agent: Agent
    steps: Steps
    array: str
    names: dict[Var, Expr] = field(default_factory=dict)
    words: dict[Expr, Expr] = field(default_factory=dict)

    def shape(self, body: Body, depth: int) -> Shape:
        """That of a statement list."""
        found: list[object] = []
        for n, stmt in enumerate(body):
            match stmt:
                case MBarrierWait(bar=bar) if bar.array == self.array:
                    found.append("wait")
                case LdWord(out=out, src=src):
                    self.names[out] = Var(f"%word {src.buffer}{_at(src.coords)} of %{depth - 1}")
                case StWord(dst=dst, value=value):
                    word = Var(f"%word {dst.buffer}{_at(dst.coords)} of %{depth - 1}")
                    self.words.setdefault(self.key(value), word)
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
                    elif any(inside):
                        found.append(("if", key, *inside))
                case Break(cond):
                    rest = (s for s in (*body[:n], *body[n + 1 :]))
                    if any(self.waits(s) for s in rest):
                        found.append(("break", self.key(cond)))
                case _:
                    for inner_body in bodies(stmt):
                        found += self.shape(inner_body, depth)
        return tuple(found)

    def stored(self, body: Body, depth: int) -> None:
        """Note what is stored as words in a loop, which conditions in it may name."""
        for stmt in body:
            if isinstance(stmt, StWord):
                word = Var(f"%word {stmt.dst.buffer}{_at(stmt.dst.coords)} of %{depth - 1}")
                self.words.setdefault(self.key(stmt.value), word)
            elif not isinstance(stmt, For) or stmt.unroll:
                for inner in bodies(stmt):
                    self.stored(inner, depth)

    def waits(self, stmt: Stmt) -> bool:
        return any(isinstance(s, MBarrierWait) and s.bar.array == self.array for s in walk((stmt,)))

    def loop(self, loop: For, depth: int) -> Shape | None:
        """A loop, with the carried values that its shape names."""
        if not self.waits(loop):
            return None
        start, stop, step = (self.key(e) for e in (loop.start, loop.stop, loop.step))
        self.names[loop.var] = Var(f"%{depth}")
        scalars = list(scalars_of(loop))
        inits = {c.var: self.key(c.init) for c in scalars}
        inner = self.shape(loop.body, depth + 1)
        named = [c for c in scalars if _uses(inner, c.var)]
        canonical: dict[Var, Expr] = {c.var: Var(f"%{depth}.{n}") for n, c in enumerate(named)}
        carried = tuple((inits[c.var], _renamed(self.key(c.following), canonical)) for c in named)
        return ("loop", start, stop, step, carried, _renamed(inner, canonical))

    def key(self, e: Expr) -> Expr:
        """An expression in terms of what is the same for all agents."""
        e = substitute(self.steps.resolve(e), self.names)
        return poly(_replaced(e, self.words)).expr() if not _pred(e) else _replaced(e, self.words)


def _at(coords: tuple[Expr, ...]) -> str:
    return f"[{', '.join(map(str, coords))}]"


def _pred(e: Expr) -> bool:
    return isinstance(e, Binary) and e.op in ("<", "<=", "==", "!=", "and", "or")


def _renamed(shape: object, names: dict[Var, Expr]) -> object:
    if isinstance(shape, tuple):
        return tuple(_renamed(s, names) for s in shape)
    return substitute(shape, names) if isinstance(shape, Expr) else shape


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


def _uniform(kernel: Kernel, shape: object) -> bool:
    """Whether a shape is the same for all CTAs of a cluster."""
    if isinstance(shape, tuple):
        return all(_uniform(kernel, s) for s in shape)
    return not isinstance(shape, Expr) or _same_in_cluster(kernel, shape)


def _same_in_cluster(kernel: Kernel, e: Expr) -> bool:
    return _even(defined(kernel, e), kernel.cluster)


def _even(e: Expr, cluster: int) -> bool:
    match e:
        case Special(name):
            return name not in ("ctaid.x", "cluster.ctarank", "smid", "warp", "lane")
        case Binary("//", Binary("//", a, Const(m)), Const(n)):
            return _even(a // (m * n), cluster)
        case Binary("//", a, Const(n)) if n == cluster:
            return _even(a, cluster) or _by_cluster(poly(a), cluster)
    return all(_even(c, cluster) for c in children(e))


def _by_cluster(p: Poly, cluster: int) -> bool:
    """Whether a polynomial, divided by the CTAs of a cluster, is the same in all of them: of
    ``ctaid.x`` alone, or ``nctaid.x - 1 - ctaid.x``, with whole clusters.
    """
    rank, grid = Special("ctaid.x"), Special("nctaid.x")
    terms = dict(p.terms)
    sign, rest = terms.pop((rank,), 0), terms.pop((), 0)
    terms.pop((grid,), 0)
    whole = all(c % cluster == 0 and all(_even(a, cluster) for a in m) for m, c in terms.items())
    return whole and (sign, rest % cluster) in ((1, 0), (-1, cluster - 1))


def _text(shape: object) -> str:
    if isinstance(shape, tuple):
        return f"({' '.join(map(_text, shape))})"
    return str(shape)
