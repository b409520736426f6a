"""Order of the rounds and the statistics of their times; pure functions on numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

__all__ = ["Spread", "geometric_mean", "input_sets", "paired_ratios", "repetitions", "rotated"]

T = TypeVar("T")

# A set of buffers counts as out of the cache when twice the cache was touched since its last use.
_CACHE_FACTOR = 2
_MOST_SETS = 16
_MOST_LAUNCHES = 4096


@dataclass(frozen=True, slots=True)
class Spread:
    """A median with its quartiles."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Return the median and the quartiles (linear between neighbours) of one value or more."""
        return cls(median(values), _quantile(values, 0.25), _quantile(values, 0.75))

    def to_dict(self) -> dict[str, float]:
        """Return ``{"median", "low", "high"}``."""
        return {"median": self.median, "low": self.low, "high": self.high}


def _quantile(values: Sequence[float], fraction: float) -> float:
    ordered = sorted(values)
    place = fraction * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean of positive values; there must be one."""
    return math.exp(sum(math.log(v) for v in values) / len(values))


def rotated(names: Sequence[T], turn: int) -> list[T]:
    """Return ``names`` started ``turn`` places later: each comes first once in ``len`` rounds."""
    start = turn % len(names) if names else 0
    return [*names[start:], *names[:start]]


def paired_ratios(reference: Sequence[float], times: Sequence[float]) -> list[float]:
    """Return reference time over time for each round: above 1 is faster than the reference."""
    return [ref / own for ref, own in zip(reference, times, strict=True)]


def input_sets(problem_bytes: int, cache_bytes: int) -> int:
    """Return how many sets of A, B and D to rotate among, so that none is found in the L2 cache.

    A problem larger than twice the cache needs one set only; 16 sets at most.
    """
    wanted = math.ceil(_CACHE_FACTOR * cache_bytes / max(problem_bytes, 1))
    return min(max(wanted, 1), _MOST_SETS)


def repetitions(microseconds: float, replay_ms: float, sets: int) -> int:
    """Return the launches of a graph that runs about ``replay_ms``: a multiple of ``sets``.

    Args:
        microseconds: time of one launch.
        replay_ms: wanted time of one replay.
        sets: sets of buffers; each is used equally often.
    """
    launches = min(replay_ms * 1000 / max(microseconds, 0.1), _MOST_LAUNCHES)
    return max(math.ceil(launches / sets), 1) * sets
