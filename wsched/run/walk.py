"""How a sweep walks over tensors as they lie: which dimensions are one, rows, and columns.

Dimensions that run on into each other in every tensor are taken as one. The last of them are the
columns; a tensor that is contiguous along another one has that for its rows, and is read turned.
Where tables are looked up, the dimension of the index is the rows, by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from math import gcd, prod
from typing import TYPE_CHECKING

from lowering.ground.dtypes import DType
from lowering.ground.layouts import RegisterLayout
from lowering.kernel.tensors import WIDEST_ACCESS
from lowering.sweep.kernel import Access, place_of, rows_of, size_of
from lowering.sweep.tile import SPAN
from wsched.fusion.sweep import Place, Sweep

if TYPE_CHECKING:
    import torch

__all__ = ["Lies", "Walk", "by_rows", "lies_of", "walk_of"]

Run = tuple[int, ...]
"""Dimensions of an index space that are taken as one."""

_WARP = 32
"""Lanes, which can have a row's columns side by side."""


@dataclass(frozen=True, slots=True)
class Lies:
    """Where a tensor's elements are.

    Args:
        strides: in elements, along each dimension of the index space that it has.
        bytes: of an element.
        address: of the first one.
        rows: of a table.
    """

    strides: Mapping[int, int]
    bytes: int
    address: int
    rows: int = 0


@dataclass(frozen=True, slots=True)
class Walk:
    """A walk over an index space.

    Args:
        sweep: over as many dimensions as are left, two or more, rows and columns last.
        sizes: of them.
        accesses: how each tensor lies, the inputs first.
        strides: of each tensor, along the dimensions of ``sweep``, in elements.
        places: how far neighbours along these dimensions are apart in the index space as it was.
        rows: of each table, by the term that is read from it.
    """

    sweep: Sweep
    sizes: tuple[int, ...]
    accesses: tuple[Access, ...]
    strides: tuple[tuple[int, ...], ...]
    places: tuple[int, ...] = ()
    rows: Mapping[str, int] = field(default_factory=dict)

    @property
    def extents(self) -> dict[str, int]:
        """Parameters of its kernel."""
        found = {str(size_of(d)): size for d, size in enumerate(self.sizes)}
        found |= {str(rows_of(term)): count for term, count in self.rows.items()}
        if self.sweep.is_random:
            found |= {str(place_of(d)): step for d, step in enumerate(self.places)}
        return found

    @property
    def span(self) -> int:
        """Neighbouring columns that a thread has: all that it can access at once of every matrix,
        so that a warp's accesses lie side by side however narrow they are; and that it can write
        at once of every result: what two stores leave of a sector is written twice, while
        what two loads read of one is in the L1.
        """
        widest = max(self.sweep.term(p.term).dtype.bytes for p in self.sweep.results)
        found = min(SPAN, WIDEST_ACCESS // widest)
        for _, access, size in self._matrices():
            if access.align < WIDEST_ACCESS:
                found = min(found, access.align // size)
        return found

    @property
    def loads(self) -> int:
        """Matrices that are loaded, a table as often as it is looked up in."""
        whole = {self.sweep.rank - 2, self.sweep.rank - 1}
        return sum(self.sweep.reads(p) for p in self.sweep.inputs if whole <= {*p.dims})

    @property
    def again(self) -> bool:
        """Whether rows of a table are looked up more than once, since it has fewer."""
        return any(rows < self.sizes[-2] for rows in self.rows.values())

    def _matrices(self) -> Iterator[tuple[Place, Access, int]]:
        """What differs along the columns and another dimension and is not turned; bytes of an
        element.
        """
        for place, how in zip(self.sweep.places(), self.accesses, strict=True):
            *outer, last = place.dims
            if not how.turned and last is not None and any(d is not None for d in outer):
                yield place, how, self.sweep.term(place.term).dtype.bytes

    def accessed(self) -> Iterator[tuple[int, int, bool]]:
        """For each tensor its bytes, those of an access by a warp's 32 lanes, and whether these lie
        apart; of a table those that memory moves, which are no more than it has.
        """
        if 0 in self.sizes:
            return
        for place, how in zip(self.sweep.places(), self.accesses, strict=True):
            size = self.sweep.term(place.term).dtype.bytes
            wide = size if how.turned else min(max(how.align, size), self.span * size)
            yield size * self._elements(place), _WARP * wide, how.turned

    def _elements(self, place: Place) -> int:
        """Elements that are read or written, each once."""
        sizes, by_index = list(self.sizes), self.sweep.by_index
        if place.table and by_index is not None:
            looked = sizes[by_index] * self.sweep.reads(place)
            sizes[by_index] = min(self.rows[place.term], looked)
        return prod(place.shape(sizes))

    def views(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Each tensor as a kernel takes it."""
        found, places = [], self.sweep.places()
        for t, place, steps, how in zip(tensors, places, self.strides, self.accesses, strict=True):
            shape = list(place.shape(self.sizes))
            pitches = list(steps)
            if place.table and self.sweep.by_index is not None:
                shape[self.sweep.by_index] = self.rows[place.term]
            if how.turned:
                shape[-2:], pitches[-2:] = shape[:-3:-1], pitches[:-3:-1]
            if _in_words(place, t.element_size()):
                found.append(_lower_words(t, shape, pitches))
            else:
                found.append(t.as_strided(shape, pitches, t.storage_offset()))
        return found


_SHARED = 32
"""Rows for which a tile reads once what all of them share: 128 threads have as many of 64 columns.
Queries with rotary embeddings by tokens read the tables of sines for each head again, 384 MB of the
L2 in 84 us at 8192 tokens (H200, 2026-11-29)."""

_WORDS = 2
"""Words of an index of 64 bits, the lower one first, which is what is read of it: tables have fewer
rows than 2**31."""


def _in_words(place: Place, size: int) -> bool:
    """Whether a tensor of elements of so many bytes is an index, of which the lower words are
    read.
    """
    return any(d is not None for d in place.dims) and size == _WORDS * DType.S32.bytes


def _lower_words(index: torch.Tensor, shape: list[int], strides: list[int]) -> torch.Tensor:
    """The lower words of an index of 64 bits, in strides of words."""
    import torch

    words = torch.empty(0, dtype=torch.int32, device=index.device)
    first = _WORDS * index.storage_offset()
    return words.set_(index.untyped_storage(), first, shape, strides)


def lies_of(place: Place, tensor: torch.Tensor, by_index: int | None = None) -> Lies:
    """Where a tensor of a sweep lies.

    Args:
        place: of the sweep.
        tensor: that is read or written there.
        by_index: of the sweep.
    """
    pairs = zip(place.dims, tensor.stride(), strict=True)
    size, words = tensor.element_size(), 1
    if _in_words(place, size):
        size, words = DType.S32.bytes, _WORDS
    strides = {d: step * words for d, step in pairs if d is not None}
    rows = tensor.shape[place.dims.index(by_index)] if place.table else 0
    return Lies(strides, size, tensor.data_ptr(), rows)


def by_rows(sweep: Sweep, sizes: Sequence[int]) -> Walk | None:
    """The walk over tensors that lie row by row, results in their order; None as of
    :func:`walk_of`.
    """
    lies = []
    for place in sweep.places():
        step, strides = 1, dict[int, int]()
        dims = [place.dims[at] for at in place.order or range(len(place.dims))]
        for d in reversed(dims):
            if d is not None:
                strides[d] = step
                step *= sizes[d]
        rows = sizes[sweep.by_index] if place.table and sweep.by_index is not None else 0
        lies.append(Lies(strides, sweep.term(place.term).dtype.bytes, 0, rows))
    return walk_of(sweep, sizes, lies)


def walk_of(sweep: Sweep, sizes: Sequence[int], lies: Sequence[Lies]) -> Walk | None:
    """The walk; None where no order of dimensions has every tensor contiguous along one of the last
    two, where rows that are reduced are not the last in memory, or where an index is along the
    columns.

    Args:
        sweep: what is computed.
        sizes: of the index space, none of them 0.
        lies: for each input, then for each result.
    """
    alone = sweep.by_index
    dims = sweep.results[0].order
    order = [d for d in dims if sizes[d] > 1 or d == alone]
    if order == [alone]:  # one column is still not the rows that an index says
        order += [d for d in dims if d != alone][-1:]
    reduced = [d for d in order if d in sweep.over]
    if reduced != order[len(order) - len(reduced) :] or (sweep.over and not reduced):
        return None
    if not order:
        one = sweep.merged(()).folded()
        walk = _walk(one, (1, 1), ((0, 0),) * len(lies), lies, [False] * len(lies))
        return replace(walk, places=(1, 1))
    halves = [{*t.dims} for t in sweep.terms if t.op == "first"]
    runs = _runs(order, sizes, lies, [{*sweep.over}, {alone}, *halves])
    if (reduced and set(runs[-1]) != set(reduced)) or runs[-1] == (alone,):
        return None
    counts = {run: prod(sizes[d] for d in run) for run in runs}
    if len(runs) == 1:
        return _flat(sweep, counts[runs[0]], sizes, lies, runs[0])
    *others, columns = runs
    last = columns[-1]
    turned = [sizes[last] > 1 and x.strides.get(last, 1) != 1 for x in lies]
    along = {_unit(x, others) for x, turn in zip(lies, turned, strict=True) if turn}
    if alone is not None:
        if along - {(alone,)} or _turns_tables(sweep, turned):
            return None
        along = {(alone,)}
    if None in along or len(along) > 1:
        return None
    rows = along.pop() if along else _rows(others, columns, counts, lies)
    assert rows is not None
    ordered = [*(r for r in others if r != rows), rows, columns]
    merged = sweep.merged(ordered)
    strides = tuple(tuple(x.strides.get(run[-1], 0) for run in ordered) for x in lies)
    walk = _walk(merged, tuple(counts[r] for r in ordered), strides, lies, turned)
    return replace(walk, places=tuple(prod(sizes[run[-1] + 1 :]) for run in ordered))


def _rows(
    others: Sequence[Run], columns: Run, counts: Mapping[Run, int], lies: Sequence[Lies]
) -> Run:
    """The run that a tile has rows of: where it has enough of them, the one that most tensors lack
    which have the columns, since a tile then reads these once; of several the longest.
    """

    def spared(run: Run) -> int:
        lacking = (x for x in lies if run[-1] not in x.strides and columns[-1] in x.strides)
        return sum(1 for _ in lacking) if counts[run] >= _SHARED else 0

    return max(others, key=lambda run: (spared(run), counts[run]))


def _turns_tables(sweep: Sweep, turned: Sequence[bool]) -> bool:
    """Whether a table would be read turned, which is one element at a time in rows of its own."""
    return any(p.table and turn for p, turn in zip(sweep.places(), turned, strict=True))


def _runs(
    order: Sequence[int], sizes: Sequence[int], lies: Sequence[Lies],
    apart: Sequence[Set[int | None]],
) -> list[Run]:  # fmt: skip
    """Dimensions, the outermost in memory first, that run on into each other in every tensor; of
    some sets ``apart`` each with its like alone: of rows that are reduced, of an index, of what
    depends on the place.
    """
    found: list[Run] = []
    for d in order:
        alike = bool(found) and all((found[-1][-1] in some) == (d in some) for some in apart)
        if alike and all(_runs_on(x.strides, found[-1][-1], d, sizes[d]) for x in lies):
            found[-1] = (*found[-1], d)
        else:
            found.append((d,))
    return found


def _runs_on(strides: Mapping[int, int], outer: int, inner: int, size: int) -> bool:
    """Whether a tensor has both dimensions as one, or neither."""
    if outer in strides and inner in strides:
        return strides[outer] == size * strides[inner]
    return outer not in strides and inner not in strides


def _unit(lies: Lies, runs: Sequence[Run]) -> Run | None:
    """The run along which a tensor is contiguous."""
    return next((run for run in runs if lies.strides.get(run[-1]) == 1), None)


def _flat(
    sweep: Sweep, count: int, sizes: Sequence[int], lies: Sequence[Lies], run: Run
) -> Walk | None:
    """What is one run: rows of as many columns as a thread accesses at once."""
    has = [run[-1] in x.strides for x in lies]
    if any(x.strides[run[-1]] != 1 for x, there in zip(lies, has, strict=True) if there):
        return None
    columns = count if sweep.over else _columns(count, sizes[run[-1]], lies)
    strides = tuple((columns, 1) if there else (0, 0) for there in has)
    both = sweep.merged([run]).folded()
    if sweep.over:
        both = replace(both, over=frozenset((1,)))
    walk = _walk(both, (count // columns, columns), strides, lies, [False] * len(lies))
    return replace(walk, places=(columns, 1))


def _columns(count: int, last: int, lies: Sequence[Lies]) -> int:
    """Columns of a run: what a thread accesses at once, so that neighbours are lanes'. Where that
    is less than it could be, the last dimension's, if it fills a warp and there are rows for all of
    a CTA: what is in a row takes no arithmetic to find.
    """
    together = gcd(SPAN, count, *(x.address // x.bytes for x in lies))
    rows = RegisterLayout(together, _WARP).rows
    fills = last >= _WARP and count // last >= rows
    return last if together < SPAN and fills else together


def _walk(
    sweep: Sweep,
    sizes: tuple[int, ...],
    strides: tuple[tuple[int, ...], ...],
    lies: Sequence[Lies],
    turned: Sequence[bool],
) -> Walk:
    accesses = []
    for place, steps, x, turn in zip(sweep.places(), strides, lies, turned, strict=True):
        if turn or place.dims[-1] is None:
            accesses.append(Access(x.bytes, turn))
            continue
        pairs = zip(steps[:-1], place.dims, strict=False)
        apart = (step for step, d in pairs if d is not None and (sizes[d] > 1 or place.table))
        align = gcd(WIDEST_ACCESS, x.address, *(x.bytes * n for n in (*apart, sizes[-1])))
        accesses.append(Access(align))
    places = zip(sweep.places(), lies, strict=True)
    rows = {place.term: x.rows for place, x in places if place.table}
    return Walk(sweep, sizes, tuple(accesses), strides, rows=rows)
