"""mbarriers, named barriers and the register pool: what warps of a CTA wait for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lowering.kernel.text import print_stmt
from lowering.machine.errors import FaultError
from lowering.machine.fragment import Array
from lowering.machine.phases import Phases
from lowering.machine.scheduler import Resource, Runnable, Scheduler, span

__all__ = ["Arrival", "Copy", "MBarrier", "NamedBarrier", "RegisterPool", "heard"]

TX_LIMIT = (1 << 20) - 1
"""Largest tx-count of a phase (PTX ISA, mbarrier: contents of the mbarrier object)."""


@dataclass(slots=True, eq=False)
class MBarrier(Resource):
    """An mbarrier: a phase ends when no arrival is pending and no byte is missing.

    ``missing`` is the tx-count; it may be negative while arrivals are pending, because bytes may
    land before they are announced. ``phase`` counts completed phases. ``handed`` are words of
    shared memory that ``cp.async`` has written in each, which waiting makes a warp know of.
    ``coming`` are the events that arrivals and copies of this phase tell of, ``told`` those of the
    phases that are over.

    It is bytes too, which are used behind ``mbarrier.init`` and before ``mbarrier.inval``: with
    ``watched``, ``made`` is the event of its init and ``uses`` has the last use by each warp;
    ``phases`` are then those since its init.
    """

    name: str
    live: bool = False
    arrivals: int = 0
    pending: int = 0
    missing: int = 0
    phase: int = 0
    initializer: Runnable | None = None
    fenced: bool = False
    remote: bool = False
    handed: dict[int, list[Array]] = field(default_factory=dict)
    coming: int = 0
    told: int = 0
    watched: bool = False
    made: int = 0
    uses: dict[Runnable, int] = field(default_factory=dict)
    phases: Phases | None = None

    def init(self, arrivals: int, warp: Runnable) -> None:
        """``mbarrier.init``; the async proxy and peer CTAs see it after a fence by ``warp``."""
        if self.live:
            raise FaultError(f"{self.name} is initialized twice")
        if arrivals < 1:
            raise FaultError(f"{self.name} is initialized with {arrivals} arrivals")
        self.live, self.initializer, self.fenced = True, warp, False
        self.arrivals = self.pending = arrivals
        self.missing = self.phase = 0
        self.remote = False
        self.handed, self.coming, self.told = {}, 0, 0
        self.made, self.uses = self._event(warp), {}
        self.phases = Phases(warp.scheduler.events, self.name) if self.watched else None

    def release(self, events: int) -> None:
        """Events that whoever arrives next tells of."""
        self.coming |= events

    def use(self, warp: Runnable, action: str) -> None:
        """A warp's access; raises FaultError if it does not come behind the init."""
        if self.watched and self.live:
            if self.made and not warp.known.before(warp.elected) >> self.made & 1:
                raise FaultError(
                    f"{self.name} is {action}, but nothing orders that behind its init"
                )
            self.uses[warp] = self._event(warp)

    def _event(self, warp: Runnable) -> int:
        if not self.watched or warp.stmt is None:
            return 0
        number = warp.scheduler.events.add(warp, warp.stmt)
        warp.known.did(1 << number, warp.elected)
        return number

    def hand(self, words: list[Array]) -> None:
        """Words of whoever arrives next; those of phases that nobody waits for any more go."""
        self.handed = {p: w for p, w in self.handed.items() if p >= self.phase - 1}
        self.handed.setdefault(self.phase, []).extend(words)

    def inval(self, warp: Runnable) -> None:
        """``mbarrier.inval``."""
        self.check("invalidated")
        self.use(warp, "invalidated")
        known = warp.known.before(warp.elected)
        for number in self.uses.values():
            if not known >> number & 1:
                use = warp.scheduler.events[number]
                raise FaultError(
                    f"{self.name} is invalidated, but nothing orders that behind what {use.who} "
                    f"did with it at `{print_stmt(use.stmt).strip()}`"
                )
        if self.waiters:
            raise FaultError(f"{self.name} is invalidated while {self.waiters[0].who} waits for it")
        self.live = False

    def check(self, action: str, *, remote: bool = False) -> None:
        """Raise FaultError unless initialized, and visible beyond the generic proxy of the CTA."""
        if not self.live:
            raise FaultError(f"{self.name} is {action} but not initialized")
        if remote and not self.fenced:
            raise FaultError(f"{self.name} is {action} before a fence.mbarrier_init after its init")

    def arrive(self, count: int, known: int, scheduler: Scheduler, announced: int = 0) -> None:
        """``count`` arrivals behind ``known`` events, ``announced`` more bytes being missing."""
        self.check("arrived at")
        if self.phases is not None:
            self.phases.arrive(known)
        self.missing += announced
        if abs(self.missing) > TX_LIMIT:
            raise FaultError(f"{self.name} misses {self.missing} bytes, the limit is {TX_LIMIT}")
        if count > self.pending:
            raise FaultError(
                f"{count} arrivals at {self.name}, which awaits {self.pending} of its "
                f"{self.arrivals} in phase {self.phase}"
            )
        self.pending -= count
        self._flip(scheduler)

    def complete(self, landed: int, known: int, scheduler: Scheduler, events: int = 0) -> None:
        """``landed`` bytes of a TMA load have been written, which these events are; it was issued
        behind ``known``.
        """
        self.check("signalled by a load", remote=True)
        if self.phases is not None:
            self.phases.arrive(known, "a load")
        self.release(events | known & scheduler.events.moments)
        self.missing -= landed
        self._flip(scheduler)

    def _flip(self, scheduler: Scheduler) -> None:
        if self.pending:
            return
        if self.missing < 0:
            raise FaultError(
                f"{-self.missing} bytes more than announced landed on {self.name} "
                f"in phase {self.phase}"
            )
        if self.missing == 0:
            if self.phases is not None:
                self.told |= 1 << self.phases.end(self.coming)
            self.phase += 1
            self.told |= self.coming
            self.coming = 0
            self.pending = self.arrivals
            self.wake(scheduler)

    def passed(self, parity: int) -> bool:
        """Whether a wait for ``parity`` succeeds: the current phase has the other parity."""
        self.check("waited for")
        if parity not in (0, 1):
            raise FaultError(f"{self.name} is waited for with parity {parity}")
        return self.phase & 1 != parity

    def seen(self, warp: Runnable) -> None:
        """A warp's wait is over."""
        if self.phases is not None and warp.stmt is not None:
            moment = self.phases.wait(warp.known.before(warp.elected), warp, warp.stmt)
            warp.known.did(1 << moment, warp.elected)

    def text(self, parity: int) -> str:
        """What a wait for ``parity`` lacks."""
        return (
            f"{self.name} parity {parity}: phase {self.phase} lacks {self.pending} of "
            f"{self.arrivals} arrivals and {self.missing} bytes"
        )


@dataclass(slots=True, eq=False)
class Arrival:
    """An arrival of ``threads`` at ``bar`` that waits for so many copies to land; ``copies`` are
    these and those before them, ``known`` the events that it comes behind.
    """

    bar: MBarrier
    threads: int
    copies: list[Copy]
    waiting: int
    known: int

    def landed(self, scheduler: Scheduler) -> None:
        """One of the copies has landed."""
        self.waiting -= 1
        if not self.waiting:
            self.arrive(scheduler)

    def arrive(self, scheduler: Scheduler) -> None:
        """All have."""
        self.bar.hand([copy.words for copy in self.copies])
        for copy in self.copies:
            self.bar.release(copy.events)
        self.bar.release(self.known & scheduler.events.moments)
        self.bar.arrive(self.threads, self.known, scheduler)


@dataclass(slots=True, eq=False)
class Copy:
    """A ``cp.async`` to these words of shared memory, the arrivals that wait for it, and its write
    as a set of events.
    """

    words: Array
    landed: bool = False
    events: int = 0
    arrivals: list[Arrival] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class NamedBarrier(Resource):
    """A hardware barrier (``bar``) or the cluster's: completes when ``threads`` have arrived.

    ``coming`` are the events that those who are here knew of, ``known`` those of last time,
    ``phases`` its generations, if somebody watches them.
    """

    name: str
    threads: int
    arrived: dict[int, Runnable] = field(default_factory=dict)
    generation: int = 0
    coming: int = 0
    known: int = 0
    phases: Phases | None = None

    def arrive(self, warp: Runnable, threads: int, key: int) -> int:
        """A warp's 32 threads arrive; the generation that they belong to.

        ``key`` tells warps apart. Raises FaultError if the warp is here already or ``threads`` is
        not what the others said.
        """
        if threads != self.threads and self.arrived:
            raise FaultError(f"{self.name} is used for {threads} threads and for {self.threads}")
        if threads % 32 or threads < 32:
            raise FaultError(f"{self.name} counts {threads} threads, not a multiple of 32")
        if key in self.arrived:
            raise FaultError(f"{warp.who} arrives twice at {self.name} before it completes")
        if self.phases is not None:
            self.phases.arrive(warp.known.everyone)
        self.threads = threads
        self.arrived[key] = warp
        self.coming |= warp.known.everyone
        generation = self.generation
        if 32 * len(self.arrived) == threads:
            self.known, self.coming = self.coming, 0
            if self.phases is not None:
                self.known |= 1 << self.phases.end(self.known)
            self.arrived.clear()
            self.generation += 1
            self.wake(warp.scheduler)
        return generation

    def text(self) -> str:
        """Who has come so far."""
        places: dict[str, list[int]] = {}
        for warp in self.arrived.values():
            places.setdefault(warp.place, []).append(warp.index)
        here = "; ".join(f"{place}, {span(warps)}" for place, warps in sorted(places.items()))
        return f"{self.name}: {32 * len(self.arrived)} of {self.threads} threads ({here})"


@dataclass(slots=True, eq=False)
class RegisterPool(Resource):
    """Registers that no warp of the CTA holds; ``setmaxnreg`` moves them."""

    free: int = 0


def heard(number: int, bars: Sequence[MBarrier], named: Sequence[NamedBarrier]) -> str:
    """Which barriers tell of an event, for people: one of them should have been waited for."""
    over = [b.name for b in bars if b.told >> number & 1]
    over += [b.name for b in named if b.known >> number & 1]
    if over:
        return f"{', '.join(dict.fromkeys(over))} would tell of the first"
    coming = [f"phase {b.phase} of {b.name}" for b in bars if b.coming >> number & 1]
    if coming:
        return f"{', '.join(dict.fromkeys(coming))} will tell of the first, but is not over"
    return "no barrier tells of the first yet"
