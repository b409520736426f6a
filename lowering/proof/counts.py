"""Arrivals and bytes of a phase: what all agents of a cluster do for one step, against the barrier.

An agent that takes every step counts with each of its warps. Of a ring whose steps teams take in
turn, one team counts for a step, and all teams have to do the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from lowering.ground.expr import Const, Expr, evaluate, free_vars, substitute
from lowering.ground.poly import Poly, poly
from lowering.kernel.control import Elect
from lowering.kernel.kernel import Kernel
from lowering.kernel.memory import TmaLoad
from lowering.kernel.operands import Body
from lowering.kernel.sync import MBarrierInit, MBarrierInval
from lowering.kernel.visit import bodies, inside
from lowering.proof.agent import Agent
from lowering.proof.certain import Values, runs
from lowering.proof.obligation import Obligation, Verdict
from lowering.proof.rings import Ring, defined
from lowering.proof.state import Fill, Told, Walked

__all__ = ["arrivals", "bytes_of", "first_arrivals", "initialised"]

Ways = Mapping[Agent, Walked]


def initialised(kernel: Kernel, agents: tuple[Agent, ...]) -> Iterator[Obligation]:
    """In every CTA each mbarrier is initialised once, by one thread, with the arrivals that are
    declared, and invalidated once.
    """
    for array in kernel.mbarriers:
        for kind, wanted in ((MBarrierInit, array.arrivals), (MBarrierInval, None)):
            once = Counter({(stage, wanted): 1 for stage in range(array.stages)})
            counts = {r: _bound(agents, r, kind, array.name) for r in _ranks(kernel)}
            wrong = next((r for r, found in counts.items() if found != once), None)
            if wrong is None:
                yield Obligation(kind.OP, array.name)
                continue
            where = f" in CTA {wrong}" if wrong else ""
            why = f"{kind.OP}{where} of (stage, arrivals), how often: {dict(counts[wrong])}"
            yield Obligation(kind.OP, array.name, Verdict.REFUTED, why)


_Bound = MBarrierInit | MBarrierInval


def _bound(
    agents: tuple[Agent, ...], rank: int, kind: type[_Bound], array: str
) -> Counter[tuple[int, int | None]]:
    """How often the threads of a CTA initialise, or invalidate, a stage with some arrivals."""
    found = Counter[tuple[int, int | None]]()
    for agent in (a for a in agents if a.rank == rank):
        for stmt, stage, threads in _each(agent.body, kind, array, 32, {}):
            arrivals = stmt.arrivals if isinstance(stmt, MBarrierInit) else None
            found[stage, arrivals] += threads * len(agent.warps)
    return found


def _each(
    body: Body, kind: type[_Bound], array: str, threads: int, values: Values | None
) -> Iterator[tuple[_Bound, int, int]]:
    """The inits, or invals, of an array: each with its stage and the threads that execute it; stage
    -1 where that is not known, or not whether they do: ``values`` are None there.
    """
    for stmt in body:
        if isinstance(stmt, kind) and stmt.bar.array == array:
            at = None if values is None else substitute(stmt.bar.index, values)
            yield stmt, at.value if isinstance(at, Const) else -1, threads
        elif any(isinstance(s, kind) for s in inside(stmt)):
            one = 1 if isinstance(stmt, Elect) else threads
            ways = None if values is None else runs(stmt, values)
            for inner, known in [(b, None) for b in bodies(stmt)] if ways is None else ways:
                yield from _each(inner, kind, array, one, known)


def first_arrivals(kernel: Kernel, ring: Ring, ways: Ways) -> Obligation:
    """Before any step every stage is given to those who fill it, once by each who releases it."""
    name, subject = "first arrivals", ring.name
    late = [ring.empty in ways[a].late for a in ways if ring.full in ways[a].fills]
    if any(late) != all(late):
        why = "those who fill it disagree about the first round"
        return Obligation(name, subject, Verdict.REFUTED, why)
    count = 0 if any(late) else kernel.mbarrier(ring.empty).arrivals
    filled = _filling(ring, ways)
    for rank in filled:
        for stage in range(ring.stages):
            total = sum(
                told[1] * len(agent.warps)
                for agent, way in ways.items()
                for array, at, told in way.first
                if array == ring.empty and at == stage and _target(agent, told) == rank
            )
            if total != count:
                why = f"{total} first arrivals at stage {stage} of CTA {rank}, not {count}"
                return Obligation(name, subject, Verdict.REFUTED, why)
    return Obligation(name, subject)


def arrivals(
    kernel: Kernel, ring: Ring, ways: Ways, teams: Mapping[Agent, int] | None
) -> Iterator[Obligation]:
    """Each phase takes as many arrivals as a step's fills, or its releases, make."""
    full, empty = kernel.mbarrier(ring.full).arrivals, kernel.mbarrier(ring.empty).arrivals
    filled = {a: _fill(ring, w) for a, w in ways.items() if ring.full in w.fills}
    if None in filled.values():
        why = "an agent fills its steps in several ways"
        yield Obligation("arrivals", ring.full, Verdict.REFUTED, why)
    else:
        told = {a: Counter(f.told) for a, f in filled.items() if f is not None}
        yield _counted(ring.full, told, {}, full, _reading(ring, ways))
    released = {a: w.releases.get(ring.full, set()) for a, w in ways.items()}
    if any(len(r) > 1 for r in released.values()):
        why = "an agent releases its steps in several ways"
        yield Obligation("arrivals", ring.empty, Verdict.REFUTED, why)
    else:
        told = {a: Counter(next(iter(r))) for a, r in released.items() if r}
        yield _counted(ring.empty, told, teams, empty, _filling(ring, ways))


def _ranks(kernel: Kernel) -> list[int]:
    return list(range(kernel.cluster))


def _filling(ring: Ring, ways: Ways) -> list[int]:
    """The CTAs in which somebody fills steps, and so waits for free stages."""
    return sorted({a.rank for a, w in ways.items() if ring.full in w.fills})


def _reading(ring: Ring, ways: Ways) -> list[int]:
    """The CTAs in which somebody reads steps, and so waits for full stages."""
    return sorted({a.rank for a, w in ways.items() if ring.full in w.releases})


def _counted(
    array: str,
    told: Mapping[Agent, Counter[Told]],
    teams: Mapping[Agent, int] | None,
    count: int,
    ranks: list[int],
) -> Obligation:
    """Whether the arrivals of a step at each CTA's barrier are those that it awaits."""
    for rank in ranks:
        whole, by_team = 0, Counter[int]()
        for agent, arrived in told.items():
            mine = sum(n * t[1] for t, n in arrived.items() if _target(agent, t) == rank)
            mine *= len(agent.warps)
            if teams and agent in teams:
                by_team[teams[agent]] += mine
            else:
                whole += mine
        for total in {whole + n for n in by_team.values()} or {whole}:
            if total != count and teams is None:
                why = "who takes which steps is not known"
                return Obligation("arrivals", array, Verdict.UNPROVED, why)
            if total != count:
                why = f"{total} arrivals for a step at CTA {rank}, which awaits {count}"
                return Obligation("arrivals", array, Verdict.REFUTED, why)
    return Obligation("arrivals", array)


def _fill(ring: Ring, way: Walked) -> Fill | None:
    """What each of an agent's fills is, if they are all the same."""
    fills = {
        (frozenset(Counter(f.told).items()), f.bytes, _sources(f), f.stored)
        for f in way.fills[ring.full]
    }
    return next(iter(way.fills[ring.full])) if len(fills) == 1 else None


def _sources(fill: Fill) -> frozenset[tuple[tuple[str, Expr | None], int]]:
    """The tensor maps that a step's copies are of, and where they go, each how often."""
    return frozenset(Counter((c.src.map, c.multicast) for c in fill.copies).items())


def _target(agent: Agent, told: Told) -> int | None:
    """The CTA of the cluster at whose barrier an arrival is; None if that is not known."""
    if told[0] is None:
        return agent.rank
    return None if free_vars(told[0]) else evaluate(told[0], {})


def bytes_of(kernel: Kernel, ring: Ring, ways: Ways) -> Obligation:
    """What is announced for a step in a CTA are the bytes that land there, and they fit."""
    name = "bytes"
    announced, landed = Counter[int](), {r: Poly(()) for r in _ranks(kernel)}
    wanted = {r: Poly(()) for r in _ranks(kernel)}
    for agent, way in ways.items():
        fill = _fill(ring, way) if ring.full in way.fills else None
        if fill is None:
            continue
        if fill.bytes is not None:
            said = defined(kernel, fill.bytes.expr())
            wanted[agent.rank] = wanted[agent.rank] + poly(said)
            announced[agent.rank] += 1
        for copy in fill.copies:
            for rank in _reached(copy, agent, kernel.cluster):
                landed[rank] = landed[rank] + _bytes(kernel, copy)
    for rank in _ranks(kernel):
        if landed[rank] != wanted[rank]:
            why = f"{landed[rank].expr()} bytes land in CTA {rank}, {wanted[rank].expr()} announced"
            return Obligation(name, ring.name, Verdict.REFUTED, why)
    return Obligation(name, ring.name)


def _reached(copy: TmaLoad, agent: Agent, cluster: int) -> list[int]:
    """The CTAs at whose barriers a copy completes, once for each that it goes to."""
    ranks = [agent.rank]
    if copy.multicast is not None:
        mask = evaluate(copy.multicast, {})
        ranks = [r for r in range(cluster) if mask >> r & 1]
    return [r - r % copy.cta_group for r in ranks]


def _bytes(kernel: Kernel, copy: TmaLoad) -> Poly:
    """Bytes that a copy completes in each CTA that it goes to."""
    source = kernel.tensor_map(copy.src.map)
    line = source.dtype.size(source.box[-1])
    return poly(source.box_lines) * poly(Const(line))
