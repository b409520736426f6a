"""What is made of tensors element by element and row by row: no product of matrices.

Casts, activations, residuals, biases, masks, copies into another order of memory: all walk once
over an index space, read each tensor along some of its dimensions in whatever order it lies, and
write results that have all of them. So there is nothing to schedule but the walk. A norm or a
softmax has values of whole rows on the way, which the threads that have a row find together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from wsched.fusion.types import DataType

__all__ = ["ROW_REDUCTIONS", "Place", "Sweep", "Term"]

ROW_REDUCTIONS = ("sum", "max", "min", "mean")
"""Of fp32, over a row."""


@dataclass(frozen=True, slots=True)
class Term:
    """One value at each point of the index space.

    Args:
        name: a C identifier, each only once.
        op: ``input``, ``cast``, a key of ``lowering.kernel.pointwise.OPS``, one of
            :data:`ROW_REDUCTIONS`, or ``random``: of two single inputs of Int, seed and offset, the
            uniform numbers of nvFuser's by the element's place in the index space, row by row; or
            ``index_select``: of a table and an index, the table's rows that the index says; or
            ``first``: of Bool, whether the place is 0 along the only dimension of ``dims``, which
            is of size 2.
        dtype: its type. Arithmetic is fp32, and rounded to it.
        inputs: names of terms in front of it, and numbers.
        dims: the dimensions along which it differs.
    """

    name: str
    op: str
    dtype: DataType
    inputs: tuple[str | float, ...]
    dims: frozenset[int]


@dataclass(frozen=True, slots=True)
class Place:
    """A tensor in memory that a term is read from or written to.

    Args:
        term: its name.
        dims: for each dimension of the tensor that of the index space which it is, None of size 1.
        order: the tensor's dimensions as they lie in memory, outermost first; of an input any.
        table: whether it is an input whose rows an index says: it has any number of them in place
            of ``Sweep.by_index``, and only ``index_select`` reads it.
    """

    term: str
    dims: tuple[int | None, ...]
    order: tuple[int, ...] = ()
    table: bool = False

    def shape(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Sizes, from those of the index space."""
        return tuple(1 if d is None else sizes[d] for d in self.dims)


@dataclass(frozen=True, slots=True)
class Sweep:
    """Pointwise operations over an index space.

    Args:
        rank: of the index space.
        terms: in an order in which they can be computed.
        inputs: in the order of the caller; a dimension that none of them has is of size 1.
        results: one or more, which have all other dimensions.
        over: the dimensions of rows, which reductions are over; none without them.
        by_index: the dimension whose places an index looks up in tables; None without any. A place
            that a table does not have, such as a negative one, reads zeros.
        repeated: dimensions of the results along which nothing differs, with their sizes.
    """

    rank: int
    terms: tuple[Term, ...]
    inputs: tuple[Place, ...]
    results: tuple[Place, ...]
    over: frozenset[int] = frozenset()
    by_index: int | None = None
    repeated: tuple[tuple[int, int], ...] = ()

    @property
    def is_random(self) -> bool:
        """Whether it draws numbers."""
        return any(t.op == "random" for t in self.terms)

    def row(self, sizes: Sequence[int]) -> int:
        """Elements of a row; 0 where nothing is reduced."""
        return prod(sizes[d] for d in self.over) if self.over else 0

    def term(self, name: str) -> Term:
        """The term of that name."""
        return next(t for t in self.terms if t.name == name)

    def sizes(self, shapes: Sequence[Sequence[int]]) -> tuple[int, ...]:
        """Of the index space, from the shapes of the inputs, () of a number.

        Raises:
            ValueError: two inputs differ along a dimension, or one has more elements along one that
                nothing differs along, which somebody squeezes say.
        """
        found = dict(self.repeated)
        found |= {d: 2 for t in self.terms if t.op == "first" for d in t.dims}
        for place, shape in zip(self.inputs, shapes, strict=True):
            for d, size in zip(place.dims, shape, strict=bool(shape)):
                if place.table and d == self.by_index:
                    continue
                if d is None and size != 1:
                    raise ValueError(f"{size} elements along a dimension that is read as one")
                if d is not None and found.setdefault(d, size) != size:
                    raise ValueError(f"{size} and {found[d]} elements along dimension {d}")
        return tuple(found.get(d, 1) for d in range(self.rank))

    def merged(self, runs: Sequence[Sequence[int]]) -> Sweep:
        """The same over an index space whose dimensions are runs of this one's, each taken as one.

        Every term differs along all of a run or none of it; tensors have the new dimensions in
        their order, so ``Place.order`` is that of the index space.

        Args:
            runs: of all dimensions but those of size 1, each once.
        """
        of = {d: at for at, run in enumerate(runs) for d in run}
        return self._over(len(runs), lambda dims: frozenset(of[d] for d in dims if d in of))

    def repeating(self, sizes: Mapping[int, int]) -> Sweep:
        """The same with results that repeat along dimensions which none of them has.

        Args:
            sizes: of the dimensions.
        """

        def place(p: Place) -> Place:
            return replace(p, dims=tuple(d if d in sizes else x for d, x in enumerate(p.dims)))

        return replace(
            self, results=tuple(map(place, self.results)), repeated=tuple(sorted(sizes.items()))
        )

    def folded(self) -> Sweep:
        """The same over two dimensions in place of one."""
        return self._over(
            2, lambda dims: frozenset((0, 1)) if any(True for _ in dims) else frozenset()
        )

    def _over(self, rank: int, of: Callable[[Iterable[int]], frozenset[int]]) -> Sweep:
        """The same over another index space, whose dimensions ``of`` tells."""

        def place(p: Place) -> Place:
            has = of(d for d in p.dims if d is not None)
            dims = tuple(d if d in has else None for d in range(rank))
            return replace(p, dims=dims, order=tuple(range(rank)))

        terms = tuple(replace(t, dims=of(t.dims)) for t in self.terms)
        reads, writes = (tuple(map(place, x)) for x in (self.inputs, self.results))
        by_index = next(iter(of(() if self.by_index is None else (self.by_index,))), None)
        return Sweep(rank, terms, reads, writes, of(self.over), by_index)

    def bytes(self, sizes: Sequence[int]) -> int:
        """What is read and written, each tensor once, a table as often as it is looked up in."""
        return sum(self._bytes(p, sizes) * self.reads(p) for p in self.places())

    def reads(self, place: Place) -> int:
        """How often what has the sizes of the index space is read or written: once, of a table once
        for each index.
        """
        looked = [t for t in self.terms if t.op == "index_select" and place.term in t.inputs]
        return len(looked) if place.table else 1

    def places(self) -> Iterator[Place]:
        """The inputs, then the results."""
        yield from self.inputs
        yield from self.results

    def _bytes(self, place: Place, sizes: Sequence[int]) -> int:
        total = self.term(place.term).dtype.bytes
        for size in place.shape(sizes):
            total *= size
        return total
