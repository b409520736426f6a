"""What becomes of mutants: rejected by the proof, killed by the machine, or neither.

``python -m tests.mutants.judge SCHEDULE... [--every N]`` prints the score by class, and each mutant
that neither catches. The machine runs those alone that the proof lets pass, at small sizes of
several trip counts, with effects as early and as late as possible, and by seeds.
``--no-machine`` leaves that out.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from lowering.ground.errors import WschedError
from lowering.kernel.kernel import Kernel
from lowering.machine import DeadlockError, MachineError
from lowering.machine.scheduler import Adversary
from lowering.proof.prove import prove
from tests.mutants.edits import Mutant, mutants
from tests.on_machine import Problem, exact, kernel, operands, run
from tests.schedules import SCHEDULES
from wsched.run.compiled import CompiledFusion

__all__ = ["Fate", "dies", "judged", "sampled"]

PROBLEMS = (Problem(256, 256, 192, 2), Problem(128, 136, 64, 4), Problem(72, 520, 320, 1))
"""Several tiles a CTA, one each, ragged edges; 3, 1 and 5 steps of 64 a tile."""

RUNS: tuple[tuple[Adversary, int], ...] = (("eager", 0), ("lazy", 0), ("random", 1), ("random", 2))


class Fate(Enum):
    """What became of a mutant."""

    PROOF = "rejected by the proof"
    MACHINE = "killed by the machine"
    PASSED = "neither"


@dataclass(frozen=True, slots=True)
class Judged:
    """A mutant and what became of it."""

    mutant: Mutant
    fate: Fate


def sampled(right: Kernel, every: int, first: int = 0) -> Iterator[Mutant]:
    """Every so manieth mutant of a kernel."""
    return (m for n, m in enumerate(mutants(right)) if n % every == first)


def judged(
    compiled: CompiledFusion, broken: Iterable[Mutant], machine: bool = True
) -> Iterator[Judged]:
    """What becomes of mutants of a kernel's; a claim that is open for itself catches none."""
    before = {(o.name, o.subject) for o in prove(compiled.kernel).open}
    for mutant in broken:
        after = {(o.name, o.subject) for o in prove(mutant.kernel).open}
        if after - before:
            yield Judged(mutant, Fate.PROOF)
        else:
            dead = machine and dies(replace(compiled, kernel=mutant.kernel))
            yield Judged(mutant, Fate.MACHINE if dead else Fate.PASSED)


def dies(broken: CompiledFusion) -> bool:
    """Whether a run on the machine faults, never ends, or gives a wrong number."""
    for problem in PROBLEMS:
        a, b = operands(problem, "bf16", 0, integer=True)
        right = exact(a, b).astype(a.dtype)
        for adversary, seed in RUNS:
            try:
                found = run(broken, problem, a, b, "bf16", seed=seed, adversary=adversary)
            except (MachineError, DeadlockError, WschedError, ArithmeticError, LookupError):
                return True
            if not np.array_equal(found, right):
                return True
    return False


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("schedules", nargs="+", choices=SCHEDULES)
    parser.add_argument("--every", type=int, default=1, help="judge every so manieth mutant")
    parser.add_argument("--no-machine", action="store_true", help="the proof alone")
    asked = parser.parse_args()
    for name in asked.schedules:
        compiled = kernel(SCHEDULES[name])
        score: Counter[tuple[str, Fate]] = Counter()
        broken = sampled(compiled.kernel, asked.every)
        for found in judged(compiled, broken, not asked.no_machine):
            score[found.mutant.kind, found.fate] += 1
            if found.fate is Fate.PASSED:
                print(f"{name}: neither: {found.mutant.kind}: {found.mutant.what}", flush=True)
        for kind in sorted({k for k, _ in score}):
            row = " ".join(f"{f.value} {score[kind, f]};" for f in Fate)
            print(f"{name}: {kind:10} {row}", flush=True)


if __name__ == "__main__":
    _main()
