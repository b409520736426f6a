"""As fast, slower, or too noisy to say: two sets of processes compared by their own spread.

Rounds of one process share its clocks, its memory and its luck, so that processes, not rounds, are
what is drawn again (bootstrap over whole processes, both sides). A problem's interval holds for all
of them at once: its half width is that many standard errors that 95 % of the draws have no problem
further off. With few processes one of many problems repeats itself by chance; no standard error is
taken for less than the median over problems.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, exp, fsum, log, sqrt
from statistics import fmean, median, pstdev

from lowering.ground.errors import UnsupportedError

__all__ = ["EACH", "FEWEST", "MEAN", "Change", "Limits", "Verdict", "judged"]

FEWEST = 2
"""Processes of each side: one has no spread."""

_DRAWS, _CONFIDENCE, _RESOLUTION = 2000, 0.95, 1e-4

MEAN, EACH = 0.01, 0.04
"""What may be lost unless something else is said."""

Ratios = Mapping[str, Sequence[float]]
"""Of each problem cuBLAS's time over wsched's, a number for each process."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What may be lost.

    Args:
        mean: of the geometric mean over all problems, as a share of it.
        each: of a single problem.
    """

    mean: float = MEAN
    each: float = EACH


@dataclass(frozen=True, slots=True)
class Change:
    """Ratio to cuBLAS now over that of the baseline, 1 for no change.

    Args:
        now: what it is estimated at.
        low: lower end of its interval.
        high: upper end.
    """

    now: float
    low: float
    high: float

    @staticmethod
    def of(center: float, half: float) -> Change:
        """From logarithms."""
        return Change(exp(center), exp(center - half), exp(center + half))

    def outcome(self, lost: float) -> str:
        """``slower`` if surely more than ``lost`` is lost, ``as fast``
        if surely not, else ``unsure``.
        """
        if self.high < 1 - lost:
            return "slower"
        return "as fast" if self.low >= 1 - lost else "unsure"

    def __str__(self) -> str:
        return f"{self.now:.3f} ({self.low:.3f} to {self.high:.3f})"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of the comparison.

    Args:
        mean: of the geometric mean.
        each: of each problem.
        limits: what may be lost.
        processes: of this side.
    """

    mean: Change
    each: Mapping[str, Change]
    limits: Limits
    processes: int

    @property
    def outcome(self) -> str:
        """``slower`` if anything is, ``as fast`` if all is, else ``unsure``."""
        found = {self.mean.outcome(self.limits.mean)}
        found |= {c.outcome(self.limits.each) for c in self.each.values()}
        return next(o for o in ("slower", "unsure", "as fast") if o in found)

    @property
    def slower(self) -> tuple[str, ...]:
        """The problems that are."""
        limit = self.limits.each
        return tuple(p for p, c in self.each.items() if c.outcome(limit) == "slower")

    @property
    def more(self) -> int:
        """How many processes more might settle what is unsure, if the spread stays: the half width
        falls with the root of their number, and has to fit between the estimate and the limit.
        """
        most = 0
        unsure = [(self.mean, self.limits.mean)]
        unsure += [(c, self.limits.each) for c in self.each.values()]
        for change, lost in unsure:
            if change.outcome(lost) == "unsure":
                room = max(abs(log(change.now / (1 - lost))), _RESOLUTION)
                wider = log(change.high / change.now) / room
                most = max(most, ceil(self.processes * wider**2))
        return max(most - self.processes, 0)


def judged(before: Ratios, now: Ratios, limits: Limits, seed: int = 0) -> Verdict:
    """Compare the problems that both sides have.

    Args:
        before: the baseline's ratios.
        now: those of this run; each side has one number of processes.
        limits: what may be lost.
        seed: of the draws.

    Raises:
        UnsupportedError: no problem in common, or fewer than :data:`FEWEST` processes.
    """
    names = [p for p in now if p in before]
    if not names:
        raise UnsupportedError("a baseline without a problem of this run", "the same problems")
    sides = [[[log(r) for r in side[p]] for p in names] for side in (before, now)]
    counts = [len(side[0]) for side in sides]
    if min(counts) < FEWEST:
        raise UnsupportedError(
            f"{counts[1]} processes beside {counts[0]} of the baseline", f"at least {FEWEST} each"
        )
    center = [fmean(b) - fmean(a) for a, b in zip(*sides, strict=True)]
    draws = _draws(sides, counts, random.Random(seed))
    half = _together(center, draws)
    means = sorted(abs(fmean(d) - fmean(center)) for d in draws)
    mean = Change.of(fmean(center), means[ceil(_CONFIDENCE * _DRAWS) - 1])
    each = {p: Change.of(c, h) for p, c, h in zip(names, center, half, strict=True)}
    return Verdict(mean, each, limits, counts[1])


def _draws(
    sides: Sequence[Sequence[Sequence[float]]], counts: Sequence[int], draw: random.Random
) -> list[list[float]]:
    """Changes of all problems as other processes might have given them.

    Drawn processes spread less than processes do, by ``sqrt((n - 1) / n)``; that is made good.
    """
    wider = [sqrt(n / (n - 1)) for n in counts]
    means = [[fmean(p) for p in side] for side in sides]
    found = []
    for _ in range(_DRAWS):
        drawn = [draw.choices(range(n), k=n) for n in counts]
        off = [
            [w * (fsum([p[i] for i in at]) / len(at) - m) for p, m in zip(side, mean, strict=True)]
            for side, mean, at, w in zip(sides, means, drawn, wider, strict=True)
        ]
        found.append(
            [
                m1 + o1 - m0 - o0
                for m0, o0, m1, o1 in zip(means[0], off[0], means[1], off[1], strict=True)
            ]
        )
    return found


def _together(center: Sequence[float], draws: Sequence[Sequence[float]]) -> list[float]:
    """Half widths of intervals that hold for all problems at once."""
    errors = [pstdev([d[i] for d in draws], c) for i, c in enumerate(center)]
    least = max(median(errors), _RESOLUTION)
    errors = [max(e, least) for e in errors]
    furthest = sorted(
        max(abs(x - c) / e for x, c, e in zip(d, center, errors, strict=True)) for d in draws
    )
    factor = furthest[ceil(_CONFIDENCE * _DRAWS) - 1]
    return [max(factor * e, _RESOLUTION) for e in errors]
