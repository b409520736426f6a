"""Where one agent stands in its rings: the states of the automaton."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace

from lowering.ground.expr import Expr
from lowering.ground.poly import Poly
from lowering.kernel.memory import TmaLoad
from lowering.proof.linear import NOTHING, Facts
from lowering.proof.rings import Ring, is_relaxed
from lowering.proof.steps import congruent

__all__ = ["Access", "Fill", "Read", "State", "Told", "Walked", "merged", "untold"]

Told = tuple[Expr | None, int]
"""An arrival: at the barrier of which CTA, its own if None, and of how many threads."""

Step = tuple[str, Poly]
"""A ring, by its full barrier, and a step of it."""


@dataclass(frozen=True, slots=True)
class Access:
    """What the warp's threads have done with a stage through the generic proxy: ``done`` anything,
    then ``fenced`` it for the async proxy, then ``met`` in a barrier of the warp behind that. Of
    ``cells`` of tensor memory the fence is ``tcgen05.fence before``, behind the wait for what is
    ``flying``. All of it may be ``copied``, by ``cp.async``.
    """

    done: bool = False
    fenced: bool = False
    met: bool = False
    cells: bool = False
    flying: bool = False
    copied: bool = False

    def fence(self) -> Access:
        """Behind ``fence.proxy.async`` by all threads that accessed."""
        return replace(self, fenced=True, met=False) if self.done and not self.cells else self

    def arrived(self) -> Access:
        """Behind ``tcgen05.wait.ld``."""
        return replace(self, flying=False)

    def before(self) -> Access:
        """Behind ``tcgen05.fence before``."""
        if not self.cells or self.flying:
            return self
        return replace(self, fenced=True, met=False)

    def meet(self) -> Access:
        """Behind a barrier of the warp."""
        return replace(self, met=True) if self.done else self


@dataclass(frozen=True, slots=True)
class Read:
    """A step that the warp has waited for and not released to everybody.

    Args:
        ring: its full barrier.
        at: the step.
        access: reads through the generic proxy.
        told: the arrivals of its release so far.
        whole: whether all threads know that it is there, not just the one that waited.
        fenced: how many threads executed ``fence.proxy.async`` behind the wait: none, the one that
            ``elect`` takes, or all 32.
        ordered: of ``tcgen05.fence after`` the same, behind what told them of the step.
        issued: whether products read it, which are over at any time.
    """

    ring: str
    at: Poly
    access: Access = Access()
    told: tuple[Told, ...] = ()
    whole: bool = True
    fenced: int = 0
    ordered: int = 0
    issued: bool = False


@dataclass(frozen=True, slots=True)
class Fill:
    """A step that the warp may fill.

    Args:
        ring: its full barrier.
        at: the step.
        one: whether one thread has waited for it, and may fill it.
        access: stores through the generic proxy.
        untold: the CTAs into which threads have stored what no arrival has told there since.
        told: arrivals at the full barrier.
        bytes: those that are announced.
        copies: what TMA brings.
        stored: the buffers that threads have stored to.
        copying: how many threads copy by ``cp.async`` and have made no arrival of copies since.
        ordered: how many threads executed ``tcgen05.fence after`` behind the wait.
        issued: whether products fill it.
    """

    ring: str
    at: Poly
    one: bool
    access: Access = Access()
    untold: frozenset[Expr | None] = frozenset()
    told: tuple[Told, ...] = ()
    bytes: Poly | None = None
    copies: tuple[TmaLoad, ...] = ()
    stored: frozenset[str] = frozenset()
    copying: int = 0
    ordered: int = 0
    issued: bool = False

    def telling(self, told: Told, landed: bool) -> Fill:
        """Behind an arrival, of copies that have ``landed`` or of what threads have done else:
        while some are under way it tells of nothing.
        """
        copying = 0 if landed and told[1] >= self.copying else self.copying
        untold = self.untold if copying else self.untold - {told[0]}
        return replace(self, told=(*self.told, told), untold=untold, copying=copying)


@dataclass(frozen=True, slots=True)
class State:
    """Where an agent stands.

    Args:
        counts: for each array of mbarriers, the step that it waits for next.
        reads: steps waited for and not released, in the order of the waits.
        fills: the last step that it began to fill, of each ring.
        first: arrivals on empty barriers before any step: (array, stage, arrival).
        pending: steps that wgmmas read which no commit has put into a group.
        groups: steps that committed groups read which no wait covers, the oldest first.
        facts: what is known on this path.
        trace: how the agent came here, for people.
    """

    counts: tuple[tuple[str, Poly], ...] = ()
    reads: tuple[Read, ...] = ()
    fills: tuple[Fill, ...] = ()
    first: tuple[tuple[str, int, Told], ...] = ()
    pending: frozenset[Step] = frozenset()
    groups: tuple[frozenset[Step], ...] = ()
    facts: Facts = field(default=NOTHING, compare=False)
    trace: tuple[str, ...] = field(default=(), compare=False)

    def count(self, array: str) -> Poly:
        """The step that it waits for next at an array of mbarriers."""
        return dict(self.counts).get(array, Poly(()))

    def counted(self, array: str, step: Poly) -> State:
        """With another one."""
        return replace(self, counts=tuple(sorted({**dict(self.counts), array: step}.items(),
                                                 key=lambda c: c[0])))  # fmt: skip

    def uncounted(self, array: str, before: State) -> State:
        """With that of a state before."""
        kept = (c for c in self.counts if c[0] != array)
        old = (c for c in before.counts if c[0] == array)
        return replace(self, counts=tuple(sorted((*kept, *old), key=lambda c: c[0])))

    def fill(self, ring: str) -> Fill | None:
        """What it fills of a ring."""
        return next((f for f in self.fills if f.ring == ring), None)

    def filling(self, fill: Fill) -> State:
        """With that in place of what it filled of the ring."""
        others = (f for f in self.fills if f.ring != fill.ring)
        return replace(self, fills=tuple(sorted((*others, fill), key=lambda f: f.ring)))

    def holding(self, ring: Ring, at: Poly | None) -> list[Read]:
        """The steps of a ring that it reads and whose stage is that of a step, the latest last."""
        here = [r for r in self.reads if r.ring == ring.full and not r.told]
        return [r for r in here if at is not None and congruent(at, r.at, ring.stages)]

    def reading(self, read: Read, new: Read) -> State:
        """With another one in place of a step that it reads."""
        return replace(self, reads=tuple(new if r is read else r for r in self.reads))

    def same(self, a: Poly, b: Poly) -> bool:
        """Whether two steps are equal on this path."""
        return self.facts.equal(a - b)

    def accessed(self, f: Callable[[Access], Access]) -> State:
        """With ``f`` of all accesses."""
        reads = tuple(replace(r, access=f(r.access)) for r in self.reads)
        return replace(self, reads=reads, fills=tuple(
            replace(x, access=f(x.access)) for x in self.fills))  # fmt: skip

    def fenced(self, rings: Collection[str], threads: int) -> State:
        """Behind a ``fence.proxy.async`` of so many threads of a warp, what it reads of rings: as
        many of them as know of the step, as :meth:`ordered`.
        """
        return replace(self, reads=tuple(
            replace(r, fenced=max(r.fenced, threads if r.whole else 1)) if r.ring in rings else r
            for r in self.reads))  # fmt: skip

    def ordered(self, threads: int) -> State:
        """Behind a ``tcgen05.fence after`` of so many threads of a warp.

        It orders what a thread does with a step that it knows of. While one alone has waited for a
        step, and has not met the others, the fence is theirs too early.
        """
        return replace(
            self,
            reads=tuple(
                replace(r, ordered=max(r.ordered, threads if r.whole else 1)) for r in self.reads
            ),
            fills=tuple(
                replace(x, ordered=max(x.ordered, 1 if x.one else threads)) for x in self.fills
            ),
        )

    def moved(self, f: Callable[[Poly], Poly]) -> State:
        """With ``f`` of every step."""

        def steps(group: Iterable[Step]) -> frozenset[Step]:
            return frozenset((ring, f(at)) for ring, at in group)

        return replace(
            self,
            counts=tuple((a, f(at)) for a, at in self.counts),
            reads=tuple(replace(r, at=f(r.at)) for r in self.reads),
            fills=tuple(replace(x, at=f(x.at)) for x in self.fills),
            pending=steps(self.pending),
            groups=tuple(map(steps, self.groups)),
        )

    def said(self, text: str) -> State:
        """One statement on."""
        return replace(self, trace=(*self.trace[-11:], text))


@dataclass
class Walked:
    """What came of one agent's way.

    Args:
        fills: by ring, what each of its steps is filled with.
        releases: by ring, the arrivals of a step's release.
        first: arrivals on empty barriers before any step: (array, stage, arrival).
        skips: by (loop, array), the steps that a trip leaves to other warps.
        idle: (loop, array) of which some trips take none of the steps that other trips take.
        begins: by (loop, array), the steps in front of a loop that it leaves to other warps.
        late: empty barriers whose first phases are those of the first releases: what waits for a
            free stage waits a round less, and there are no first arrivals.
        lengths: by (loop, array), the steps that a trip takes.
    """

    fills: dict[str, set[Fill]] = field(default_factory=dict)
    releases: dict[str, set[frozenset[Told]]] = field(default_factory=dict)
    first: tuple[tuple[str, int, Told], ...] = ()
    skips: dict[tuple[str, str], Poly] = field(default_factory=dict)
    idle: set[tuple[str, str]] = field(default_factory=set)
    begins: dict[tuple[str, str], Poly] = field(default_factory=dict)
    late: set[str] = field(default_factory=set)
    lengths: dict[tuple[str, str], Poly] = field(default_factory=dict)


def merged(states: Iterable[State]) -> list[State]:
    """Equal states are one, which knows what all of them did."""
    found: dict[State, State] = {}
    for state in states:
        old = found.get(state)
        facts = state.facts if old is None else old.facts.common(state.facts)
        found[state] = replace(old or state, facts=facts)
    return list(found.values())


def untold(state: State, ring: Ring, array: str, cta: Expr | None, order: str) -> str:
    """Which claim fails if an arrival of an order stands here: it tells of accesses of threads that
    it does not publish; empty if none. A fence of their own publishes loads of tensor memory.
    """
    fill, reads = state.fill(ring.full), [r for r in state.reads if r.ring == ring.full]
    stored, loaded = fill is not None and fill.access.done, any(r.access.done for r in reads)
    if cta is not None:
        return "release" if order != "release.cluster" and (stored or loaded) else ""
    if not is_relaxed(order):
        return ""
    if array == ring.full:
        return "fill" if stored else ""
    return "release" if any(r.access.done and not r.access.cells for r in reads) else ""
