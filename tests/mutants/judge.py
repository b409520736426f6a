"""What becomes of a mutant: malformed, rejected by the proof, killed by the machine, or neither.

The machine runs those alone that the proof lets pass, on the launches of their kernel: with effects
as early and as late as possible, and a watch on races and phases that leaves nothing to an order
(``lowering.machine.phases``). A kernel that passes does the same in all orders, but for who draws
from counters: there orders of draws are tried, up to some number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from typing import Any

import numpy as np

from lowering.ground.errors import WschedError
from lowering.kernel.kernel import Kernel
from lowering.kernel.verify import verify
from lowering.machine.adversary import Adversary, Draws, adversaries, orders_of_draws
from lowering.proof.obligation import Obligation
from lowering.proof.prove import claims
from tests.mutants.edits import Mutant, mutants
from tests.mutants.subjects import Subject

__all__ = ["Fate", "Judge", "Judged", "sampled"]

_ORDERS: tuple[Adversary, ...] = ("eager", "lazy")
_MOST_DRAWS = 24
"""Orders of draws from counters that are tried, at most."""


class Fate(Enum):
    """What became of a mutant; ``NEITHER`` has to be harmless (``tests.mutants.harmless``)."""

    VERIFY = "malformed"
    PROOF = "rejected by the proof"
    RACE = "killed by a race"
    MACHINE = "killed by another fault or number"
    ADVERSARY = "killed by a deterministic adversary"
    NEITHER = "neither"


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of a mutant.

    Args:
        fate: who caught it.
        why: with what words.
        sizes: at which it ran.
        orders: in which numbers were drawn from counters, of one that nobody caught; 0 where it
            draws none, which is caught in no order.
    """

    fate: Fate
    why: str = ""
    sizes: int = 0
    orders: int = 0

    @property
    def method(self) -> str:
        """What the machine says of one that nobody caught, beside the proof."""
        drawn = ", and in orders of draws" if self.orders else ""
        return f"no access or phase that an order decides, at {self.sizes} sizes{drawn}"


@dataclass(slots=True, eq=False)
class Judge:
    """Judges mutants of one kernel.

    Args:
        subject: the right kernel.
        open: claims that the proof leaves open of it; such a one rejects no mutant.
        malformed: rules that it breaks itself.
        right: its results of each launch, and steps that a run took.
        mutants: all of them.
    """

    subject: Subject
    open: set[tuple[str, str]] = field(init=False)
    malformed: set[str] = field(init=False)
    right: dict[int, tuple[dict[str, Any], int]] = field(default_factory=dict)
    mutants: tuple[Mutant, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.open = {(o.name, o.subject) for o in self._open_claims(self.subject.kernel)}
        self.malformed = set(verify(self.subject.kernel))
        self.mutants = tuple(mutants(self.subject.kernel))

    def judged(self, mutant: Mutant, machine: bool = True) -> Judged:
        """What becomes of a mutant; without the machine, by rules and proof alone."""
        broken = [p for p in verify(mutant.kernel) if p not in self.malformed]
        if broken:
            return Judged(Fate.VERIFY, broken[0])
        others = (
            o for o in self._open_claims(mutant.kernel) if (o.name, o.subject) not in self.open
        )
        if (first := next(others, None)) is not None:  # one that is rejected needs no other claims
            return Judged(Fate.PROOF, str(first).splitlines()[0])
        return self.ran(mutant.kernel) if machine else Judged(Fate.NEITHER)

    def _open_claims(self, kernel: Kernel) -> Iterator[Obligation]:
        """What is not proved of a kernel, one after the other, told what the right one is told."""
        return (o for o in claims(kernel, self.subject.admitted) if o.open)

    def ran(self, kernel: Kernel) -> Judged:
        """What becomes of a kernel on the machine alone."""
        for at in range(len(self.subject.launches)):
            for order in _ORDERS:
                why = self.wrong(kernel, at, adversary=order, races=True)
                if why:
                    chance = "nothing orders" in why
                    return Judged(Fate.RACE if chance else Fate.MACHINE, why)
        sizes = len(self.subject.launches)
        return self._drawn(kernel) if kernel.counters else Judged(Fate.NEITHER, sizes=sizes)

    def _drawn(self, kernel: Kernel) -> Judged:
        """What becomes of it in other orders of draws."""
        found: list[str] = []

        def run(draws: Draws) -> None:
            found.append(self.wrong(kernel, 2, adversary=draws, races=True))

        for _ in islice(orders_of_draws(run), _MOST_DRAWS):
            if found[-1]:
                return Judged(Fate.MACHINE, found[-1])
        return Judged(Fate.NEITHER, sizes=len(self.subject.launches), orders=len(found))

    def others(self, kernel: Kernel) -> Judged:
        """What becomes of it in orders of which ``ran`` says that they change nothing."""
        for each in adversaries(kernel):
            why = self.wrong(kernel, 0, adversary=each)
            if why:
                return Judged(Fate.ADVERSARY, f"{each}: {why}")
        return Judged(Fate.NEITHER)

    def wrong(self, kernel: Kernel, at: int, **options: Any) -> str:
        """What is wrong with a launch; nothing if it gives what the right kernel gives."""
        if at not in self.right:
            results, run = self.subject.run(self.subject.kernel, at, adversary="eager")
            self.right[at] = results, run.counts["steps"]
        wanted, steps = self.right[at]
        try:
            found, _ = self.subject.run(kernel, at, step_limit=20 * steps, **options)
        except (WschedError, ArithmeticError, LookupError) as error:
            return f"{type(error).__name__}: {error}"
        wrong = (name for name in wanted if not np.array_equal(found[name], wanted[name]))
        return next((f"{name} is wrong" for name in wrong), "")


def sampled(judge: Judge, every: int, first: int = 0) -> Iterator[Mutant]:
    """Every so manieth mutant of a kernel."""
    return (m for n, m in enumerate(judge.mutants) if n % every == first)
