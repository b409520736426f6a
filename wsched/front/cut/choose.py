"""Which of the ways to cut a definition is predicted to take least."""

from __future__ import annotations

from dataclasses import dataclass, field

from lowering.ground.errors import ScheduleError, UnsupportedError
from wsched.front.cut.epilogues import Kernel, Take
from wsched.front.cut.predict import SegmentsCost, Sizes, segment_us
from wsched.front.cut.segments import Cut, Cutter, Segment
from wsched.front.cut.summaries import with_summaries

__all__ = ["Chosen", "choose"]

LEAVING = 0.02
"""A matmul is left to others only where that saves at least this part of its kernel's time: of two
ways that are predicted to be alike one hand keeps all."""

_ROUNDS = 2
"""Passes over the matmuls; a change for one may make another one pay."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A cut and what it is predicted to take."""

    cut: Cut
    cost: SegmentsCost

    @property
    def rank(self) -> tuple[float, float]:
        """The less the better."""
        return self.cost.us, self.cost.gpu_us

    def better_by(self, us: float, other: Chosen) -> bool:
        """Whether it takes less than another cut, by at least so many microseconds."""
        return self.rank < other.rank and self.cost.us <= other.cost.us - us


def choose(cutter: Cutter, call: Sizes, *, may_leave: bool) -> Chosen:
    """The best cut found: the best of those that treat all matmuls alike, then one by one.

    Args:
        cutter: of the definition.
        call: what is asked for.
        may_leave: whether a matmul that has a kernel may be left to others where that is
            predicted to be faster.

    Raises:
        UnsupportedError, ScheduleError: no cut can be run.
    """
    search = _Search(cutter, call, may_leave)
    count = len(cutter.matmuls)
    alike = [(t,) * count for t in (Take.ALL, Take.NARROW, Take.NONE, Take.SHARED)]
    tried = [(found, takes) for takes in alike if (found := search.price(takes)) is not None]
    if not tried:
        raise search.refusal
    best, takes = min(tried, key=lambda x: x[0].rank)
    for _ in range(_ROUNDS if count > 1 or may_leave else 0):
        before = takes
        for at in range(count):
            for take in Take if isinstance(best.cut.kernels[at], Kernel) else ():
                if take is takes[at] or (take is Take.LEFT and not may_leave):
                    continue
                other = (*takes[:at], take, *takes[at + 1 :])
                found = search.price(other)
                least = search.least_saving(best, at) if take is Take.LEFT else 0.0
                if found is not None and found.better_by(least, best):
                    best, takes = found, other
        if takes == before:
            break
    return best


@dataclass(slots=True)
class _Search:
    """Prices of cuts, each segment's found once."""

    cutter: Cutter
    call: Sizes
    may_leave: bool
    refusal: UnsupportedError | ScheduleError = field(
        default_factory=lambda: UnsupportedError("this definition", "others")
    )
    _prices: dict[Segment, SegmentsCost] = field(default_factory=dict)

    def price(self, takes: tuple[Take, ...]) -> Chosen | None:
        """A cut and its price, with summaries where they pay; None where it cannot be run."""
        try:
            whole = self.cutter.cut(takes)
            apart = with_summaries(self.cutter.graph, whole)
            found = [self._cost(cut) for cut in dict.fromkeys((whole, apart))]
        except (UnsupportedError, ScheduleError) as e:
            self.refusal = e.with_traceback(None)
            return None
        return min(found, key=lambda x: x.rank)

    def _cost(self, cut: Cut) -> Chosen:
        costs = [self._segment(s) for s in cut.segments]
        gpu, host = sum(c.gpu_us for c in costs), sum(c.host_us for c in costs)
        return Chosen(cut, SegmentsCost(gpu, host))

    def least_saving(self, chosen: Chosen, at: int) -> float:
        """Microseconds that leaving a matmul has to save."""
        distinct = dict.fromkeys(k for k in chosen.cut.kernels if isinstance(k, Kernel))
        segments = (s for s in chosen.cut.segments if s.matmul)
        own = next(
            s for k, s in zip(distinct, segments, strict=True) if k == chosen.cut.kernels[at]
        )
        return LEAVING * self._segment(own).us

    def _segment(self, segment: Segment) -> SegmentsCost:
        if segment not in self._prices:
            self._prices[segment] = segment_us(segment, self.call)
        return self._prices[segment]
