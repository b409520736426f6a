"""Whether all who fill a ring and all who read it take the same steps, for all sizes.

Agents with equal shapes (``lowering.proof.shape``) wait equally often, whatever the sizes: each
bound and condition is the same function of what is the same for them.

Of teams, the shape of one that takes each step is dealt out: where it has a loop of ``X`` trips,
team t of T has one of ``ceildiv(max(X - t, 0), T)``, which begins t trips late and skips T - 1 of
them behind each of its own. The trips ``T * i + t`` of all teams are those from 0 to X, each once.
Where the loop ends at a word that says so, a team's ends at the first such one of its own words;
who stores them stores one for each team.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from lowering.ground.expr import (
    Binary,
    Const,
    Expr,
    Special,
    Var,
    ceildiv,
    children,
    free_vars,
    maximum,
)
from lowering.ground.poly import Poly, poly
from lowering.kernel.control import For, If
from lowering.kernel.kernel import Kernel
from lowering.kernel.operands import Stmt
from lowering.kernel.queue import StWord
from lowering.kernel.sync import MBarrierWait
from lowering.kernel.visit import walk
from lowering.proof.agent import Agent
from lowering.proof.linear import Facts
from lowering.proof.rings import Ring, defined
from lowering.proof.shape import Shape, Shaper, as_team, renamed, text, uses
from lowering.proof.state import Walked
from lowering.proof.steps import Steps, congruent
from lowering.proof.total import taken

__all__ = ["Dealt", "same_steps"]

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
    kernel: Kernel,
    rings: tuple[Ring, ...],
    ring: Ring,
    ways: Mapping[Agent, Walked],
    steps: Mapping[Agent, Steps],
    facts: Facts,
) -> Dealt:
    """All who fill a ring and all who read it take the same steps, in every CTA of a cluster."""
    known = facts.natural | facts.defined.keys()
    filling, reading = (
        {
            agent: shape
            for agent, way in ways.items()
            if (
                shape := Shaper(
                    agent, steps[agent], partial(_wait, array), way, rings, known
                ).whole()
            )
        }
        for array in (ring.empty, ring.full)
    )
    found = _alike(kernel, ring, filling, reading, ways, steps, facts)
    if found.why and _as_many(kernel, ring, filling, reading, ways, facts):
        return Dealt({})
    return found


def _as_many(
    kernel: Kernel,
    ring: Ring,
    filling: Mapping[Agent, Shape],
    reading: Mapping[Agent, Shape],
    ways: Mapping[Agent, Walked],
    facts: Facts,
) -> bool:
    """Whether all take as many steps, the first ones, by numbers of steps in closed form."""
    counts = [
        taken(agent, array, shape, ways[agent], facts)
        for array, shapes in ((ring.empty, filling), (ring.full, reading))
        for agent, shape in shapes.items()
    ]
    first = counts[0] if counts else None
    if first is None or (kernel.cluster > 1 and not _uniform(kernel, (first.expr(),))):
        return False
    return all(c is not None and facts.equal(c - first) for c in counts)


def _alike(
    kernel: Kernel,
    ring: Ring,
    filling: Mapping[Agent, Shape],
    reading: Mapping[Agent, Shape],
    ways: Mapping[Agent, Walked],
    steps: Mapping[Agent, Steps],
    facts: Facts,
) -> Dealt:
    """Whether all have the same shape, or are teams that take the steps of one that has it."""
    whole = set(filling.values())
    if len(whole) != 1 or any(_parted(ways[a], ring.empty) for a in filling):
        return Dealt({}, f"those who fill it do so in {len(whole)} ways")
    (shape,) = whole
    if kernel.cluster > 1 and not _uniform(kernel, shape):
        return Dealt({}, "steps may differ from CTA to CTA")
    ended, teams = _ended(shape)
    if teams:
        shape = ended
        if teams - 1 > ring.stages or not _ends(ring, _end(ended), steps, facts):
            return Dealt({}, "what is stored behind the last step may be a step")
    parts = {a: s for a, s in reading.items() if _parted(ways[a], ring.full) or s != shape}
    if not parts:
        return Dealt({}, f"ends for {teams} teams, and none is there" if teams else "")
    return _dealt(shape, parts, ways, ring, teams)


def _wait(array: str, stmt: Stmt) -> str | None:
    """The event that a wait at an array of mbarriers is."""
    return "wait" if isinstance(stmt, MBarrierWait) and stmt.bar.array == array else None


def _parted(way: Walked, array: str) -> bool:
    """Whether an agent leaves steps at an array to others."""
    return any(a == array for _, a in (*way.skips, *way.begins, *way.idle))


def _ended(shape: Shape) -> tuple[Shape, int]:
    """The shape of who reads, and the number of teams, where more ends than one are stored: one for
    each team, in a condition that is that of the end; 0 where not.

    Who fills waits for stages of the further ends, too, but nobody waits for what is behind them.
    """
    match shape:
        case (("loop", start, stop, step, (), ("wait", ("if", cond, more, ()), ("break", end))),):
            if cond == end and isinstance(more, tuple) and set(more) == {"wait"}:
                inner = ("wait", ("break", end))
                return (("loop", start, stop, step, (), inner),), len(more) + 1
    return shape, 0


def _end(shape: Shape) -> object:
    """The condition at which the only loop of a shape ends."""
    match shape:
        case ((*_, (*_, ("break", end))),):
            return end
    return None


def _ends(ring: Ring, end: object, steps: Mapping[Agent, Steps], facts: Facts) -> bool:
    """Whether each word that is stored in a condition is an end: no smaller than what ends."""
    match end:
        case Binary("<=", bound, Var()):
            values = [
                places.resolve(stmt.value)
                for agent, places in steps.items()
                for branch in walk(agent.body)
                if isinstance(branch, If) and not isinstance(branch.cond, Const)
                for stmt in walk(branch.then)
                if isinstance(stmt, StWord) and stmt.dst.buffer in ring.buffers
            ]
            return all(facts.follows(poly(v) - poly(bound)) for v in values)
    return False


def _dealt(
    shape: Shape, parts: dict[Agent, Shape], ways: Mapping[Agent, Walked], ring: Ring, teams: int
) -> Dealt:
    """Whether teams take the steps of one who takes all, each step one of them."""
    found: dict[Agent, tuple[int, int]] = {}
    for agent, mine in parts.items():
        places = [(t, n) for n in range(2, TEAMS + 1) for t in range(n)]
        fitting = [p for p in places if _of_team(shape, *p) == mine]
        if len(fitting) != 1:
            return Dealt({}, f"{agent}: {text(mine)} is no team's part of {text(shape)}")
        ((team, count),) = fitting
        way, key = ways[agent], (_outer(agent, ring.full), ring.full)
        if any(k != key and k[1] == ring.full for k in (*way.skips, *way.begins)):
            return Dealt({}, f"{agent} leaves out steps in more than one loop")
        length, modulus, zero = way.lengths.get(key, Poly(())), 2 * ring.stages, Poly(())
        begins, skips = way.begins.get(key, zero), way.skips.get(key, zero)
        due = length * poly(Const(team)), length * poly(Const(count - 1))
        if not congruent(begins, due[0], modulus) or not congruent(skips, due[1], modulus):
            why = f"{agent} begins {begins.expr()} steps late and skips {skips.expr()}"
            return Dealt({}, why)
        found[agent] = team, count
    count = max(n for _, n in found.values())
    if teams not in (0, count):
        return Dealt({}, f"ends for {teams} teams of {count}")
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
        case (("loop", Const(0), stop, Const(1), (), inner),) if isinstance(inner, tuple):
            ends = [part[1] for part in inner if isinstance(part, tuple) and part[0] == "break"]
            words = {
                v: Var(v.name + as_team(team, count))
                for end in ends
                if isinstance(end, Expr)
                for v in free_vars(end)
                if v.name.startswith("%word") and v.name.endswith(" of %0")
            }
            if words:
                return renamed(shape, words)
            if isinstance(stop, Expr) and not ends and not uses(inner, Var("%0")):
                trips = ceildiv(maximum(stop - team, 0), count)
                return (("loop", Const(0), poly(trips).expr(), Const(1), (), inner),)
    return ("no loop to deal out",)


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
