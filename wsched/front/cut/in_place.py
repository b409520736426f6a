"""Results that lie where inputs lie: written there by what makes them, or copied at the end.

A definition's operations read what an input held before the call, wherever they stand, so memory
may be written over when nobody reads it any more: by a kernel that reads each element where it
writes it, or by a copy behind all steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from lowering.ground.errors import UnsupportedError
from wsched.importer import Written
from wsched.program.program import Buffer, CallStep, CopyStep, KernelStep, Step, SweepStep
from wsched.program.renamed import renamed
from wsched.run.overlap import written_over

__all__ = ["written_in_place"]


def written_in_place(
    steps: Sequence[Step],
    outputs: Sequence[str],
    written: Sequence[Written],
    buffer: Callable[[str], Buffer],
    lies: Callable[[Written], bool],
) -> tuple[tuple[Step, ...], tuple[Buffer, ...]]:
    """The steps of a program with outputs at inputs, and the buffers of its results.

    Args:
        steps: that make all outputs in memory of their own.
        outputs: names of what the caller is given.
        written: what is written into inputs.
        buffer: of a name.
        lies: whether an input lies in memory as a kernel would make the output.

    Raises:
        UnsupportedError: what is written into an input is expanded: it is not in memory whole.
    """
    found, places = list(steps), {name: buffer(name) for name in outputs}
    for w in written:
        made, into = buffer(w.output), buffer(w.into)
        if not made.is_known:
            what = f"{made.name}, which is expanded, written into the input {into.name}"
            raise UnsupportedError(what, "results that no operation expands")
        target = replace(into, name=f"{made.name}@{into.name}", at=into)
        if lies(w) and _takes_over(found, made, into):
            found = [renamed(step, made, target) for step in found]
        else:
            found.append(CopyStep(made, target))
        if w.output in places:
            places[w.output] = target
    return tuple(found), tuple(places.values())


def _takes_over(steps: Sequence[Step], made: Buffer, into: Buffer) -> bool:
    """Whether the step that makes a buffer may do so in the memory of an input."""
    at = next(n for n, step in enumerate(steps) if made in step.writes)
    maker = steps[at]
    if not isinstance(maker, KernelStep | SweepStep):
        return False
    looked = any(isinstance(s, CallStep) and s.stable and into in s.reads for s in steps)
    later = any(into in s.reads for s in steps[at + 1 :])
    return not looked and not later and _by_elements(maker, made, into)


def _by_elements(step: KernelStep | SweepStep, made: Buffer, into: Buffer) -> bool:
    """Whether a kernel reads a buffer, if it does, only where it writes the same element."""
    at = step.writes.index(made)
    if isinstance(step, SweepStep):
        sweep = step.sweep
        dims = sweep.results[at].dims
        pairs = zip(step.reads, sweep.inputs, strict=True)
        return all(place.dims == dims for read, place in pairs if read == into)
    in_place = written_over(step.plan.fusion)
    return all(in_place(at, number) for number, read in enumerate(step.reads) if read == into)
