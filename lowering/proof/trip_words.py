"""What memory may hold for the trips of a loop that reads scalars there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from lowering.kernel.kernel import Kernel
from lowering.kernel.scalar_memory import LdGlobalScalar
from lowering.kernel.visit import walk
from lowering.proof.bounds import ANY

__all__ = ["Corner", "TripWords", "trip_words"]


class Corner(Enum):
    """Parts of a group between which any other one lies: all of it, nothing at its begin, nothing
    at its end. What is computed of a part is linear in where it begins and how much it is.
    """

    ALL = "all of each group"
    FRONT = "nothing at the begin of each group"
    BEHIND = "nothing at the end of each group"


@dataclass(frozen=True, slots=True)
class TripWords:
    """Scalars in memory, and the trip of the loop that reads them which is looked at: words that it
    stores are of one trip.

    Args:
        before: what all trips before it read; None of the first trip.
        now: what is read in it.
        part: what the kernel has of a group, where it has a part of it.
    """

    before: int | None
    now: int
    part: Corner = Corner.ALL

    def __str__(self) -> str:
        before = "first" if self.before is None else f"{self.before}, then"
        part = "" if self.part is Corner.ALL else f", {self.part.value}"
        return f", of {before} {self.now} in memory{part},"


def trip_words(kernel: Kernel, sizes: Mapping[str, int]) -> Sequence[TripWords | None]:
    """What may be in memory, if a kernel reads scalars there: any number."""
    if not any(isinstance(s, LdGlobalScalar) for s in walk(kernel.body)):
        return (None,)
    (low, high), half = ANY, max(sizes.values()) // 2
    pairs = (
        (None, low), (None, high), (low, high), (high, low), (half, high), (half, half),
    )  # fmt: skip
    corners = Corner if kernel.share else (Corner.ALL,)
    return [TripWords(before, now, c) for before, now in pairs for c in corners]
