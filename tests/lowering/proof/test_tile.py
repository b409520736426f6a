"""Tiles of elements that are known piece by piece: what is cut, put and reduced, a table."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lowering.proof.tile import Along, Piece, Read, Term, Terms, Tile, repeated
from tests.conftest import Golden

R, C, S = Along.ROWS, Along.COLS, Along.SUMMED
A = frozenset({Term(frozenset({Read("A", 0, (3, 5), (R, C))}))})
BIAS = frozenset({Term(frozenset({Read("bias", 1, (7,), (C,), 2)}))})
FACTORS = frozenset({Read("A", 0, (3, 0), (R, S)), Read("B", 0, (8, 0), (C, S))})
FIRST, NEXT, LATER = (
    frozenset({Term(FACTORS, (slices,))}) for slices in ((0, 16), (16, 32), (48, 64))
)

TILES: dict[str, Tile] = {
    "one": Tile.of(4, 6, A),
    "nothing": Tile.of(4, 6),
    "sum": Tile.of(4, 6, FIRST),
    "above each other": Tile(4, 6, (Piece(0, 1, 0, 6, A), Piece(1, 4, 0, 6, BIAS))),
    "beside each other": Tile(4, 6, (Piece(0, 4, 0, 2, A), Piece(0, 4, 2, 6, BIAS))),
    "one in two parts": Tile(4, 6, (Piece(0, 4, 0, 2, A), Piece(0, 4, 2, 6, A))),
    "corner": Tile(4, 6, (Piece(2, 4, 3, 6, BIAS),)),
    "ring": Tile(4, 6, tuple(Piece(0, 4, 0, 6, A).without(1, 3, 2, 4))),
}


def shown(terms: Terms) -> str:
    found = []
    for t in terms:
        reads = sorted(
            f"{r.tensor}{r.entry}[{', '.join(map(str, r.at))}: "
            f"{', '.join(w.value for w in r.along)}]{'' if r.begin is None else f' from {r.begin}'}"
            for r in t.reads
        )
        slices = "".join(f" {a}..{b}" for a, b in t.slices)
        found.append(f"{' * '.join(reads)}{slices}{' summed' * t.summed}")
    return " + ".join(sorted(found)) or "nothing"


def drawn(tile: Tile) -> str:
    pieces = sorted(f"    {p.place} of {p.elements}: {shown(p.terms)}" for p in tile.pieces)
    whole = "" if tile.whole is None else ", whole"
    return "\n".join([f"{tile.rows} x {tile.cols}, {tile.known} known{whole}", *pieces])


CHANGES: dict[str, Callable[[Tile], Tile]] = {
    "as it is": lambda t: t,
    "a part": lambda t: t.part(1, 2, 2, 3),
    "in": lambda t: t.put(1, 2, Tile.of(2, 3, BIAS)),
    "over all": lambda t: t.put(0, 0, Tile.of(4, 6, BIAS)),
    "turned": lambda t: t.transposed(),
    "rows reduced": lambda t: t.reduced(1, 6),
    "columns reduced": lambda t: t.reduced(4, 1),
    "both reduced": lambda t: t.reduced(1, 1),
    "none reduced": lambda t: t.reduced(4, 6),
    "one row of it": lambda t: t.cut(1, 0, 1, 6).spread(3, 6),
    "one column of it": lambda t: t.cut(0, 2, 4, 1).spread(4, 5),
    "one element of it": lambda t: t.cut(2, 3, 1, 1).spread(2, 3),
    "filled up": lambda t: t.put(1, 2, Tile.of(2, 2, A)).put(2, 3, Tile.of(2, 3, A)),
    "with a bias": lambda t: t.with_(Tile.of(4, 6, BIAS)),
    "with a corner": lambda t: t.with_(TILES["corner"]),
    "with more of the sum": lambda t: t.with_(Tile.of(4, 6, NEXT)),
    "with a later part": lambda t: t.with_(Tile.of(4, 6, LATER)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_tiles(change: str, golden: Golden) -> None:
    lines = (f"{name}: {drawn(CHANGES[change](tile))}" for name, tile in TILES.items())
    assert "\n".join(lines) == golden


def test_a_slice_twice() -> None:
    """Of slices that touch none is in both, of those that overlap by one element it is."""
    (once,) = FIRST
    for begin, end, twice in ((15, 17, True), (16, 17, False), (0, 1, True), (3, 5, True)):
        other = frozenset({Term(FACTORS, ((begin, end),))})
        assert bool(repeated(FIRST, other)) is bool(repeated(other, FIRST)) is twice
    assert repeated(FIRST, FIRST) == once and repeated(FIRST, A) is repeated(A, FIRST) is None


@pytest.mark.parametrize("at", [(4, 6, 0, 3), (0, 2, 3, 6), (3, 4, 4, 6), (2, 3, 0, 2)])
def test_what_only_touches_a_rectangle_stays_whole(at: tuple[int, int, int, int]) -> None:
    """Above, below, to the right and to the left of it."""
    piece = Piece(2, 4, 2, 4, A)
    assert list(piece.without(*at)) == [piece] and piece.within(*at) is None


@pytest.mark.parametrize("at", [(0, 0), (1, 0), (0, 1), (2, 3), (-1, 0), (0, -2)])
@pytest.mark.parametrize("name", TILES)
def test_a_part_as_large_as_all(name: str, at: tuple[int, int]) -> None:
    """Is all of it only where it begins as that does."""
    tile = TILES[name]
    assert tile.cut(*at, 4, 6) == tile.part(*at, 4, 6)
    assert tile.cut(*at, 4, 5) == tile.part(*at, 4, 5) and tile.cut(0, 0, 3, 6).rows == 3
