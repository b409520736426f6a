"""From where to where a program needs each piece of memory, and how pieces share one allocation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wsched.program.program import Buffer, Program

__all__ = ["ALIGNMENT", "Arena", "Lifetime", "arena_of", "last_uses", "lifetimes", "placed"]

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
        nbytes: of all of it, a multiple of :data:`ALIGNMENT`.
        offsets: where each piece begins, a multiple of :data:`ALIGNMENT`.
    """

    nbytes: int
    offsets: Mapping[Buffer, int]


def arena_of(program: Program, extents: Mapping[str, int]) -> Arena:
    """Places for everything but inputs and outputs, see :func:`placed`.

    Args:
        program: verified.
        extents: value of each symbol in its sizes.
    """
    living = lifetimes(program)
    theirs = {b.memory for b in (*program.inputs, *program.outputs)}
    buffers = [b for b in living if b not in theirs]
    total, offsets = placed([(b.nbytes(extents), living[b]) for b in buffers])
    return Arena(-(-total // ALIGNMENT) * ALIGNMENT, dict(zip(buffers, offsets, strict=True)))


def placed(pieces: Sequence[tuple[int, Lifetime]]) -> tuple[int, tuple[int, ...]]:
    """The bytes of one allocation for pieces, and where each begins, multiples of
    :data:`ALIGNMENT`; pieces share bytes if no step needs both.

    The largest piece is placed first, each at the lowest offset that is free for all its life.

    Args:
        pieces: bytes of each, and when it is needed.
    """
    spans: dict[int, tuple[int, int]] = {}
    for at in sorted(range(len(pieces)), key=lambda n: -pieces[n][0]):
        nbytes, life = pieces[at]
        taken = sorted(span for n, span in spans.items() if pieces[n][1].overlaps(life))
        offset = 0
        for begin, end in taken:
            if offset + nbytes <= begin:
                break
            offset = max(offset, -(-end // ALIGNMENT) * ALIGNMENT)
        spans[at] = offset, offset + nbytes
    total = max((end for _, end in spans.values()), default=0)
    return total, tuple(spans[n][0] for n in range(len(pieces)))
