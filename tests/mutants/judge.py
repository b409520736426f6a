"""What becomes of a mutant: malformed, rejected by the proof, killed by the machine, or neither.

The machine runs those alone that the proof lets pass, at small sizes of several trip counts: first
with a watch on races, then with effects as early and as late as possible and by seeds, then with
each statement of the kernel held back and each warp last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np

from lowering.ground.errors import WschedError
from lowering.kernel.kernel import Kernel
from lowering.kernel.verify import verify
from lowering.machine.adversary import Adversary, adversaries
from lowering.proof.prove import prove
from tests.mutants.edits import Mutant, mutants
from tests.mutants.subjects import PROBLEMS, Subject
from tests.on_machine import Problem

__all__ = ["Fate", "Judge", "Judged", "sampled"]

RUNS: tuple[tuple[Adversary, int], ...] = (("lazy", 0), ("random", 1), ("random", 2))


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
    """What became of a mutant, and who said so with what words."""

    fate: Fate
    why: str = ""


@dataclass(slots=True, eq=False)
class Judge:
    """Judges mutants of one kernel.

    Args:
        subject: the right kernel.
        open: claims that the proof leaves open of it; such a one rejects no mutant.
        malformed: rules that it breaks itself.
        right: its results of each problem, and steps that a run took.
        mutants: all of them.
    """

    subject: Subject
    open: set[tuple[str, str]] = field(init=False)
    malformed: set[str] = field(init=False)
    right: dict[Problem, tuple[dict[str, Any], int]] = field(default_factory=dict)
    mutants: tuple[Mutant, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.open = {(o.name, o.subject) for o in prove(self.subject.kernel).open}
        self.malformed = set(verify(self.subject.kernel))
        self.mutants = tuple(mutants(self.subject.kernel))

    def judged(self, mutant: Mutant, machine: bool = True) -> Judged:
        """What becomes of a mutant; without the machine, by rules and proof alone."""
        broken = [p for p in verify(mutant.kernel) if p not in self.malformed]
        if broken:
            return Judged(Fate.VERIFY, broken[0])
        found = [o for o in prove(mutant.kernel).open if (o.name, o.subject) not in self.open]
        if found:
            return Judged(Fate.PROOF, str(found[0]).splitlines()[0])
        return self.ran(mutant.kernel) if machine else Judged(Fate.NEITHER)

    def ran(self, kernel: Kernel) -> Judged:
        """What becomes of a kernel on the machine alone."""
        for problem in PROBLEMS:
            why = self.wrong(kernel, problem, adversary="eager", races=True)
            if why:
                race = "nothing orders" in why
                return Judged(Fate.RACE if race else Fate.MACHINE, why)
        for problem in PROBLEMS:
            for adversary, seed in RUNS:
                why = self.wrong(kernel, problem, adversary=adversary, seed=seed)
                if why:
                    return Judged(Fate.MACHINE, why)
        for each in adversaries(kernel):
            why = self.wrong(kernel, PROBLEMS[0], adversary=each)
            if why:
                return Judged(Fate.ADVERSARY, f"{each}: {why}")
        return Judged(Fate.NEITHER)

    def wrong(self, kernel: Kernel, p: Problem, **options: Any) -> str:
        """What is wrong with a run; nothing if it gives what the right kernel gives."""
        if p not in self.right:
            results, run = self.subject.run(self.subject.kernel, p, adversary="eager")
            self.right[p] = results, run.counts["steps"]
        wanted, steps = self.right[p]
        try:
            found, _ = self.subject.run(kernel, p, step_limit=20 * steps, **options)
        except (WschedError, ArithmeticError, LookupError) as error:
            return f"{type(error).__name__}: {error}"
        wrong = (name for name in wanted if not np.array_equal(found[name], wanted[name]))
        return next((f"{name} is wrong" for name in wrong), "")


def sampled(judge: Judge, every: int, first: int = 0) -> Iterator[Mutant]:
    """Every so manieth mutant of a kernel."""
    return (m for n, m in enumerate(judge.mutants) if n % every == first)
