"""From where to where a program needs each piece of memory, and how pieces share one allocation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wsched.program.program import Buffer, Program

__all__ = ["ALIGNMENT", "Arena", "Lifetime", "arena_of", "last_uses", "lifetimes"]

ALIGNMENT = 256
"""Bytes; what torch and the driver align allocations to, more than TMA asks for."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """Numbers of the first and the last step that need some memory, both of them included.

    What the caller passes is there before step 0, what he gets is needed after the last one.
    """

    first: int
    last: int

    def overlaps(self, other: Lifetime) -> bool:
        """Whether some step needs both."""
        return self.first <= other.last and other.first <= self.last


def lifetimes(program: Program) -> dict[Buffer, Lifetime]:
    """When each piece of memory is needed, by the buffer that it is allocated for."""
    found: dict[Buffer, Lifetime] = {b: Lifetime(-1, -1) for b in program.inputs}
    for at, step in enumerate(program.steps):
        for buffer in (*step.reads, *step.writes):
            first = found.get(buffer.memory, Lifetime(at, at)).first
            found[buffer.memory] = Lifetime(first, at)
    for buffer in program.outputs:
        found[buffer.memory] = Lifetime(found[buffer.memory].first, len(program.steps))
    return found


def last_uses(program: Program) -> tuple[tuple[Buffer, ...], ...]:
    """For each step the buffers whose memory nobody needs after it."""
    living = lifetimes(program)
    return tuple(
        tuple(b for b in program.buffers if b.memory in living and living[b.memory].last == at)
        for at in range(len(program.steps))
    )


@dataclass(frozen=True, slots=True)
class Arena:
    """One allocation for what a program needs between its steps.

    Args:
        nbytes: of all of it.
        offsets: where each piece begins, a multiple of :data:`ALIGNMENT`.
    """

    nbytes: int
    offsets: Mapping[Buffer, int]


def arena_of(program: Program, extents: Mapping[str, int]) -> Arena:
    """Places for everything but inputs and outputs; pieces share bytes if no step needs both.

    The largest piece is placed first, each at the lowest offset that is free for all its life.

    Args:
        program: verified.
        extents: value of each symbol in its sizes.
    """
    living = lifetimes(program)
    theirs = {b.memory for b in (*program.inputs, *program.outputs)}
    pieces = [(b.nbytes(extents), b) for b in living if b not in theirs]
    placed: dict[Buffer, tuple[int, int]] = {}
    for nbytes, buffer in sorted(pieces, key=lambda p: -p[0]):
        taken = sorted(span for b, span in placed.items() if living[b].overlaps(living[buffer]))
        offset = 0
        for begin, end in taken:
            if offset + nbytes <= begin:
                break
            offset = max(offset, -(-end // ALIGNMENT) * ALIGNMENT)
        placed[buffer] = offset, offset + nbytes
    total = max((end for _, end in placed.values()), default=0)
    return Arena(total, {b: begin for b, (begin, _) in placed.items()})
