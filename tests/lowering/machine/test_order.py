"""What a warp knows of, beside what each of its threads knows."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lowering.machine.order import Events, Known

THREADS = range(3)
"""Of a warp; the first one is elected."""


@dataclass
class Threads:
    """Each thread of a warp with the parts of events that it comes behind: an event of all threads
    has a part of each of them, any other has one.
    """

    parts: dict[int, frozenset[int]] = field(default_factory=dict)
    knows: tuple[set[tuple[int, int]], ...] = field(
        default_factory=lambda: tuple(set() for _ in THREADS)
    )

    @staticmethod
    def executing(elected: bool) -> range:
        return range(1) if elected else THREADS

    def did(self, event: int, elected: bool) -> None:
        self.parts[event] = frozenset(self.executing(elected))
        for thread in self.executing(elected):
            self.knows[thread].add((event, thread))

    def learn(self, event: int, elected: bool) -> None:
        parts = self.parts.setdefault(event, frozenset({0}))
        for thread in self.executing(elected):
            self.knows[thread].update((event, part) for part in parts)

    def meet(self, moments: set[int]) -> None:
        for event in moments & self.parts.keys():
            if len(self.parts[event]) > 1:
                self.learn(event, False)

    def sync(self) -> None:
        told = set().union(*self.knows)
        for known in self.knows:
            known |= told

    def _whole(self, event: int, known: set[tuple[int, int]]) -> bool:
        return all((event, part) in known for part in self.parts[event])

    def before(self, elected: bool) -> set[int]:
        """All threads that execute come behind all of it, or each behind its own part."""
        threads = self.executing(elected)
        return {
            event
            for event, parts in self.parts.items()
            if all(self._whole(event, self.knows[t]) for t in threads)
            or (parts == set(threads) and all((event, t) in self.knows[t] for t in threads))
        }

    def released(self, elected: bool) -> set[int]:
        """The threads that execute know of all parts between them."""
        told = set().union(*(self.knows[t] for t in self.executing(elected)))
        return {event for event in self.parts if self._whole(event, told)}


def events_of(bits: int) -> set[int]:
    return {n for n in range(bits.bit_length()) if bits >> n & 1}


@pytest.mark.parametrize("seed", range(20))
def test_a_warp_knows_what_its_threads_know(seed: int) -> None:
    rng = random.Random(seed)
    known, threads = Known(), Threads()
    for number in range(40):
        elected = rng.random() < 0.5
        match rng.choice(("did", "did", "learn", "again", "meet", "sync")):
            case "did":
                known.did(1 << number, elected)
                threads.did(number, elected)
            case "learn":
                known.learn(1 << number, elected)
                threads.learn(number, elected)
            case "again" if threads.parts:
                event = rng.choice([*threads.parts])
                known.learn(1 << event, elected)
                threads.learn(event, elected)
            case "meet":
                moments = set(rng.sample(range(40), 20))
                known.meet(sum(1 << n for n in moments))
                threads.meet(moments)
            case "sync":
                known.sync()
                threads.sync()
        for alone in (False, True):
            assert events_of(known.before(alone)) == threads.before(alone)
            assert events_of(known.released(alone)) == threads.released(alone)


def test_events_have_numbers_from_one_on() -> None:
    """A copy and a moment are what a relaxed order hands on; a moment may be nobody's."""
    warp, events = cast(Any, SimpleNamespace(rank=3, who="CTA 7, warp 1")), Events()
    stmt = cast(Any, object())
    assert events.add(warp, stmt) == 1
    assert events.add(warp, stmt, copy=True) == 2
    assert events.moment(warp, stmt) == 3
    assert (events.moment(), events.moment(warp), events.moment(None, stmt)) == (4, 5, 6)
    assert (events.copies, events.moments) == (0b100, 0b1111000)
    assert events.relaxed == 0b1111100
    for number in (1, 2, 3):
        event = events[number]
        assert (event.warp, event.who, event.rank) == (warp, "CTA 7, warp 1", 3)
        assert event.stmt is stmt
    assert events.all[0] is None and events.all[4:] == [None] * 3
