"""The proof of a kernel: every claim of design/0033-kernel-proof.md, with what came of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from lowering.ground.progress import doing
from lowering.kernel.control import Elect, Let
from lowering.kernel.kernel import Kernel
from lowering.kernel.operands import Body
from lowering.kernel.sync import MBarrierArrive
from lowering.kernel.tensor_memory import Tcgen05Commit
from lowering.kernel.visit import bodies
from lowering.proof.admitted import Admitted
from lowering.proof.agent import Agent, agents
from lowering.proof.automaton import Automaton
from lowering.proof.circles import circles
from lowering.proof.clusters import clusters
from lowering.proof.counters import splits, tickets
from lowering.proof.counts import arrivals, bytes_of, first_arrivals, initialised
from lowering.proof.enough import enough
from lowering.proof.exchange import exchanged, exchanges
from lowering.proof.handed import handed
from lowering.proof.lifetime import lifetimes
from lowering.proof.linear import Facts
from lowering.proof.loops import follow
from lowering.proof.meet import Meetings
from lowering.proof.numbers import numbered, words
from lowering.proof.obligation import Obligation, Proof, RefutedError, UnknownError, Verdict
from lowering.proof.order import fenced, kept, let_in, waited
from lowering.proof.products import products
from lowering.proof.registers import budget
from lowering.proof.reuse import reused
from lowering.proof.rings import Ring, rings_of
from lowering.proof.same import same_steps
from lowering.proof.shares import shares
from lowering.proof.staging import alike, staged
from lowering.proof.state import State, Told, Walked
from lowering.proof.steps import Steps
from lowering.proof.storage import disjoint, few_bytes, layouts
from lowering.proof.sums import settled
from lowering.proof.tensor_memory import addresses, allocated, told_by
from lowering.proof.views import Views
from lowering.proof.wraps import unwrapped

__all__ = ["claims", "prove"]


def prove(kernel: Kernel, admitted: Admitted | None = None) -> Proof:
    """All claims about a final kernel, for all sizes and grids.

    Args:
        kernel: what the emitter and the machine take: all passes have run.
        admitted: the launches that there are; None if that is not known, and it is not claimed that
            numbers of 32 bits hold the sizes.
    """
    found: list[Obligation] = []
    with doing(lambda: f"claim {len(found) + 1}" + (f", after {found[-1].name}" if found else "")):
        for obligation in claims(kernel, admitted):
            found.append(obligation)
    return Proof(kernel.name, tuple(found))


def claims(kernel: Kernel, admitted: Admitted | None = None) -> Iterator[Obligation]:
    """What :func:`prove` has, each as soon as it is decided."""
    warps = agents(kernel)
    rings, alone = rings_of(kernel, warps)
    facts = Facts(
        natural=frozenset(p.name for p in kernel.params),
        defined={s.var.name: s.value for s in kernel.body if isinstance(s, Let)},
    )
    ringed = frozenset(b for r in rings for b in r.buffers)
    apart = words(kernel) | addresses(kernel)
    between = exchanged(warps, ringed | apart)
    why = "it is of no ring that is filled behind a wait at one other mbarrier"
    ways = _Ways(warps, rings, facts)
    yield from (Obligation("ring", name, Verdict.UNPROVED, why) for name in alone)
    yield from ways.walk()
    yield from initialised(kernel, warps)
    yield from lifetimes(kernel, warps)
    yield from (o for ring in rings for o in ways.protocol(kernel, ring))
    yield from enough(warps, facts)
    yield from shares(kernel, facts)
    yield from Meetings(kernel, ways.views).claims()
    yield from circles(kernel, warps)
    yield alike(kernel, warps)
    yield from handed(kernel, warps, ways.views)
    yield from tickets(kernel, warps, ways.views)
    yield from clusters(kernel, warps)
    yield from numbered(kernel)
    yield from splits(kernel, warps, ways.views)
    yield from exchanges(kernel, ways.views, warps, between)
    yield from staged(kernel, warps, ringed | between | apart)
    yield from products(kernel.name, warps)
    yield from settled(kernel.name, warps)
    yield fenced(kernel, warps)
    yield from kept(warps)
    yield from waited(kernel, warps)
    yield from let_in(kernel, warps)
    yield layouts(kernel, warps)
    yield disjoint(kernel)
    yield from reused(kernel, warps)
    yield from allocated(kernel)
    yield budget(kernel, warps)
    yield from unwrapped(kernel, ways.places, admitted)


@dataclass
class _Ways:
    """The walks of all agents; ``walked`` and ``places`` have what came of them."""

    warps: tuple[Agent, ...]
    rings: tuple[Ring, ...]
    facts: Facts
    walked: dict[Agent, Walked] = field(default_factory=dict)
    places: dict[Agent, Steps] = field(default_factory=dict)

    def walk(self) -> Iterator[Obligation]:
        """Each agent waits for its steps in order, fills and releases them as it has to."""
        stages = tuple(sorted({r.stages for r in self.rings}))
        for agent in self.warps:
            steps = self.places[agent] = Steps.of(agent.body, stages, self.facts)
            auto = Automaton(agent, steps, self.rings, self.releases(agent.rank), follow)
            try:
                self.walked[agent] = auto.run(State(facts=self.facts))
                yield Obligation("steps of rings", str(agent))
            except RefutedError as e:
                subject = f"{e.ring}, {agent}"
                yield Obligation(e.name, subject, Verdict.REFUTED, e.why, e.trace)
            except UnknownError as e:
                yield Obligation("steps of rings", str(agent), Verdict.UNPROVED, str(e))

    @property
    def views(self) -> Views:
        """The programs of those whose walks came to an end."""
        return Views(self.rings, self.walked, self.places, self.facts)

    def releases(self, rank: int) -> dict[str, frozenset[Told]]:
        """The arrivals that release a step in a CTA, by empty barrier: all that stand anywhere."""
        mine = [w for w in self.warps if w.rank == rank]
        return {
            r.empty: frozenset(told for agent in mine for told in _told(agent.body, r.empty, rank))
            for r in self.rings
        }

    def protocol(self, kernel: Kernel, ring: Ring) -> Iterator[Obligation]:
        """What all agents together do for a ring; nothing where a walk came to no end."""
        if len(self.walked) < len(self.warps):
            why = "an agent's steps are not proved"
            yield Obligation("protocol", ring.name, Verdict.UNPROVED, why)
            return
        dealt = same_steps(kernel, self.rings, ring, self.walked, self.places, self.facts)
        fills = [f for w in self.walked.values() for f in w.fills.get(ring.full, ())]
        yield first_arrivals(kernel, ring, self.walked)
        yield from arrivals(kernel, ring, self.walked, None if dealt.why else dealt.teams)
        yield bytes_of(kernel, ring, self.walked)
        yield few_bytes(ring.name, fills, self.facts)
        verdict = Verdict.UNPROVED if dealt.why else Verdict.PROVED
        yield Obligation("same steps", ring.name, verdict, dealt.why)


def _told(body: Body, array: str, rank: int, one: bool = False) -> Iterator[Told]:
    """The arrivals at an array that stand in a program of a CTA."""
    for stmt in body:
        if isinstance(stmt, MBarrierArrive) and stmt.bar.array == array:
            yield stmt.cta, 1 if one else 32
        if isinstance(stmt, Tcgen05Commit) and stmt.bar.array == array:
            yield from ((cta, 1 if one else 32) for cta in told_by(stmt, rank))
        for inner in bodies(stmt):
            yield from _told(inner, array, rank, one or isinstance(stmt, Elect))
