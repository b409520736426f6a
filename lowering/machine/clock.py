"""The machine with a clock: statements and what they start take time, and waits are noted.

The scheduler here has no adversary. Each warp has a time of its own, which a statement advances
before it is executed; each asynchronous operation holds a unit of its SM (the tensor core of a
quarter, the copy engine) for some cycles, one after the other, and takes effect some more later.
Whatever is due first happens next. What anything costs is said by whoever runs the kernel
(:class:`Costs`), so that this file knows no GPU.

CTAs that run together are on an SM each, or all that have one rank in their clusters share one:
whoever runs the kernel says which.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Protocol, runtime_checkable

from lowering.kernel.nodes import Stmt
from lowering.machine.program import Handler, Program, Run
from lowering.machine.scheduler import Blocked, Effect, Runnable, Scheduler
from lowering.machine.state import Warp

__all__ = ["Clock", "Costs", "Slower", "Stretch", "Work", "timed"]


@dataclass(frozen=True, slots=True)
class Work:
    """What an asynchronous operation takes.

    Args:
        unit: what it holds: one of each name in a quarter of an SM, or in an SM.
        quarter: whether warps have it by their number modulo four.
        cycles: for which it holds that.
        latency: cycles from then on until others see the effect.
    """

    unit: str
    quarter: bool
    cycles: float
    latency: float


@dataclass(frozen=True, slots=True)
class Slower:
    """How many cycles more a statement takes beside what others do.

    Args:
        unit: while this unit of the warp's SM, or of its quarter, works.
        cycles: then.
        beside_warps: while it does not, but another warp of the quarter executes something.
    """

    unit: str
    cycles: float
    beside_warps: float


@runtime_checkable
class Costs(Protocol):
    """What is known of a GPU, in cycles of an SM."""

    def busy(self, stmt: Stmt) -> float:
        """For which a warp does nothing but execute a statement; 0 of one that is free."""

    def slower(self, stmt: Stmt) -> Slower | None:
        """How much longer it takes beside others; None of what takes as long as alone."""

    def work(self, stmt: Stmt) -> Work:
        """What a statement starts that goes on by itself."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Something that a warp did, or waited for.

    Args:
        cta: ``%ctaid.x``.
        role: of the warp.
        group: index of the warpgroup within the role.
        warp: of the CTA.
        stmt: the statement.
        waits: whether the warp waited, for what the statement needs.
        begin: in cycles since all began.
        end: likewise.
    """

    cta: int
    role: str
    group: int
    warp: int
    stmt: Stmt
    waits: bool
    begin: float
    end: float


class Clock(Scheduler):
    """Runs the warps of some CTAs in the order of their times.

    Args:
        costs: of what they do.
        step_limit: steps after which a run counts as endless.
        apart: whether each CTA has an SM of its own.

    Attributes:
        stretches: what each warp did, as it ended.
        end: when the last warp and the last operation ended.
    """

    def __init__(self, costs: Costs, step_limit: int, apart: bool = False) -> None:
        super().__init__("fair", "", step_limit)
        self.costs = costs
        self.apart = apart
        self.stretches: list[Stretch] = []
        self.end = 0.0
        self._now = 0.0
        self._due: list[tuple[float, int, Runnable | Effect]] = []
        self._made = 0
        self._free: dict[tuple[str, int, int], float] = {}
        self._blocked: dict[int, float] = {}
        self._executing: dict[tuple[int, int], dict[int, float]] = {}

    @property
    def time(self) -> float:
        """Cycles since all began."""
        return self._now

    def spend(self, warp: Warp, stmt: Stmt, cycles: float, slower: Slower | None) -> None:
        """Let the warp that runs be busy with a statement; whom it has woken is not."""
        self._wake()
        _, sm, quarter = self._unit("", warp, True)
        executing = self._executing.setdefault((sm, quarter), {})
        if slower is not None:
            if self._works(slower.unit, warp):
                cycles += slower.cycles
            elif any(end > self._now for who, end in executing.items() if who != id(warp)):
                cycles += slower.beside_warps
            executing[id(warp)] = self._now + cycles
        self._note(warp, stmt, False, self._now, self._now + cycles)
        self._now += cycles

    def _works(self, unit: str, warp: Warp) -> bool:
        keys = self._unit(unit, warp, True), self._unit(unit, warp, False)
        return any(self._free.get(key, 0.0) > self._now for key in keys)

    def _unit(self, name: str, warp: Runnable, quarter: bool) -> tuple[str, int, int]:
        sm = warp.cta.ctaid if self.apart and isinstance(warp, Warp) else warp.rank
        return name, sm, warp.index % 4 if quarter else -1

    def add(self, effect: Effect) -> None:
        """Let an asynchronous operation take its time, behind others of its unit."""
        work = self.costs.work(effect.stmt)
        unit = self._unit(work.unit, effect.warp, work.quarter)
        begin = max(self._now, self._free.get(unit, 0.0))
        self._free[unit] = begin + work.cycles
        self._push(begin + work.cycles + work.latency, effect)

    def _push(self, at: float, what: Runnable | Effect) -> None:
        self._made += 1
        heappush(self._due, (at, self._made, what))

    def _wake(self) -> None:
        """Make warps due that may go on."""
        for warp in self.runnable:
            if id(warp) in self._blocked and isinstance(warp, Warp) and warp.stmt is not None:
                self._note(warp, warp.stmt, True, self._blocked.pop(id(warp)), self._now)
            self._push(self._now, warp)
        self.runnable.clear()

    def happen(self) -> bool:
        """Let what is due first happen; whether there was anything."""
        self._wake()
        if not self._due:
            return False
        self._now, _, what = heappop(self._due)
        if isinstance(what, Effect):
            self._apply(what)
        else:
            self._advance(what)
            if what.blocked is not None:
                self._blocked[id(what)] = self._now
        self.end = max(self.end, self._now)
        return True

    def _note(self, warp: Warp, stmt: Stmt, waits: bool, begin: float, end: float) -> None:
        if end > begin:
            place = warp.cta.ctaid, warp.role, warp.group, warp.index
            self.stretches.append(Stretch(*place, stmt, waits, begin, end))


def timed(handlers: Mapping[type[Stmt], Handler], costs: Costs) -> dict[type[Stmt], Handler]:
    """The handlers with the time that each statement takes, paid in front of it.

    Args:
        handlers: those of the machine.
        costs: of the statements.
    """
    return {kind: _timed(handler, costs) for kind, handler in handlers.items()}


def _timed(handler: Handler, costs: Costs) -> Handler:
    def prepared(stmt: Stmt, program: Program) -> Run:
        run, cycles = handler(stmt, program), costs.busy(stmt)
        return _paid(run, stmt, cycles, costs.slower(stmt)) if cycles else run

    return prepared


def _paid(run: Run, stmt: Stmt, cycles: float, slower: Slower | None) -> Run:
    def paid(warp: Warp) -> Iterator[Blocked | None]:
        clock = warp.scheduler
        assert isinstance(clock, Clock)
        clock.spend(warp, stmt, cycles, slower)
        yield None
        steps = run(warp)
        if steps is not None:
            yield from steps

    return paid
