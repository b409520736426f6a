"""Who runs next, and when an asynchronous operation takes effect: the adversary.

Warps are generators. They yield None where another warp may run first, and Blocked where they
cannot go on. An asynchronous operation is an Effect that waits in ``effects`` until the adversary
lets it happen: at once (eager, fair), when nothing else can happen (lazy), or at a random moment.
One kind of effect may be held back even longer, until no other effect is left. The deterministic
adversaries are eager but for one statement or one warp (``lowering.machine.adversary``).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from lowering.kernel.nodes import Stmt
from lowering.kernel.text import print_stmt
from lowering.machine.adversary import Adversary, Draws, HoldBack, RunLast
from lowering.machine.errors import DeadlockError, FaultError, MachineError
from lowering.machine.order import Actor, Events, Known

__all__ = [
    "LATE", "Adversary", "Blocked", "Effect", "Resource", "Runnable", "Scheduler",
    "Steps", "Watch", "span",
]  # fmt: skip


class Runnable(Actor, Protocol):
    """What a scheduler runs and a barrier counts: a warp, as far as they know it.

    Attributes:
        index: of the warp in its CTA.
        scheduler: that runs it.
        thread: the rest of its run.
        stmt: the statement that it executes.
        blocked: what it waits for.
        elected: whether one of its threads alone executes it.
        known: events that precede what it does next.
    """

    index: int
    scheduler: Scheduler
    thread: Iterator[Blocked | None]
    stmt: Stmt | None
    blocked: Blocked | None
    elected: bool
    known: Known

    @property
    def place(self) -> str:
        """CTA, role and group."""


_R = TypeVar("_R", bound=Runnable)


@dataclass(slots=True, eq=False)
class Resource:
    """Something that warps wait for; whoever changes it wakes them to look again."""

    waiters: list[Runnable] = field(default_factory=list, init=False)

    def wake(self, scheduler: Scheduler) -> None:
        """Make every waiting warp runnable."""
        scheduler.runnable += self.waiters
        self.waiters.clear()


@dataclass(frozen=True, slots=True)
class Blocked:
    """What a warp waits for; ``text`` says so when it turns out to wait for ever."""

    resource: Resource
    text: Callable[[], str]


Steps = Iterable["Blocked | None"]

LATE: Final = Blocked(Resource(), lambda: "everybody else")
"""What a warp waits for in front of a statement that is held back: until no other can run."""


@dataclass(frozen=True, slots=True, eq=False)
class Effect:
    """An asynchronous operation that ``warp`` issued with ``stmt``."""

    apply: Callable[[], None]
    warp: Runnable
    stmt: Stmt


class Watch(Protocol):
    """Somebody who looks on: called behind whatever happens, when all has its new state."""

    def stepped(self, warp: Runnable) -> None:
        """A warp has made a step, and waits for ``warp.blocked`` if that is set."""

    def happened(self, effect: Effect) -> None:
        """An asynchronous operation has taken effect."""


class Scheduler:
    """Runs the warps of a cluster to their end.

    Args:
        adversary: when effects happen. ``eager`` and ``lazy`` also let a warp run as far as it can,
            ``lazy`` holds TMA stores back. ``fair`` is eager, but gives each warp one step in turn,
            as if they ran side by side. ``random`` changes warps at random; how often, and what
            it holds back, is drawn from the seed as well. ``HoldBack`` and ``RunLast`` are eager
            but for one statement, or one warp.
        seed: of all choices.
        step_limit: steps after which a run counts as endless.

    Attributes:
        watch: who looks on.
        events: what warps have to know of, see ``lowering.machine.order``.
        printed: lines that statements have printed.
    """

    def __init__(self, adversary: Adversary, seed: str, step_limit: int) -> None:
        self.adversary = adversary
        self.rng = random.Random(seed)
        self.step_limit = step_limit
        self.watch: Watch | None = None
        self.events = Events()
        self.printed: list[str] = []
        self.steps = 0
        self.runnable: list[Runnable] = []
        self.late: list[Runnable] = []
        self.effects: list[Effect] = []
        self.held: list[Effect] = []
        chaotic = adversary == "random"
        self._eager = adversary not in ("lazy", "random")
        self._held = adversary.stmt if isinstance(adversary, HoldBack) else None
        self._last = adversary if isinstance(adversary, RunLast) else None
        self._strike = self.rng.choice((0.02, 0.2, 0.7)) if chaotic else 0.0
        self._stay = self.rng.choice((0.0, 0.6, 0.97)) if chaotic else float(adversary != "fair")
        held = ("", "tma.load", "tma.store", "wgmma")
        self._hold = self.rng.choice(held) if chaotic else "tma.store"

    @property
    def time(self) -> float:
        """What lines are stamped with: steps so far."""
        return self.steps

    def coin(self, stmt: Stmt) -> bool:
        """Whether something that may happen early happens now; ``stmt`` has done it."""
        return (self._eager and stmt is not self._held) or (
            self.adversary == "random" and self.rng.random() < 0.5
        )

    def add(self, effect: Effect) -> None:
        """Take an asynchronous operation into the set of those that may happen next."""
        if effect.stmt is self._held:
            self.held.append(effect)
        elif self._eager:
            self._apply(effect)
        else:
            (self.held if self._hold == effect.stmt.OP else self.effects).append(effect)

    def run(self, warps: Sequence[_R], start: Callable[[_R], Iterator[Blocked | None]]) -> None:
        """Run ``start(warp)`` of every warp to the end, and every effect.

        Raises:
            DeadlockError: warps wait and no effect is left.
            MachineError: a statement faulted, or the step limit was reached.
        """
        for warp in warps:
            warp.thread = start(warp)
        self.runnable += warps
        while self.happen():
            pass
        blocked = [w for w in warps if w.blocked]
        if blocked:
            raise DeadlockError(_describe(blocked))

    def happen(self) -> bool:
        """Let a warp or an effect go on; whether there was one."""
        if self.effects and (not self.runnable or self.rng.random() < self._strike):
            self._apply(self._pop(self.effects))
        elif self.runnable:
            self._advance(self._choose())
        elif self.late:
            self._advance(self.late.pop(self._turn()))
        elif self.held:
            self._apply(self._pop(self.held))
        else:
            return False
        return True

    def _pop(self, effects: list[Effect]) -> Effect:
        chosen = self.rng.randrange(len(effects))
        effects[chosen], effects[-1] = effects[-1], effects[chosen]
        return effects.pop()

    def _choose(self) -> Runnable:
        if self._last is not None:
            others = (n for n, w in enumerate(self.runnable) if not self._comes_last(w))
            return self.runnable.pop(next(others, 0))
        if self._eager:
            return self.runnable.pop(0)
        last = len(self.runnable) - 1
        chosen = self.rng.randint(0, last) if self.adversary == "random" else last
        return self.runnable.pop(chosen)

    def _turn(self) -> int:
        """Whose turn it is of those that are late."""
        if not isinstance(self.adversary, Draws):
            return 0
        self.late.sort(key=lambda warp: (warp.place, warp.index))
        return self.adversary.turn(len(self.late))

    def _comes_last(self, warp: Runnable) -> bool:
        return self._last is not None and (warp.rank, warp.index) == (
            self._last.rank,
            self._last.warp,
        )

    def _advance(self, warp: Runnable) -> None:
        warp.blocked = None
        stay = 0.0 if self._comes_last(warp) else self._stay
        while True:
            self.steps += 1
            if self.steps > self.step_limit:
                raise self._fault(warp, warp.stmt, f"no end after {self.step_limit} steps")
            try:
                blocked = next(warp.thread)
            except StopIteration:
                self._stepped(warp)
                return
            except FaultError as fault:
                raise self._fault(warp, warp.stmt, str(fault)) from None
            if blocked is LATE:
                self.late.append(warp)
                return
            if isinstance(blocked, Blocked):
                warp.blocked = blocked
                blocked.resource.waiters.append(warp)
                self._stepped(warp)
                return
            self._stepped(warp)
            if stay < 1.0 and self.rng.random() >= stay:
                self.runnable.append(warp)
                return

    def _stepped(self, warp: Runnable) -> None:
        if self.watch is not None:
            self.watch.stepped(warp)

    def _apply(self, effect: Effect) -> None:
        try:
            effect.apply()
        except FaultError as fault:
            raise self._fault(effect.warp, effect.stmt, str(fault)) from None
        if self.watch is not None:
            self.watch.happened(effect)

    def _fault(self, warp: Runnable, stmt: Stmt | None, why: str) -> MachineError:
        return MachineError(warp.who, why, print_stmt(stmt) if stmt else "")


def _describe(blocked: Sequence[Runnable]) -> tuple[str, ...]:
    """A line for each group of warps that wait for the same at the same statement."""
    groups: dict[tuple[str, str, str], list[int]] = {}
    for warp in blocked:
        assert warp.blocked is not None
        line = print_stmt(warp.stmt) if warp.stmt else ""
        groups.setdefault((warp.place, warp.blocked.text(), line), []).append(warp.index)
    return tuple(
        f"{place}, {span(warps)}: {text} (at: {line})"
        for (place, text, line), warps in sorted(groups.items())
    )


def span(warps: list[int]) -> str:
    """Warps by number: ``warp 3``, ``warps 1, 3`` or ``warps 4..7``."""
    low, high = min(warps), max(warps)
    if low == high:
        return f"warp {low}"
    if len(warps) > 2 and high - low + 1 == len(warps):
        return f"warps {low}..{high}"
    return "warps " + ", ".join(map(str, sorted(warps)))
