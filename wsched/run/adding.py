"""Results whose rows a kernel adds to those of a tensor: what that holds before is put there first.

The kernel adds to what is in the result's memory. A program has it write over the tensor, where
nobody reads that any more, and copies it in front elsewhere, as a call of the kernel alone does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wsched.program.program import Buffer, CopyStep, KernelStep, Step
from wsched.program.renamed import renamed
from wsched.schedule.plan import Plan

__all__ = ["adding", "with_rows_there"]


def with_rows_there(plan: Plan) -> Plan:
    """The same plan of the kernel alone, which finds what it adds to in the memory of its results;
    ``plan`` where it adds to nothing.
    """
    fusion = plan.fusion
    if all(a.there for a in fusion.added.values()):
        return plan
    outputs = tuple(
        b if b.added is None else replace(b, added=replace(b.added, there=True))
        for b in fusion.outputs
    )
    return replace(plan, fusion=replace(fusion, outputs=outputs))


def adding(
    steps: Sequence[Step], outputs: Sequence[Buffer]
) -> tuple[tuple[Step, ...], tuple[Buffer, ...]]:
    """The steps of a program, and its results, with copies of what kernels add to and do not write
    over.

    Args:
        steps: of kernels alone, :func:`with_rows_there`.
        outputs: the program's results.
    """
    found, made = list(steps), list(outputs)
    while pairs := [(at, *pair) for at, step in enumerate(found) for pair in _apart(step, found)]:
        at, source, result = pairs[0]  # another kernel may add to what this one has added to
        target = replace(result, name=f"{result.name}_onto")
        placed = replace(result, at=target)
        found = [renamed(s, result, placed) for s in found]
        found.insert(at, CopyStep(source, target))
        made = [placed if b == result else b for b in made]
    return tuple(found), tuple(made)


def _apart(step: Step, steps: Sequence[Step]) -> list[tuple[Buffer, Buffer]]:
    """What a kernel adds rows to, and the result, where that lies neither there nor at a copy."""
    if not isinstance(step, KernelStep):
        return []
    copied = {(s.source, s.target) for s in steps if isinstance(s, CopyStep)}
    fusion = step.plan.fusion
    read = {b.tensor: r for b, r in zip(fusion.inputs, step.reads, strict=True)}
    pairs = [
        (read[b.added.onto], made)
        for b, made in zip(fusion.outputs, step.writes, strict=True) if b.added is not None
    ]  # fmt: skip
    return [
        (onto, made) for onto, made in pairs if made.at != onto and (onto, made.at) not in copied
    ]
