"""Races in shared memory: of any two accesses to the same bytes, one of which writes, one must know
of the other (``lowering.machine.order``), whatever the order was in which they happened to run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lowering.kernel.kernel import Kernel
from lowering.kernel.text import print_stmt
from lowering.machine.errors import FaultError
from lowering.machine.fragment import Array
from lowering.machine.memory import SHARED_BASE
from lowering.machine.order import Events

__all__ = ["UNIT", "Races", "name_of", "units"]

UNIT = 4
"""Bytes that are watched as one: no access is smaller, or part of one."""


def units(places: Array, size: int) -> Array:
    """The units of places of ``size`` bytes, given as address divided by size; each one once."""
    per = size // UNIT
    once = np.flatnonzero(np.bincount(places.reshape(-1)))  # few numbers, which sorting is not told
    found: Array = once[:, None] * per + np.arange(per)
    return found.reshape(-1)


def _distinct(numbers: Array) -> list[int]:
    """The numbers that there are: nearly always one, since a tile is accessed as a whole."""
    if numbers.size and (numbers == numbers[0]).all():
        return [int(numbers[0])]
    found: list[int] = np.unique(numbers).tolist()
    return found


@dataclass(slots=True, eq=False)
class Races:
    """The last write of each unit of a CTA's shared memory, and all reads since.

    Args:
        events: of the run.
        writer: number of the event that wrote each unit last, 0 where nobody has.
        readers: index into ``sets`` of who has read each unit since.
        sets: readers, by number; each tuple stands here once (``index``).
        names: says what lies at an offset in bytes from the address 0.
        heard: says which barriers tell of an event, for the text of a fault.
    """

    events: Events
    writer: Array
    readers: Array
    sets: list[tuple[int, ...]]
    index: dict[tuple[int, ...], int]
    names: Callable[[int], str]
    heard: Callable[[int], str]

    @staticmethod
    def of(
        events: Events, size: int, names: Callable[[int], str], heard: Callable[[int], str]
    ) -> Races:
        """Nothing yet, of so many bytes."""
        empty = np.zeros(-(-size // UNIT), np.int32)
        return Races(events, empty, empty.copy(), [()], {(): 0}, names, heard)

    def write(self, number: int, known: int, at: Array) -> None:
        """Event ``number``, which comes behind ``known``, writes units; raises FaultError if it
        comes behind their last write or reads by chance only.
        """
        self._behind(number, known, at, self.writer, "write")
        for n in sorted({n for s in _distinct(self.readers[at]) for n in self.sets[s]}):
            if not known >> n & 1:
                touched = at[[n in self.sets[s] for s in self.readers[at].tolist()]]
                raise self._race(n, "read", number, "written", int(touched[0]))
        self.writer[at] = number
        self.readers[at] = 0

    def read(self, number: int, known: int, at: Array) -> None:
        """Event ``number``, which comes behind ``known``, reads units; raises FaultError if it
        comes behind their last write by chance only.
        """
        self._behind(number, known, at, self.writer, "read")
        old = self.readers[at]
        for s in _distinct(old):
            self.readers[at[old == s]] = self._with(self.sets[s], number, known)

    def _behind(self, number: int, known: int, at: Array, last: Array, verb: str) -> None:
        for n in _distinct(last[at]):
            if n and not known >> n & 1:
                how = {"read": "read", "write": "written"}[verb]
                raise self._race(n, "written", number, how, int(at[last[at] == n][0]))

    def _with(self, readers: tuple[int, ...], number: int, known: int) -> int:
        """Index of the set with one more; the same warp's last read by that statement, if it knows
        of it, goes: who comes to know of this one knows of that one.
        """
        own = self.events[number]
        kept = tuple(
            n
            for n in readers
            if not known >> n & 1
            or self.events[n].warp is not own.warp
            or self.events[n].stmt is not own.stmt
        )
        found = (*kept, number)
        if found not in self.index:
            self.index[found] = len(self.sets)
            self.sets.append(found)
        return self.index[found]

    def _race(self, first: int, how: str, second: int, then: str, unit: int) -> FaultError:
        event = self.events[first]
        line = print_stmt(event.stmt).strip().splitlines()[0]
        return FaultError(
            f"{self.names(unit * UNIT)} is {then}, and {how} by {event.who} at `{line}`; "
            f"nothing orders the two: {self.heard(first)}"
        )


def name_of(kernel: Kernel, address: int) -> str:
    """The buffer, stage and byte of it at a shared address, for people."""
    offset = address - SHARED_BASE
    for b in kernel.shared:
        if b.offset is not None and 0 <= offset - b.offset < b.stages * b.stage_bytes:
            stage, byte = divmod(offset - b.offset, b.stage_bytes)
            return f"{b.name}[{stage}] (byte {byte})"
    return f"offset {offset}"
