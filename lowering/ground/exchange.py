"""How four lanes exchange the columns of a row between layouts whose spans differ by a factor of 2.

A *piece* is as many neighbouring columns as the narrower span has. A group of the wider layout is
eight pieces: its lane ``q`` holds the pieces ``2 q`` and ``2 q + 1``. In the narrower layout they
are two groups, and lane ``q`` holds piece ``q`` of the first and of the second one. Each lane so
holds two pieces before and two after, and two rounds, in which each lane sends one and receives
one, move them all.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Round", "rounds"]

PIECES = 8
LANES = 4


@dataclass(frozen=True, slots=True)
class Round:
    """One ``shfl.sync``; all tuples are by lane of the four.

    Args:
        sends: which of its two pieces a lane sends.
        source: the lane that it receives from.
        place: which of its two pieces the received one is.
    """

    sends: tuple[int, ...]
    source: tuple[int, ...]
    place: tuple[int, ...]


def rounds(widen: bool) -> tuple[Round, Round]:
    """Both rounds, from the narrower span to the wider one or back."""
    return _round(0, widen), _round(1, widen)


def _round(number: int, widen: bool) -> Round:
    """Pieces ``k`` of a round differ in ``k // 2`` and in ``k % 4``, so no lane has two of them."""
    sends, source, place = [0] * LANES, [0] * LANES, [0] * LANES
    for k in range(PIECES):
        if k % 2 ^ k // LANES != number:
            continue
        narrow, wide = (k % LANES, k // LANES), (k // 2, k % 2)
        before, after = (narrow, wide) if widen else (wide, narrow)
        sends[before[0]] = before[1]
        source[after[0]], place[after[0]] = before[0], after[1]
    return Round(tuple(sends), tuple(source), tuple(place))
