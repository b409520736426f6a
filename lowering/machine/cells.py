"""The tensor memory of a CTA, and what warps know of accesses to it.

Accesses are events (``lowering.machine.order``), but a warp comes behind one that another thread
made only where ``tcgen05.fence after`` follows what told it; and it tells of a load of its own only
where the load was waited for and ``tcgen05.fence before`` follows. A product tells of itself
through ``tcgen05.commit`` alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from lowering.kernel.text import print_stmt
from lowering.machine.errors import FaultError
from lowering.machine.fragment import Array
from lowering.machine.order import Events, Known
from lowering.machine.scheduler import Effect, Resource, Scheduler
from lowering.target.tensor_memory import TensorMemory

__all__ = ["Cells", "MmaQueue", "Ordered", "together"]


@dataclass(slots=True, eq=False)
class MmaQueue:
    """Products and commits that a thread has issued, which happen in order.

    ``own`` are the events of the products, ``told`` those of products that have happened, and of
    what they read.
    """

    flying: deque[Effect] = field(default_factory=deque)
    own: int = 0
    told: int = 0

    def issue(self, effect: Effect, scheduler: Scheduler) -> None:
        """Put one behind the others; the scheduler sees the first of them."""

        def happen() -> None:
            effect.apply()
            self.flying.popleft()
            if self.flying:
                scheduler.add(self.flying[0])

        self.flying.append(Effect(happen, effect.warp, effect.stmt))
        if len(self.flying) == 1:
            scheduler.add(self.flying[0])


@dataclass(slots=True, eq=False)
class Ordered(Resource):
    """What a warp knows of accesses to tensor memory, and its own.

    Args:
        base: column of what the CTA has allocated, None in front of ``tcgen05.base``.
        behind: events that all its threads come behind.
        one: events that its elected thread comes behind alone.
        products: the elected thread's.
        loading: loads that have not happened.
        loaded: events of loads that have been issued, and of those that have been waited for.
        waited: see there.
    """

    base: int | None = None
    behind: int = 0
    one: int = 0
    products: MmaQueue = field(default_factory=MmaQueue)
    loading: int = 0
    loaded: int = 0
    waited: int = 0

    def known(self, elected: bool) -> int:
        """Events that the executing threads come behind."""
        return self.behind | (self.one if elected else 0)

    def fence_after(self, known: Known, elected: bool) -> None:
        """Accesses that the executing threads were told of come before their next ones."""
        if elected:
            self.one |= known.before(True)
        else:
            self.behind |= known.before(False)

    def fence_before(self, known: Known, elected: bool) -> None:
        """What the executing threads have loaded they tell of."""
        known.did(self.waited, elected)


@dataclass(slots=True, eq=False)
class Cells(Resource):
    """Lanes by columns of cells, NaN at first; ``allocated`` are columns by the first of them.

    ``wrote`` is the last product that writes a column, ``reads`` are loads since. ``asked`` has the
    columns of each allocation, in order, ``given`` where those lie that were granted, ``freed`` the
    event of the last release. Those of a ``group`` of CTAs are given the same columns.
    """

    memory: TensorMemory
    events: Events
    values: Array = field(init=False)
    wrote: list[int] = field(init=False)
    reads: list[tuple[int, range]] = field(default_factory=list)
    allocated: dict[int, int] = field(default_factory=dict)
    asked: list[int] = field(default_factory=list)
    given: list[int] = field(default_factory=list)
    freed: int = 0
    group: Sequence[Cells] = ()
    relinquished: bool = False

    def __post_init__(self) -> None:
        self.values = np.full((self.memory.lanes, self.memory.columns), np.nan, np.float32)
        self.wrote = [0] * self.memory.columns

    def ask(self, columns: int, scheduler: Scheduler) -> int:
        """Ask for columns; the number of the allocation. All of the group may go on then."""
        self.asked.append(columns)
        for each in self.group:
            each.wake(scheduler)
        return len(self.asked) - 1

    def free_at(self, first: int, columns: int) -> bool:
        """Whether columns are free."""
        taken = (range(at, at + n) for at, n in self.allocated.items())
        return not any(t.start < first + columns and first < t.stop for t in taken)

    def granted(self, number: int, scheduler: Scheduler) -> int | None:
        """Where the columns of an allocation by all CTAs of the group lie, the same in each: as far
        behind as there are, so that nobody takes an address for 0. None until all have asked and
        there is room.
        """
        if len(self.given) > number:
            return self.given[number]
        if any(len(each.asked) <= number for each in self.group):
            return None
        columns = self.group[0].asked[number]
        if others := {each.asked[number] for each in self.group} - {columns}:
            raise FaultError(f"CTAs of a pair allocate {columns} and {others.pop()} columns")
        for first in range(self.memory.columns - columns, -1, -columns):
            if all(each.free_at(first, columns) for each in self.group):
                for each in self.group:
                    each.allocated[first] = columns
                    each.given.append(first)
                    each.wake(scheduler)
                return first
        return None

    def require(self, columns: range, what: str) -> None:
        """Raise FaultError unless columns are allocated, all of them together."""
        if not any(
            at <= columns.start and columns.stop <= at + n for at, n in self.allocated.items()
        ):
            raise FaultError(
                f"{what} columns {columns.start} .. {columns.stop} of tensor memory, which are not "
                "allocated"
            )

    def write(self, event: int, columns: range, known: int, own: int) -> None:
        """A product; behind what is ``known``, and behind the same thread's ``own``."""
        self._require_known(columns, known | own, "overwrites")
        self._require_loaded(columns, known, "a product overwrites what {} may still read")
        self.wrote[columns.start : columns.stop] = [event] * len(columns)

    def read(self, event: int, columns: range, known: int) -> None:
        """A load."""
        self._require_known(columns, known, "is loaded, but overtakes")
        self.reads.append((event, columns))

    def free(self, columns: range, known: int) -> None:
        """Nothing may still use columns that are given back."""
        self._require_known(columns, known, "is freed, but in use by")
        self._require_loaded(columns, known, "tensor memory is freed, but in use by {}")

    def _require_loaded(self, columns: range, known: int, what: str) -> None:
        """Loads of some of these columns are known; then forgotten: whoever asks is behind them."""
        found = [x for x in self.reads if x[1].start < columns.stop and columns.start < x[1].stop]
        self.reads = [x for x in self.reads if x not in found]
        for number, _ in found:
            if not known >> number & 1:
                raise FaultError(what.format(self._who(number)))

    def _require_known(self, columns: range, known: int, what: str) -> None:
        for number in dict.fromkeys(self.wrote[columns.start : columns.stop]):
            if number and not known >> number & 1:
                raise FaultError(
                    f"tensor memory {what} {self._who(number)}: no wait for a tcgen05.commit "
                    "behind it with a tcgen05.fence after"
                )

    def _who(self, number: int) -> str:
        event = self.events[number]
        return f"{event.who} at `{print_stmt(event.stmt).strip()}`"

    def ended(self, known: int) -> None:
        """Raise FaultError where the CTA has not given all back, or ends without knowing that the
        others of its group have: its last warp comes behind ``known`` events.
        """
        if self.allocated:
            count = sum(self.allocated.values())
            raise FaultError(f"the CTA ends with {count} columns of tensor memory allocated")
        for each in self.group:
            if each is not self and (each.allocated or not known >> each.freed & 1):
                raise FaultError(
                    "the CTA ends, and nothing orders that behind tcgen05.dealloc of the other one "
                    "of its pair"
                )


def together(cells: Sequence[Cells], size: int) -> None:
    """Those of a cluster, by rank, in groups of so many CTAs."""
    for first in range(0, len(cells), size):
        for each in cells[first : first + size]:
            each.group = cells[first : first + size]
