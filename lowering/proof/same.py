"""Whether all who fill a ring and all who read it take the same steps, for all sizes.

Agents with equal shapes (``lowering.proof.shape``) wait equally often, whatever the sizes: each
bound and condition is the same function of what is the same for them.

Those of teams are dealt out (``lowering.proof.teams``). Others have to take as many steps, the
first ones, by numbers in closed form (``lowering.proof.total``).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from lowering.ground.expr import (
    Binary,
    Const,
    Expr,
    Special,
    children,
)
from lowering.ground.poly import Poly, poly
from lowering.kernel.kernel import Kernel
from lowering.kernel.operands import Stmt
from lowering.kernel.sync import MBarrierWait
from lowering.proof.agent import Agent
from lowering.proof.linear import Facts
from lowering.proof.rings import Ring, defined
from lowering.proof.shape import Shape, Shaper
from lowering.proof.state import Walked
from lowering.proof.steps import Steps
from lowering.proof.teams import Dealt, dealt
from lowering.proof.total import taken
from lowering.proof.words import end_of, ended_behind, ended_for, ends_at, reads_of

__all__ = ["same_steps"]


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
    ended, teams = ended_for(shape)
    if behind := ended_behind(shape):
        reads = reads_of(reading.values(), ring.buffers)
        ended, teams = (shape, 0) if reads is None else (reads, behind)
    if teams:
        shape, end = ended, end_of(ended)
        if teams - 1 > ring.stages or end is None or not ends_at(*end, steps, facts):
            return Dealt({}, "what is stored behind the last step may be a step")
    parts = {a: s for a, s in reading.items() if _parted(ways[a], ring.full) or s != shape}
    if not parts:
        return Dealt({}, f"ends for {teams} teams, and none is there" if teams > 1 else "")
    return dealt(shape, parts, ways, ring, teams, facts)


def _wait(array: str, stmt: Stmt) -> str | None:
    """The event that a wait at an array of mbarriers is."""
    return "wait" if isinstance(stmt, MBarrierWait) and stmt.bar.array == array else None


def _parted(way: Walked, array: str) -> bool:
    """Whether an agent leaves steps at an array to others."""
    return any(a == array for _, a in (*way.skips, *way.begins, *way.idle))


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
