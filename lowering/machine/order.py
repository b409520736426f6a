"""What comes before what: accesses are events with numbers, and who knows of one comes behind it.

A set of events is an ``int``, bit ``n`` of which stands for event ``n``: a vector clock with a
component for each access, since asynchronous operations of one warp end in any order. A warp knows
of what it did itself; barriers, mbarriers and counters hand knowledge on (``Known.released``,
``Known.learn``). What is known only in part is kept apart, because 32 threads are not one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from lowering.kernel.nodes import Stmt

__all__ = ["Actor", "Event", "Events", "Known"]


class Actor(Protocol):
    """Whoever makes an access: a warp.

    Attributes:
        rank: of its CTA in the cluster.
    """

    rank: int

    @property
    def who(self) -> str:
        """CTA, role, group and warp."""


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """An access that somebody has to know of.

    Args:
        warp: that made or issued it.
        who: what it was then, CTA, role and group included.
        rank: of the warp's CTA in its cluster.
        stmt: that it was.
    """

    warp: Actor
    who: str
    rank: int
    stmt: Stmt


@dataclass(slots=True, eq=False)
class Events:
    """All events of a run; number 0 is none.

    ``copies`` are those by TMA and wgmma, which a relaxed order hands on as well: their end is
    announced by the hardware itself, not by a thread that has seen it. ``moments`` are no accesses:
    a phase ends, a wait is over (``lowering.machine.phases``). What happens behind one happens
    later, so any order hands them on, also a copy that was issued behind one and has landed.
    """

    all: list[Event | None] = field(default_factory=lambda: [None])
    copies: int = 0
    moments: int = 0

    def add(self, warp: Actor, stmt: Stmt, copy: bool = False) -> int:
        """The number of a new event."""
        self.all.append(Event(warp, warp.who, warp.rank, stmt))
        number = len(self.all) - 1
        if copy:
            self.copies |= 1 << number
        return number

    def moment(self, warp: Actor | None = None, stmt: Stmt | None = None) -> int:
        """The number of a new moment, of a warp at a statement or of no warp in particular."""
        made = None if warp is None or stmt is None else Event(warp, warp.who, warp.rank, stmt)
        self.all.append(made)
        self.moments |= 1 << len(self.all) - 1
        return len(self.all) - 1

    @property
    def relaxed(self) -> int:
        """What a relaxed order hands on."""
        return self.copies | self.moments

    def __getitem__(self, number: int) -> Event:
        """The event of a number."""
        event = self.all[number]
        assert event is not None
        return event


@dataclass(slots=True, eq=False)
class Known:
    """The events that a warp comes behind.

    Args:
        everyone: what each of its threads knows of.
        each: what all did together, each its part: a thread knows of its own only.
        one: what the elected thread did or learnt alone.
    """

    everyone: int = 0
    each: int = 0
    one: int = 0

    def before(self, elected: bool) -> int:
        """Events that come before what the executing threads do next."""
        return self.everyone | (self.one if elected else self.each)

    def released(self, elected: bool) -> int:
        """Events that the executing threads know of between them: of others', all of them."""
        return self.everyone | self.one | (0 if elected else self.each)

    def did(self, events: int, elected: bool) -> None:
        """The executing threads did these."""
        if elected:
            self.one |= events
        else:
            self.each |= events

    def learn(self, events: int, elected: bool) -> None:
        """The executing threads come behind these from now on."""
        if elected:
            self.one |= events
        else:
            self.everyone |= events

    def meet(self, moments: int) -> None:
        """All threads are here, as ``elect.sync`` needs them: what each has waited for is over."""
        self.everyone |= self.each & moments

    def sync(self) -> None:
        """The warp's threads tell each other: ``bar.warp.sync``, or any barrier of all."""
        self.everyone |= self.each | self.one
        self.each = self.one = 0
