"""Sums read products before they are rounded, where nothing but sums is computed of these.

A sum's own error is larger than what rounding each element to BFloat16 adds to it, and one that is
made of the accumulators needs no registers for a chunk (design/0026-reductions.md). All else reads
what is rounded: the largest element is one of them, a difference may be all rounding, and what Half
cannot hold is infinite in its sum, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from wsched.fusion import DataType
from wsched.importer.emit import needed
from wsched.importer.steps import Operand, Step

__all__ = ["sums_before_rounding"]


def sums_before_rounding(
    steps: Iterable[Step], outputs: Sequence[Step], results: Collection[Step]
) -> tuple[list[Step], list[Step]]:
    """The steps and outputs of a definition where such sums read the accumulators.

    A sum is one of these if it is of a monomial of results (products of them and of numbers, whole
    powers), and if nothing but such sums is computed of the accumulators of all that it reads; the
    results themselves may be stored. What is asked is what is computed, however it is written.

    Args:
        steps: what is computed, in an order in which it can be.
        outputs: the steps of the outputs.
        results: what accumulators, with their biases, are rounded to as results of matmuls.
    """
    rounded = {s for s in results if s.dtype is DataType.BFloat16}
    sums, others = list[set[Step]](), set[Step]()
    for s in outputs:
        if s not in rounded:
            accumulators = {x for x in needed(s) if x.op == "mma"}
            if _of_monomial(s, rounded):
                sums.append(accumulators)
            else:
                others |= accumulators
    while met := [x for x in sums if x & others]:
        others = others.union(*met)
        sums = [x for x in sums if not x <= others]
    alone = set[Step]().union(*sums)
    now = dict[Operand, Step]()
    made = list[Step]()
    for s in steps:
        if _is_widened(s, rounded) and alone & needed(s):
            (result,) = s.inputs
            assert isinstance(result, Step) and isinstance(result.inputs[0], Step)
            now[s] = result.inputs[0]
            continue
        if any(x in now for x in s.inputs):
            now[s] = replace(s, inputs=tuple(now.get(x, x) for x in s.inputs))
        made.append(now.get(s, s))
    return made, [now.get(s, s) for s in outputs]


def _of_monomial(s: Step, rounded: Collection[Step]) -> bool:
    """Whether a step is the sum of a monomial of results."""
    if s.op != "sum":
        return False
    pending, seen = [*s.inputs], set[Step]()
    while pending:
        x = pending.pop()
        if not isinstance(x, Step) or x in seen or _is_widened(x, rounded):
            continue
        if not _multiplies(x):
            return False
        seen.add(x)
        pending += x.inputs
    return True


def _is_widened(s: Step, rounded: Collection[Step]) -> bool:
    """Whether a step is a result as arithmetic reads it."""
    return s.op == "cast" and s.dtype is DataType.Float and s.inputs[0] in rounded


def _multiplies(s: Step) -> bool:
    """Whether what a step makes of monomials is one."""
    if s.op in ("neg", "mul"):
        return True
    last = s.inputs[-1] if s.inputs else None
    if s.op == "pow":
        return isinstance(last, float) and last >= 1 and last.is_integer()
    return s.op == "div" and not isinstance(last, Step)
