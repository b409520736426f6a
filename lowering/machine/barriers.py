"""mbarriers, named barriers and the register pool: what warps of a CTA wait for."""

from __future__ import annotations

from dataclasses import dataclass, field

from lowering.machine.errors import FaultError
from lowering.machine.fragment import Array
from lowering.machine.scheduler import Resource, Runnable, Scheduler, span

__all__ = ["Arrival", "Copy", "MBarrier", "NamedBarrier", "RegisterPool"]

TX_LIMIT = (1 << 20) - 1
"""Largest tx-count of a phase (PTX ISA, mbarrier: contents of the mbarrier object)."""


@dataclass(slots=True, eq=False)
class MBarrier(Resource):
    """An mbarrier: a phase ends when no arrival is pending and no byte is missing.

    ``missing`` is the tx-count; it may be negative while arrivals are pending, because bytes may
    land before they are announced. ``phase`` counts completed phases. ``handed`` are words of
    shared memory that ``cp.async`` has written in each, which waiting makes a warp know of, and
    ``released`` the stores that were released in each at cluster scope.
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
    released: dict[int, set[tuple[str, int]]] = field(default_factory=dict)

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
        self.handed, self.released = {}, {}

    def release(self, stores: set[tuple[str, int]]) -> None:
        """Stores that whoever arrives next releases; old phases' go, as those of ``hand`` do."""
        self.released = {p: s for p, s in self.released.items() if p >= self.phase - 1}
        self.released.setdefault(self.phase, set()).update(stores)

    def hand(self, words: list[Array]) -> None:
        """Words of whoever arrives next; those of phases that nobody waits for any more go."""
        self.handed = {p: w for p, w in self.handed.items() if p >= self.phase - 1}
        self.handed.setdefault(self.phase, []).extend(words)

    def inval(self) -> None:
        """``mbarrier.inval``."""
        self.check("invalidated")
        if self.waiters:
            raise FaultError(f"{self.name} is invalidated while {self.waiters[0].who} waits for it")
        self.live = False

    def check(self, action: str, *, remote: bool = False) -> None:
        """Raise FaultError unless initialized, and visible beyond the generic proxy of the CTA."""
        if not self.live:
            raise FaultError(f"{self.name} is {action} but not initialized")
        if remote and not self.fenced:
            raise FaultError(f"{self.name} is {action} before a fence.mbarrier_init after its init")

    def arrive(self, count: int, scheduler: Scheduler, announced: int = 0) -> None:
        """``count`` arrivals, after ``announced`` more bytes are missing."""
        self.check("arrived at")
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

    def complete(self, landed: int, scheduler: Scheduler) -> None:
        """``landed`` bytes of a TMA load have been written."""
        self.check("signalled by a load", remote=True)
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
            self.phase += 1
            self.pending = self.arrivals
            self.wake(scheduler)

    def passed(self, parity: int) -> bool:
        """Whether a wait for ``parity`` succeeds: the current phase has the other parity."""
        self.check("waited for")
        if parity not in (0, 1):
            raise FaultError(f"{self.name} is waited for with parity {parity}")
        return self.phase & 1 != parity

    def text(self, parity: int) -> str:
        """What a wait for ``parity`` lacks."""
        return (
            f"{self.name} parity {parity}: phase {self.phase} lacks {self.pending} of "
            f"{self.arrivals} arrivals and {self.missing} bytes"
        )


@dataclass(slots=True, eq=False)
class Arrival:
    """An arrival of ``threads`` at ``bar`` that waits for so many copies to land; ``words`` are
    what they and those before them write.
    """

    bar: MBarrier
    threads: int
    words: list[Array]
    waiting: int

    def landed(self, scheduler: Scheduler) -> None:
        """One of the copies has landed."""
        self.waiting -= 1
        if not self.waiting:
            self.arrive(scheduler)

    def arrive(self, scheduler: Scheduler) -> None:
        """All have."""
        self.bar.hand(self.words)
        self.bar.arrive(self.threads, scheduler)


@dataclass(slots=True, eq=False)
class Copy:
    """A ``cp.async`` to these words of shared memory, and the arrivals that wait for it."""

    words: Array
    landed: bool = False
    arrivals: list[Arrival] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class NamedBarrier(Resource):
    """A hardware barrier (``bar``) or the cluster's: completes when ``threads`` have arrived.

    ``known`` are the stores that those who came last time knew of.
    """

    name: str
    threads: int
    arrived: dict[int, Runnable] = field(default_factory=dict)
    generation: int = 0
    known: set[tuple[str, int]] = field(default_factory=set)

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
        self.threads = threads
        self.arrived[key] = warp
        generation = self.generation
        if 32 * len(self.arrived) == threads:
            self.known = set().union(*(w.knows for w in self.arrived.values()))
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
