"""Which of the ways to cut a definition is predicted to take least."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import Var
from wsched.front.cut.commute import Moves
from wsched.front.cut.constants import with_kept
from wsched.front.cut.epilogues import Kernel, Take
from wsched.front.cut.hidden import hidden_us, statistics
from wsched.front.cut.joined import with_joins
from wsched.front.cut.predict import SegmentsCost, Sizes, matmuls_us, segment_us, together
from wsched.front.cut.segments import Cut, Cutter, Segment
from wsched.front.cut.summaries import with_summaries
from wsched.front.cut.swept import with_sweeps
from wsched.importer.input_error import InputError

__all__ = ["Chosen", "choose", "least", "translated"]

LEAVING = 0.02
"""A matmul is left to others only where that saves at least this part of its kernel's time: of two
ways that are predicted to be alike one hand keeps all."""

_ROUNDS = 2
"""Passes over the matmuls; a change for one may make another one pay."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A cut and what it is predicted to take.

    Args:
        cut: how.
        cost: of all segments.
        cutter: what is cut: the definition, or the same with products in parts, with what it puts
            together apart, with factors behind products, or with several of these.
        call: what was asked for, with that one's tensors.
        gpu_us: what the GPU may take; a cut that takes more is only better than those with more.
    """

    cut: Cut
    cost: SegmentsCost
    cutter: Cutter
    call: Sizes
    gpu_us: float = inf

    @property
    def plain(self) -> Cutter:
        """What is cut with all factors where the definition has them."""
        return self.cutter.plain or self.cutter

    @property
    def rank(self) -> tuple[float, float, float]:
        """The less the better."""
        return max(self.cost.gpu_us - self.gpu_us, 0.0), self.cost.us, self.cost.gpu_us

    def better_by(self, us: float, other: Chosen) -> bool:
        """Whether it takes less than another cut, by at least so many microseconds."""
        enough = self.cost.us <= other.cost.us - us or self.rank[0] < other.rank[0]
        return self.rank < other.rank and enough


def choose(cutter: Cutter, call: Sizes, *, may_leave: bool, gpu_us: float = inf) -> Chosen:
    """The best cut found, of the definition in each of its forms (:attr:`Cutter.forms`); of each
    with factors of operands behind products: those of one operand after the other, where each pays,
    or those of all.

    Args:
        cutter: of the definition.
        call: what is asked for.
        may_leave: whether a matmul that has a kernel may be left to others where that is
            predicted to be faster.
        gpu_us: what the GPU may take, if some cut takes no more.

    Raises:
        UnsupportedError: no cut can be run.
    """
    found, refused = list[Chosen](), list[UnsupportedError]()
    for form in cutter.forms:
        try:
            found.append(_best(form, translated(call, cutter, form), may_leave, gpu_us))
        except UnsupportedError as e:
            refused.append(e)
    if not found:
        raise refused[0]
    return min(found, key=lambda x: x.rank)


def _best(cutter: Cutter, call: Sizes, may_leave: bool, gpu_us: float) -> Chosen:
    """The best cut of one form; raises as :func:`choose`."""
    best, moves, taken = least(cutter, call, may_leave, gpu_us), cutter.moves, tuple[Moves, ...]()
    tried = taken
    for move in moves:
        tried = (*taken, move)
        found = _with_moved(cutter, tried, call, may_leave, gpu_us)
        if found is not None and found.rank < best.rank:
            best, taken = found, tried
    found = None if tried == moves else _with_moved(cutter, moves, call, may_leave, gpu_us)
    return best if found is None or best.rank <= found.rank else found


def _with_moved(
    cutter: Cutter, moves: tuple[Moves, ...], call: Sizes, may_leave: bool, gpu_us: float
) -> Chosen | None:
    """The best cut with these factors behind products; None where there is none."""
    try:
        other = cutter.with_moved(moves)
        return least(other, translated(call, cutter, other), may_leave, gpu_us)
    except UnsupportedError:
        return None


def translated(call: Sizes, cutter: Cutter, other: Cutter) -> Sizes:
    """The same call of another form of a definition, whose symbols may be other ones.

    Args:
        call: of the first form.
        cutter: of that.
        other: of the other form, with the same inputs.
    """
    if other is cutter:
        return call
    tensors, sizes = other.graph.types, dict[str, int]()
    for name in (n.results[0] for n in other.definition.inputs if n.results[0] in tensors):
        dims, shape = tensors[name].dims or (), cutter.graph.types[name].shape(call.sizes)
        pairs = zip(dims, shape, strict=True)
        sizes |= {d.extent.name: size for d, size in pairs if isinstance(d.extent, Var)}
    return replace(call, tensors=tensors, sizes=sizes)


def least(cutter: Cutter, call: Sizes, may_leave: bool, gpu_us: float = inf) -> Chosen:
    """The best of the cuts that treat all matmuls alike, then one by one; raises as ``choose``."""
    search = _Search(cutter, call, may_leave, gpu_us)
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
                saving = search.least_saving(best, at) if take is Take.LEFT else 0.0
                if found is not None and found.better_by(saving, best):
                    best, takes = found, other
        if takes == before:
            break
    return best


@dataclass
class _Search:
    """Prices of cuts, each segment's found once, and once what of a rest has kernels of its own."""

    cutter: Cutter
    call: Sizes
    may_leave: bool
    gpu_us: float = inf
    refusal: UnsupportedError = field(
        default_factory=lambda: UnsupportedError("this definition", "others")
    )
    _prices: dict[Segment, SegmentsCost] = field(default_factory=dict)
    _hidden: dict[tuple[Segment, Segment], float] = field(default_factory=dict)
    _swept: dict[Segment, tuple[Segment, ...]] = field(default_factory=dict)

    def price(self, takes: tuple[Take, ...]) -> Chosen | None:
        """A cut and its price, with summaries and sweeps where they pay; None where none runs."""
        try:
            best = self._least(self.cutter.cut(takes))
        except UnsupportedError as e:
            self.refusal = e.with_traceback(None)
            return None
        with suppress(UnsupportedError):
            if (beside := self.cutter.beside(takes)) is not None:
                best = min(best, self._least(beside), key=lambda x: x.rank)
        return best

    def _least(self, cut: Cut) -> Chosen:
        """The way to run the rests of a cut that takes least; raises where a segment cannot run."""
        graph, constants = self.cutter.graph, self.call.constants
        whole = self._joined(with_kept(graph, cut, constants, self.cutter.kept))
        apart = with_summaries(graph, whole, self.cutter.summed)
        ways = [with_sweeps(graph, c, self._swept, self._runs) for c in (apart, whole)]
        found = [self._cost(c) for c in dict.fromkeys((*ways, *self._tabled(cut), apart, whole))]
        return min(found, key=lambda x: x.rank)

    def _joined(self, cut: Cut) -> Cut:
        """The same with what kernels store together."""
        apart = self.cutter.apart
        return cut if apart is None else with_joins(self.cutter.graph, cut, apart.joined)

    def _tabled(self, cut: Cut) -> Iterator[Cut]:
        """The same with tables that are kept, where nothing is left for others in each call: what
        they run makes its tables on the way. Nobody has asked for that memory, so tables have no
        more bytes than what the definition reads and writes.
        """
        graph, constants = self.cutter.graph, self.call.constants
        kept = self._joined(with_kept(graph, cut, constants, self.cutter.kept, tables=True))
        tables = [n for s in kept.segments if s.kept and not s.inputs for n in s.outputs]
        given = [name for node in graph.definition.inputs for name in node.results]
        most = self.call.bytes([*given, *graph.definition.outputs])
        if tables and self.call.bytes(tables) <= most:
            swept = with_summaries(graph, kept, self.cutter.summed)
            swept = with_sweeps(graph, swept, self._swept, self._runs)
            if all(s.own or s.kept for s in swept.segments):
                yield swept

    def _cost(self, cut: Cut) -> Chosen:
        cost = together([self._segment(s) for s in cut.segments])
        hidden = sum(self._hidden_us(*pair) for pair in statistics(cut.segments))
        cost = replace(cost, gpu_us=cost.gpu_us - hidden)
        return Chosen(cut, cost, self.cutter, self.call, self.gpu_us)

    def _hidden_us(self, summary: Segment, product: Segment) -> float:
        pair = summary, product
        if pair not in self._hidden:
            costs = self._segment(summary), self._segment(product)
            self._hidden[pair] = hidden_us(*pair, self.call, costs)
        return self._hidden[pair]

    def least_saving(self, chosen: Chosen, at: int) -> float:
        """Microseconds that leaving a matmul has to save."""
        segments = (s for s in chosen.cut.segments if s.matmul)
        pairs = zip(chosen.cut.runs, segments, strict=True)
        own = next(s for k, s in pairs if k == chosen.cut.kernels[at])
        return LEAVING * self._segment(own).us

    @cached_property
    def _cublas(self) -> dict[str, float]:
        """What the matmuls take that are left to others although they have kernels."""
        if not self.may_leave:
            return {}
        try:
            bare = self.cutter.all(Take.NONE)
        except UnsupportedError:  # products with factors behind them, which no bare kernel has
            return {}
        return matmuls_us(bare.segments, self.call)

    def _runs(self, segment: Segment) -> bool:
        """Whether a kernel can be made of a segment in these sizes. Rows that are reduced beside
        results may be longer than theirs, which a sweep refuses.
        """
        try:
            self._segment(segment)
        except (InputError, UnsupportedError):
            return False
        return True

    def _segment(self, segment: Segment) -> SegmentsCost:
        if segment not in self._prices:
            self._prices[segment] = segment_us(segment, self.call, self._cublas)
        return self._prices[segment]
