"""What the results of a program depend on: what those of all its steps do."""

from __future__ import annotations

from wsched.fusion.summary import Axis
from wsched.program.program import CallStep, KernelStep, Program, Step, SummaryStep
from wsched.schedule import properties

__all__ = ["batch_invariant", "deterministic"]


def deterministic(program: Program) -> bool:
    """Whether equal inputs are known to give equal bits, on one device."""
    return all(map(_deterministic, program.steps))


def batch_invariant(program: Program) -> bool:
    """Whether the bits of a row of a result are known not to depend on other rows, nor on how many
    there are.
    """
    return all(map(_batch_invariant, program.steps))


def _deterministic(step: Step) -> bool:
    match step:
        case KernelStep():
            return properties.deterministic(step.plan)
        case CallStep():
            return step.deterministic
    return True


def _batch_invariant(step: Step) -> bool:
    match step:
        case KernelStep():
            return properties.batch_invariant(step.plan)
        case SummaryStep():
            return step.summary.axis is Axis.COLUMNS
        case CallStep():
            return step.batch_invariant
    return True
