"""Coordinates at which a piece is made of elements of one tensor."""

from __future__ import annotations

from typing import Any

from lowering.proof.flow import Flow
from lowering.proof.tile import Along, Piece, Read, Term

ROWS, SUMMED = (Along.ROWS, Along.SUMMED), (Along.SUMMED, Along.ROWS)


def read(tensor: str, at: tuple[int, int], along: tuple[Along, Along] = ROWS) -> Read:
    return Read(tensor, 0, at, along)


def test_all_coordinates_of_a_piece() -> None:
    """Of the same tensor, read the same way, by all terms; of no other."""
    terms = [
        Term(frozenset({read("A", (0, 3)), read("B", (7, 1))})),
        Term(frozenset({read("A", (2, 3)), read("B", (8, 1))})),
        Term(frozenset({read("A", (5, 4), SUMMED)})),
    ]
    piece = Piece(0, 8, 0, 8, frozenset(terms))
    flow: Any = None  # which the question does not depend on

    def found(of: Read, d: int) -> set[int]:
        return Flow.all_of(flow, of, d, piece)

    assert found(read("A", (0, 3)), 0) == {0, 2}
    assert found(read("A", (0, 3)), 1) == {3}
    assert found(read("A", (5, 4), SUMMED), 0) == {5}
    assert found(read("B", (7, 1)), 0) == {7, 8}
    assert found(read("C", (0, 0)), 0) == set()
