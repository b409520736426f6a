"""Order of the rounds and the statistics of their times; pure functions on numbers."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

__all__ = ["Spread", "geometric_mean", "in_turns", "input_sets", "orders", "paired_ratios",
           "ratios_text", "repetitions"]  # fmt: skip

# A set of buffers counts as out of the cache when twice the cache was touched since its last use.
_CACHE_FACTOR = 2
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


def orders(names: Sequence[str], rounds: int, seed: str) -> list[list[str]]:
    """Return a random permutation of ``names`` for each round, the same for the same seed.

    A rotation would give every system every place, but always the same one in front of it, whose
    heat and cache contents it would inherit each time.
    """
    draw = random.Random(seed)
    return [draw.sample(names, len(names)) for _ in range(rounds)]


T = TypeVar("T")


def in_turns(
    names: Sequence[str], rounds: int, seed: str, timed: Callable[[str], T], before: int = 0
) -> dict[str, list[T]]:
    """Return what is timed of each name in each round, in the orders that :func:`orders` draws.

    Args:
        names: of what takes turns.
        rounds: that count.
        seed: of the orders.
        timed: runs what has a name.
        before: rounds in front of those that count.
    """
    seen: dict[str, list[T]] = {name: [] for name in names}
    for number, order in enumerate(orders(names, before + rounds, seed)):
        for name in order:
            found = timed(name)
            if number >= before:
                seen[name].append(found)
    return seen


def paired_ratios(reference: Sequence[float], times: Sequence[float]) -> list[float]:
    """Return reference time over time for each round: above 1 is faster than the reference."""
    return [ref / own for ref, own in zip(reference, times, strict=True)]


def ratios_text(ratios: Sequence[float], limit: float) -> str:
    """What ratios, one or more, come to, with how many are below a limit."""
    below = sum(r < limit for r in ratios)
    return (
        f"geometric mean {geometric_mean(ratios):.3f}, least {min(ratios):.3f}, {below} below "
        f"{limit:g}"
    )


def input_sets(problem_bytes: int, cache_bytes: int) -> int:
    """Return how many sets of A, B and D to rotate among, so that none is found in the L2 cache.

    Between two visits of a set the others are touched, twice the cache in all; so there are two
    sets even of a problem larger than the cache, an operand of which may be small. A set for each
    launch of the longest graph is the limit; with an L2 of 60 MiB problems below 30 KiB reach it.
    """
    others = math.ceil(_CACHE_FACTOR * cache_bytes / max(problem_bytes, 1))
    return min(1 + others, _MOST_LAUNCHES)


def repetitions(microseconds: float, replay_ms: float, sets: int) -> int:
    """Return the launches of a graph that runs about ``replay_ms``: a multiple of ``sets``.

    Args:
        microseconds: time of one launch.
        replay_ms: wanted time of one replay.
        sets: sets of buffers; each is used equally often.
    """
    launches = min(replay_ms * 1000 / max(microseconds, 0.1), _MOST_LAUNCHES)
    return max(math.ceil(launches / sets), 1) * sets
