"""What is in stages, registers and slots of a grid on its way, and whether it belongs where it is
stored.

A sum of products that is stored at row ``m`` and column ``n`` of a result has to be of the rows
``m`` and ``n`` of its operands, over all that they have of K, each slice once; whatever else it is
computed with lies at ``m`` and ``n`` too. That is so in the matrix, or the group, that the result
is in. Where a result has a dimension of a number, its elements along that may be parts of such a
sum: each slice is in one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from lowering.ground.expr import Binary, Const, Expr, Var, evaluate
from lowering.ground.frozen import quick
from lowering.kernel.kernel import GlobalTensor, Kernel, TensorMap
from lowering.kernel.memory import PrefetchTensorMap, TmaPrefetch
from lowering.kernel.operands import GmemRef, MapRef
from lowering.kernel.tensors import ENTRY
from lowering.kernel.visit import operands, walk
from lowering.proof.ends import tables_of
from lowering.proof.reductions import Reductions, limits
from lowering.proof.tile import Along, Piece, Read, Term, Terms, Tile

__all__ = ["Flow", "Result", "unused"]

Key = tuple[int, str, int]
"""A CTA, a buffer and a stage of it."""

Product = tuple[Terms, Terms, int]

Slices = tuple[tuple[int, int], ...]
"""Of what a sum is over, each from where to where."""

Memory = Callable[[str, Sequence[int]], int]
"""What a plain tensor holds, by entry and coordinates."""


@quick
@dataclass(frozen=True, slots=True)
class Result:
    """Where in a tensor a tile is stored.

    Args:
        tensor: its name; ``entry`` says which one of an array, or is None.
        outer: coordinates in front of the last two.
        row: the one of the tile's first row, None where an index says it; ``col`` of its first
            column.
    """

    tensor: str
    entry: int | None
    outer: tuple[int, ...]
    row: int | None
    col: int

    def __str__(self) -> str:
        entry = "" if self.entry is None else f"[{self.entry}]"
        at = *self.outer, "?" if self.row is None else self.row, self.col
        return f"{self.tensor}{entry}[{', '.join(map(str, at))}]"


@dataclass
class Flow:
    """The data of a grid.

    Args:
        tensors: in global memory.
        params: values of the parameters.
        memory: what the tables hold that say where groups of rows end.
        tables: their names.
        limits: fragments that say what lies in front of an end, and nothing of data.
        reductions: what decides about those that there are.
        stages: what is in shared and in tensor memory; ``slots`` in workspaces.
        sums: of each result the operands whose products it is of.
        ends: up to where parameters were gone through, in sums and in results.
        products: of two operands, along so much of K, what they are of, and what is wrong.
        parts: of each place of a result, but for its coordinate among parts, the slices that each
            part sums, by what they are of.
        wrong: what is stored and does not belong there.
    """

    tensors: Mapping[str, TensorMap | GlobalTensor]
    params: Mapping[str, int]
    memory: Memory
    tables: frozenset[str]
    limits: frozenset[str]
    reductions: Reductions
    stages: dict[Key, Tile] = field(default_factory=dict)
    slots: dict[tuple[str, int], Tile] = field(default_factory=dict)
    sums: dict[str, frozenset[frozenset[str]]] = field(default_factory=dict)
    products: dict[Product, tuple[Terms, tuple[str, ...]]] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    parts: dict[tuple[Result, int], dict[Term, list[Slices]]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    _sizes: dict[tuple[str, int], tuple[int, ...]] = field(default_factory=dict)
    _partial: dict[tuple[Term, tuple[int, int] | None], tuple[str, ...]] = field(
        default_factory=dict
    )

    @staticmethod
    def of(kernel: Kernel, params: Mapping[str, int], memory: Memory) -> Flow:
        """Of a grid of a kernel, before anything has moved."""
        tensors: dict[str, TensorMap | GlobalTensor] = {m.name: m for m in kernel.tensor_maps}
        tensors |= {t.name: t for t in kernel.globals}
        tables = frozenset(t.name for t in tables_of(kernel))
        return Flow(tensors, params, memory, tables, limits(kernel), Reductions.of(kernel))

    def sizes(self, name: str, entry: int) -> tuple[int, ...]:
        """The extents of a tensor, or of one of an array of them."""
        if (name, entry) not in self._sizes:
            known = {**self.params, ENTRY.name: entry}
            self._sizes[name, entry] = tuple(evaluate(e, known) for e in self.dims(name))
        return self._sizes[name, entry]

    def dims(self, name: str) -> tuple[Expr, ...]:
        """The extents of a tensor as they are written."""
        tensor = self.tensors[name]
        return tensor.behind if isinstance(tensor, TensorMap) else tensor.sizes

    def reach(self, extent: Expr, end: int) -> None:
        """Note up to where a dimension of a tensor was gone through, if it is a parameter."""
        match extent:
            case Var(param):
                self.ends[param] = max(self.ends.get(param, 0), end)

    def array(self, name: str) -> bool:
        """Whether there are several tensors of that name."""
        return self.tensors[name].count is not None

    def span_of(self, name: str, group: int) -> tuple[int, int] | None:
        """From where to where a group goes that a tensor has a matrix for, as a table in memory
        says; None if there is none of as many groups.
        """
        groups = self.tensors[name].sizes[:1]
        for table in self.tables:
            if self.tensors[table].sizes == groups:
                begin = self.memory(table, (0, group - 1)) if group else 0
                return begin, self.memory(table, (0, group))
        return None

    def store(self, at: Result, tile: Tile, several: bool = False) -> None:
        """Note what is wrong with a tile that is stored, of which all lies in the tensor; with
        ``several`` others add to the same elements.
        """
        if self.wrong:
            return
        if tile.known < tile.rows * tile.cols:
            self.wrong.append(f"{at} gets what nobody has loaded or computed")
        for piece in tile.pieces:
            found = [why for t in piece.terms for why in self.misplaced(at, t, piece)]
            if not found and not several and not self.in_parts(at, piece):
                found += (why for t in piece.terms for why in self.partial(t, at))
            if found:
                self.wrong.append(f"{at} gets {min(found)}")
                return
            self.like_others(at, piece.terms)

    def in_parts(self, at: Result, piece: Piece) -> bool:
        """Whether a result may be in parts; then what a piece sums is kept for :meth:`apart`."""
        extents = self.dims(at.tensor)[: len(at.outer)]
        among = [d for d, e in enumerate(extents) if isinstance(e, Const) and e.value > 1]
        if len(among) != 1 or at.row is None:
            return False
        outer = tuple(0 if d in among else x for d, x in enumerate(at.outer))
        where = Result(at.tensor, at.entry, outer, at.row + piece.top, at.col + piece.left)
        size = (piece.bottom - piece.top) * (piece.right - piece.left)
        for term in (t for t in piece.terms if t.summed):
            self.partial(term, at)
            found = self.parts.setdefault((where, size), {})
            found.setdefault(Term(term.reads), []).append(term.slices)
        return True

    def apart(self) -> Iterator[str]:
        """Results of which neither each part is a whole sum, nor all parts are one together."""
        for (at, _), sums in self.parts.items():
            for of, found in sums.items():
                if not any(self.partial(Term(of.reads, s), at) for s in found):
                    continue
                slices = [x for s in found for x in s]
                yield from (f"parts of {at} get {why}" for why in self.left_out(of, None, slices))

    def like_others(self, at: Result, terms: frozenset[Term]) -> None:
        """A result is everywhere of products of the same operands."""
        found = frozenset(self.named(at, t) for t in terms if t.summed)
        before = self.sums.setdefault(at.tensor, found)
        if found != before:
            self.wrong.append(f"{at} gets products of {_text(found)}, other parts {_text(before)}")

    def named(self, at: Result, term: Term) -> frozenset[str]:
        """The operands of a product."""
        each = at.entry is not None
        return frozenset(
            r.tensor if each or not self.array(r.tensor) else f"{r.tensor}[{r.entry}]"
            for r in term.reads
        )

    def misplaced(self, at: Result, term: Term, piece: Piece) -> Iterator[str]:
        """What does not belong to a place of a result."""
        for read in term.reads:
            extents, name = self.sizes(read.tensor, read.entry), read.tensor
            if at.entry not in (None, read.entry) and self.array(name):
                yield f"{name}[{read.entry}]"
            if read.begin is not None and Along.SUMMED not in read.along:
                yield f"{name}, of which zeros lie in front of row {read.begin}"
            for d, (x, way) in enumerate(zip(read.at, read.along, strict=True)):
                if way is Along.ROWS and at.row not in (None, x):
                    yield f"row {x} of {name}"
                if way is Along.COLS and x != at.col:
                    yield f"column {x} of {name}"
                if way is Along.FIXED and not self.beside(at, read, d, extents, piece):
                    yield f"{name}, of which coordinate {d} is {x}"

    def beside(self, at: Result, read: Read, d: int, extents: Sequence[int], piece: Piece) -> bool:
        """Whether a coordinate that is the same all over a tile is that of the result's matrix, or
        its row, or of the group that its rows, or its columns, are in: those that the tensor does
        not have; or the tile is made of all that there are.
        """
        x, sizes = read.at[d], self.sizes(at.tensor, at.entry or 0)
        if extents[d] == 1 and not x:
            return True
        if d < len(extents) - 2 and (place := self.place_of(at, read, d)) is not None:
            return (*at.outer, at.row)[place] == x
        block, there = self.block_of(read, d), set(range(extents[d]))
        if self.all_of(read, d, piece) & there == there:  # behind the end all elements are zeros
            return True
        if block is not None and block[0] in self.dims(at.tensor)[-2:]:
            by_row = block[0] == self.dims(at.tensor)[-2]
            inside = (piece.top, piece.bottom) if by_row else (piece.left, piece.right)
            first = at.row if by_row else at.col
            return first is not None and x == (first + inside[0]) // block[1] == (
                first + inside[1] - 1
            ) // block[1]  # fmt: skip
        if piece.bottom == 1 and sizes[-2:-1] == extents[d : d + 1]:
            return at.row == x
        span = self.span_of(read.tensor, x) if not d else None
        if span is None or (at.row is None and Along.ROWS not in read.along):
            return False
        begin, size = at.col + piece.left, piece.right - piece.left
        if Along.ROWS not in read.along and at.row is not None:
            begin, size = at.row + piece.top, piece.bottom - piece.top
        return span[0] <= begin and begin + size <= span[1]

    def block_of(self, read: Read, d: int) -> tuple[Expr, int] | None:
        """The extent, and the size of its blocks, that a dimension of what is read counts; None if
        it counts none, or has counted and is nobody's business.
        """
        if read.along[d] is Along.ANY:
            return None
        match self.dims(read.tensor)[d]:
            case Binary("ceildiv", extent, Const(size)):
                return extent, size
        return None

    def reduced(self, tile: Tile, way: Along, size: int, taken: int) -> None:
        """Note if of so many rows, or columns, of a tile not those count that lie in tensors."""
        reads = {r for p in tile.pieces for t in p.terms for r in t.reads if r.begin is None}
        for read in sorted(reads, key=str):
            extents = self.sizes(read.tensor, read.entry)
            for d, (x, along) in enumerate(zip(read.at, read.along, strict=True)):
                inside = max(min(extents[d] - x, size), 0)
                due = along is way and self.reductions.counts(self.dims(read.tensor)[d])
                if due and taken != inside:
                    said = f"{taken} {way.value} of {read.tensor} from {x} on"
                    self.wrong.append(f"{said} are reduced, of {inside}")

    def scale(self, op: str, sums: Tile, by: Tile) -> None:
        """Note where a sum is multiplied by a number of another block of what it is summed over, or
        computed with one in any other way; sums that were scaled may be added and the like.
        """
        terms = [t for p in sums.pieces for t in p.terms if t.slices]
        if not terms or (op != "mul" and any(t.slices for p in by.pieces for t in p.terms)):
            return
        for read in {r for p in by.pieces for t in p.terms for r in t.reads}:
            for d, x in enumerate(read.at):
                block = self.block_of(read, d)
                if block is None:
                    continue
                extent, size = block
                whole = evaluate(extent, self.params)
                for term in (t for t in terms if extent in self.summed_by(t)):
                    if op != "mul":
                        self.wrong.append(f"a sum and {read.tensor} of a block make a {op}")
                    elif _beyond(term.slices, x * size, (x + 1) * size, whole):
                        self.wrong.append(f"a sum of other blocks than {x} counts {read.tensor}")

    def of_groups(self, by: Tile, of: Tile) -> Tile:
        """Numbers of groups that columns of another tile are computed with, which are of no place
        then. Note where they are of other groups than those.
        """
        read = {r for p in by.pieces for t in p.terms for r in t.reads}
        blocks = {(r, d): b for r in read for d in range(len(r.at)) if (b := self.block_of(r, d))}
        columns = [
            (self.dims(r.tensor)[d], r.at[d] + p.left, r.at[d] + p.right)
            for p in of.pieces for t in p.terms for r in t.reads
            for d, way in enumerate(r.along) if way is Along.COLS
        ]  # fmt: skip
        for (r, d), (extent, size) in blocks.items():
            x, whole = r.at[d], evaluate(extent, self.params)
            inside = [(a, b) for e, a, b in columns if e == extent]
            if not inside:
                continue
            if _beyond(inside, x * size, (x + 1) * size, whole):
                self.wrong.append(f"columns of other blocks than {x} are computed with {r.tensor}")
            by = by.without_place(r, d)
        return by

    def summed_by(self, term: Term) -> set[Expr]:
        """The extents that a sum is over."""
        return {
            self.dims(r.tensor)[d]
            for r in term.reads
            for d, way in enumerate(r.along)
            if way is Along.SUMMED
        }

    def place_of(self, at: Result, read: Read, d: int) -> int | None:
        """Which coordinate of a result, but for its columns, is of the same dimension as one of
        what is read: that of the extent that is written alike, of several the one as far in front
        of the last two. None if there is none.
        """
        own, extent = self.dims(at.tensor)[:-1], self.dims(read.tensor)[d]
        found = [p for p, e in enumerate(own) if e == extent]
        if not found or len(own) != len(at.outer) + 1:
            return None
        alike = len(at.outer) - (len(read.at) - 2) + d
        return alike if alike in found else found[0]

    def all_of(self, read: Read, d: int, piece: Piece) -> set[int]:
        """The coordinates at which a piece is made of such elements, of a dimension that it sums,
        or scales a part of a sum by.
        """
        alike = (r for t in piece.terms for r in t.reads if r.tensor == read.tensor)
        return {r.at[d] for r in alike if r.along == read.along}

    def partial(self, term: Term, at: Result | None = None) -> tuple[str, ...]:
        """A sum of products that is not over all of K, or, of runs of rows, over the one that the
        result's matrix is of.
        """
        span = None
        if any(r.begin is not None for r in term.reads):
            span = self.span_of(at.tensor, at.outer[0]) if at is not None and at.outer else (0, 0)
        if (term, span) not in self._partial:
            self._partial[term, span] = tuple(self.left_out(term, span))
        return self._partial[term, span]

    def left_out(
        self, term: Term, span: tuple[int, int] | None, several: Sequence[tuple[int, int]] = ()
    ) -> Iterator[str]:
        """What :meth:`partial` finds; of ``several`` slices that make up a sum together."""
        summed = [
            (r, d) for r in term.reads for d, way in enumerate(r.along) if way is Along.SUMMED
        ]
        for r, d in summed:
            self.reach(self.dims(r.tensor)[d], max((end for _, end in term.slices), default=0))
        whole = max((self.sizes(r.tensor, r.entry)[d] for r, d in summed), default=0)
        first, last = (min(x, whole) for x in span or (0, whole))
        slices = term.slices or sorted(several)
        found = [(max(a, 0), min(b, whole)) for a, b in slices if a < whole and b > 0]
        if several and all(x[1] == y[0] for x, y in pairwise(found)):
            found = [(found[0][0], found[-1][1])] if found else []
        if term.summed and found != [(first, last)][: first < last]:
            said = ", ".join(f"{a} .. {b}" for a, b in found) or "nothing"
            names = " and ".join(sorted({r.tensor for r in term.reads}))
            yield f"{said} of {first} .. {last} of K of {names}"


def unused(kernel: Kernel) -> Iterator[str]:
    """The tensor maps through which a kernel moves nothing."""
    moved = {
        ref.map
        for s in walk(kernel.body)
        for ref in operands(s)
        if isinstance(ref, GmemRef | MapRef) and not isinstance(s, PrefetchTensorMap | TmaPrefetch)
    }
    return (m.name for m in kernel.tensor_maps if m.name not in moved)


def _beyond(spans: Iterable[tuple[int, int]], first: int, last: int, whole: int) -> bool:
    """Whether some of what spans have of a dimension, which ends at ``whole``, is outside."""
    ends = ((a, min(b, whole)) for a, b in spans)
    return any(a < b and (a < first or b > last) for a, b in ends)


def _text(sums: frozenset[frozenset[str]]) -> str:
    return "; ".join(sorted(" and ".join(sorted(s)) for s in sums)) or "nothing"
