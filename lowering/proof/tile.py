"""Tiles by where their elements come from: no numbers, but which elements of which tensors.

A tile, in registers or in a stage, is *pieces*; the elements of a piece are all made in one way,
each of the elements of tensors that lie where it lies itself. A piece says so for the tile's first
element, row 0 and column 0, so that pieces which belong together say the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache, reduce
from itertools import pairwise

from lowering.ground.frozen import quick

__all__ = ["NOTHING", "Along", "Piece", "Read", "Term", "Terms", "Tile", "repeated"]


class Along(Enum):
    """How a coordinate of a tensor changes over a tile: with its rows, or its columns; it is the
    same all over, it runs over what a product adds up, or is nobody's business.
    """

    ROWS = "rows"
    COLS = "columns"
    FIXED = "fixed"
    SUMMED = "summed"
    ANY = "any"

    __hash__ = object.__hash__  # that of an Enum is a function of Python


@quick
@dataclass(frozen=True, slots=True)
class Read:
    """An element of a tensor for each of a tile's.

    Args:
        tensor: its name.
        entry: which one of an array of them; else 0.
        at: coordinates of the one for the tile's first element.
        along: how each of them changes.
        begin: of a matrix of whose rows each run is one of its own, where this one begins: there
            are zeros in front of that; else None.
    """

    tensor: str
    entry: int
    at: tuple[int, ...]
    along: tuple[Along, ...]
    begin: int | None = None

    def moved(self, rows: int, cols: int) -> Read:
        """The same of a tile that begins so many rows and columns further."""
        step = {Along.ROWS: rows, Along.COLS: cols}
        at = (a + step.get(way, 0) for a, way in zip(self.at, self.along, strict=True))
        return Read(self.tensor, self.entry, tuple(at), self.along, self.begin)

    def turned(self, ways: dict[Along, Along]) -> Read:
        """With other words for how its coordinates change; what is summed has no place."""
        along = tuple(ways.get(way, way) for way in self.along)
        gone = {Along.SUMMED, Along.ANY}
        at = tuple(0 if way in gone else a for a, way in zip(self.at, along, strict=True))
        return Read(self.tensor, self.entry, at, along, self.begin)

    def summed(self, way: Along) -> int | None:
        """The coordinate that changes in a way; None if none does."""
        found = [a for a, w in zip(self.at, self.along, strict=True) if w is way]
        return found[0] if found else None


@quick
@dataclass(frozen=True, slots=True)
class Term:
    """What is read for an element; of a sum of products all factors, and for which of the
    coordinates that are summed: ``slices``, sorted and apart.
    """

    reads: frozenset[Read]
    slices: tuple[tuple[int, int], ...] = ()

    @property
    def summed(self) -> bool:
        """Whether it is such a sum, perhaps of nothing."""
        return bool(self.slices) or any(Along.SUMMED in r.along for r in self.reads)


Terms = frozenset[Term]

NOTHING: Terms = frozenset()
"""Of a number that is no tensor's."""


@lru_cache(maxsize=1 << 14)
def _moved(terms: Terms, rows: int, cols: int) -> Terms:
    return frozenset(Term(frozenset(r.moved(rows, cols) for r in t.reads), t.slices) for t in terms)


@lru_cache(maxsize=1 << 14)
def _turned(terms: Terms, rows: Along, cols: Along) -> Terms:
    ways = {Along.ROWS: rows, Along.COLS: cols}
    turned = (Term(frozenset(r.turned(ways) for r in t.reads), t.slices) for t in terms)
    return reduce(_joined, (frozenset({t}) for t in turned), NOTHING)


@lru_cache(maxsize=1 << 14)
def _joined(a: Terms, b: Terms) -> Terms:
    """What is made of either."""
    if a == b or not b:
        return a
    slices = {t.reads: t.slices for t in a}
    for t in b:
        slices[t.reads] = _merged((*slices.get(t.reads, ()), *t.slices))
    return frozenset(Term(reads, s) for reads, s in slices.items())


def _merged(slices: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Slices that touch as one."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted(slices):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((begin, end))
    return tuple(found)


@lru_cache(maxsize=1 << 14)
def repeated(a: Terms, b: Terms) -> Term | None:
    """A sum that has a slice in both of two terms, if there is one."""
    mine = {t.reads: t.slices for t in a}
    for t in b:
        for begin, end in t.slices:
            if any(x < end and begin < y for x, y in mine.get(t.reads, ())):
                return t
    return None


@quick
@dataclass(frozen=True, slots=True)
class Piece:
    """Rows ``top .. bottom`` and columns ``left .. right`` of a tile, all made in one way."""

    top: int
    bottom: int
    left: int
    right: int
    terms: Terms

    def within(self, top: int, bottom: int, left: int, right: int) -> Piece | None:
        """The part of it in a rectangle."""
        top, bottom = max(self.top, top), min(self.bottom, bottom)
        left, right = max(self.left, left), min(self.right, right)
        return (
            Piece(top, bottom, left, right, self.terms) if top < bottom and left < right else None
        )

    def without(self, top: int, bottom: int, left: int, right: int) -> Iterator[Piece]:
        """The parts of it outside of a rectangle."""
        if self.bottom <= top or bottom <= self.top or self.right <= left or right <= self.left:
            yield self
            return
        for band in (
            (self.top, top, self.left, self.right),
            (bottom, self.bottom, self.left, self.right),
            (max(top, self.top), min(bottom, self.bottom), self.left, left),
            (max(top, self.top), min(bottom, self.bottom), right, self.right),
        ):
            part = self.within(*band)
            if part is not None:
                yield part

    @property
    def elements(self) -> int:
        """How many there are."""
        return (self.bottom - self.top) * (self.right - self.left)

    @property
    def place(self) -> tuple[int, int, int, int]:
        """Its rectangle."""
        return self.top, self.bottom, self.left, self.right


def _as_one(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    """Pieces, as a single one if that is what they are together."""
    if len(pieces) > 1 and all(p.terms == pieces[0].terms for p in pieces):
        top, left = min(p.top for p in pieces), min(p.left for p in pieces)
        bottom, right = max(p.bottom for p in pieces), max(p.right for p in pieces)
        if sum(p.elements for p in pieces) == (bottom - top) * (right - left):
            return (Piece(top, bottom, left, right, pieces[0].terms),)
    return tuple(pieces)


@quick
@dataclass(frozen=True, slots=True)
class Tile:
    """``rows x cols`` elements; of those in no piece nothing is known."""

    rows: int
    cols: int
    pieces: tuple[Piece, ...] = ()

    @staticmethod
    def of(rows: int, cols: int, terms: Terms = NOTHING) -> Tile:
        """A tile that is made in one way."""
        return _made(rows, cols, terms)

    @property
    def whole(self) -> Piece | None:
        """Its only piece, if that is all of it."""
        if len(self.pieces) == 1 and self.pieces[0].place == (0, self.rows, 0, self.cols):
            return self.pieces[0]
        return None

    @property
    def known(self) -> int:
        """How many of its elements are in pieces."""
        return sum(p.elements for p in self.pieces)

    def cut(self, top: int, left: int, rows: int, cols: int) -> Tile:
        """The tile of so many rows and columns from a place on."""
        if (top, left, rows, cols) == (0, 0, self.rows, self.cols):
            return self
        return _cut(self, top, left, rows, cols)

    def part(self, top: int, left: int, rows: int, cols: int) -> Tile:
        """What :meth:`cut` makes of it."""
        found = []
        for piece in self.pieces:
            part = piece.within(top, top + rows, left, left + cols)
            if part is not None:
                terms = _moved(part.terms, top, left)
                found.append(Piece(
                    part.top - top, part.bottom - top, part.left - left, part.right - left, terms
                ))  # fmt: skip
        return Tile(rows, cols, tuple(found))

    def put(self, top: int, left: int, tile: Tile) -> Tile:
        """This tile with another one in it from a place on."""
        if (tile.rows, tile.cols) == (self.rows, self.cols):
            return tile
        box = top, top + tile.rows, left, left + tile.cols
        found = [part for p in self.pieces for part in p.without(*box)]
        for p in tile.pieces:
            terms = _moved(p.terms, -top, -left)
            found.append(Piece(p.top + top, p.bottom + top, p.left + left, p.right + left, terms))
        return Tile(self.rows, self.cols, _as_one(found))

    def spread(self, rows: int, cols: int) -> Tile:
        """Its one row, or one column, repeated."""
        down, along = self.rows == 1 < rows, self.cols == 1 < cols
        if not down and not along:
            return self
        ways = Along.FIXED if down else Along.ROWS, Along.FIXED if along else Along.COLS
        found = (
            Piece(
                p.top, rows if down else p.bottom, p.left, cols if along else p.right,
                _turned(p.terms, *ways),
            ) for p in self.pieces
        )  # fmt: skip
        return Tile(rows, cols, tuple(found))

    def without_place(self, read: Read, d: int) -> Tile:
        """The same where a coordinate of what is read is nobody's business."""
        at = tuple(0 if n == d else x for n, x in enumerate(read.at))
        along = tuple(Along.ANY if n == d else way for n, way in enumerate(read.along))
        instead = Read(read.tensor, read.entry, at, along, read.begin)
        found = []
        for p in self.pieces:
            terms = (
                Term(frozenset(instead if r == read else r for r in t.reads), t.slices)
                for t in p.terms
            )
            made = reduce(_joined, (frozenset({t}) for t in terms), NOTHING)
            found.append(Piece(p.top, p.bottom, p.left, p.right, made))
        return Tile(self.rows, self.cols, tuple(found))

    def with_(self, other: Tile) -> Tile:
        """What is made element by element of two tiles."""
        mine, its = self.whole, other.whole
        if mine is not None and its is not None:
            return Tile.of(self.rows, self.cols, _joined(mine.terms, its.terms))
        return Tile(self.rows, self.cols, tuple(
            Piece(*part.place, _joined(p.terms, q.terms))
            for p in self.pieces for q in other.pieces
            if (part := p.within(*q.place)) is not None
        ))  # fmt: skip

    def reduced(self, rows: int, cols: int) -> Tile:
        """What is made of rows, or of columns, together, where there are fewer of them."""
        fewer, narrower = rows < self.rows, cols < self.cols
        ways = Along.ANY if fewer else Along.ROWS, Along.ANY if narrower else Along.COLS
        pieces = [
            Piece(
                0 if fewer else p.top, rows if fewer else p.bottom,
                0 if narrower else p.left, cols if narrower else p.right, _turned(p.terms, *ways),
            ) for p in self.pieces
        ]  # fmt: skip
        tops = sorted({y for p in pieces for y in (p.top, p.bottom)})
        lefts = sorted({x for p in pieces for x in (p.left, p.right)})
        found = []
        for (top, bottom), (left, right) in (
            (y, x) for y in pairwise(tops) for x in pairwise(lefts)
        ):
            inside = [p.terms for p in pieces if p.within(top, bottom, left, right) is not None]
            if inside:
                found.append(Piece(top, bottom, left, right, reduce(_joined, inside)))
        return Tile(rows, cols, tuple(found))

    def transposed(self) -> Tile:
        """With its rows as columns."""
        return _transposed(self)

    def across(self) -> Tile:
        """What :meth:`transposed` makes of it."""
        return Tile(self.cols, self.rows, tuple(
            Piece(p.left, p.right, p.top, p.bottom, _turned(p.terms, Along.COLS, Along.ROWS))
            for p in self.pieces
        ))  # fmt: skip


@lru_cache(maxsize=1 << 12)
def _made(rows: int, cols: int, terms: Terms) -> Tile:
    return Tile(rows, cols, (Piece(0, rows, 0, cols, terms),))


@lru_cache(maxsize=1 << 12)
def _cut(tile: Tile, top: int, left: int, rows: int, cols: int) -> Tile:
    return tile.part(top, left, rows, cols)


@lru_cache(maxsize=1 << 12)
def _transposed(tile: Tile) -> Tile:
    return tile.across()
