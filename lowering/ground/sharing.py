"""Kernels that share groups out, each with tiles of its own length: which part is whose."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from lowering.ground.expr import ZERO, ceildiv, minimum, select

__all__ = [
    "EXPRESSIONS",
    "FEWEST",
    "INTEGERS",
    "SAVED",
    "WHOLE",
    "Arithmetic",
    "Division",
    "Part",
    "Sharing",
    "sizes_of_parts",
    "ways",
]  # fmt: skip

FURTHEST = 8
"""Tiles, the longest ones, of the largest group of :func:`sizes_of_parts`: two kernels may have two
each, and are behind one alone where that comes out even.
"""

FEWEST, SAVED = 2, 16
"""Tiles that each of two kernels has at least of a group that is both's, and how much less they pad
it than one alone: each reads all weights of the group, and as many CTAs ask for the same ones at a
time as it has tiles. What two, three and four took of the cycles of groups that are one kernel's,
in the mean of eleven problems: 0.987, 0.994 and 0.995 (H200, 2026-11-30)."""

Let = Callable[[str, Any], Any]
"""Gives a name to what is used more than once, and returns what stands for it."""


def _unnamed(name: str, value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """What is asked of numbers beside operators: expressions of a kernel, or arrays.

    Args:
        zero: nothing.
        ceildiv: a quotient rounded up.
        minimum: of two.
        select: the second where the first holds, else the third.
        let: names what is used more than once.
    """

    zero: Any
    ceildiv: Callable[[Any, int], Any]
    minimum: Callable[[Any, Any], Any]
    select: Callable[[Any, Any, Any], Any]
    let: Let = _unnamed


EXPRESSIONS = Arithmetic(ZERO, ceildiv, minimum, select)
"""Those of a kernel, without names."""

INTEGERS = Arithmetic(0, lambda x, n: -(-x // n), min, lambda holds, x, y: x if holds else y)
"""Numbers."""


@dataclass(frozen=True, slots=True)
class Part:
    """What a kernel has of a group.

    Args:
        begin: where that begins, from the group's begin.
        size: how much it is; nothing where the group is others'.
    """

    begin: Any
    size: Any


@dataclass(frozen=True, slots=True)
class Division:
    """One way to divide a group up.

    Args:
        padded: how much its tiles have; of a way with two kernels more by :data:`SAVED`.
        parts: of each kernel that has one.
    """

    padded: Any
    parts: dict[int, Part]


def ways(lengths: tuple[int, ...], size: Any, on: Arithmetic) -> Iterator[Division]:
    """Ways to divide a group up among kernels with tiles of these lengths: all of it is one's, or
    the front of it is one's and the rest the next one's, if its tiles are shorter. Of as many tiles
    as the former alone would take those behind are then of the latter, as many as it can have.
    """
    for at, length in enumerate(lengths):
        tiles = on.let(f"tiles_of_{length}", on.ceildiv(size, length))
        padded = on.let(f"padded_by_{length}", tiles * length)
        yield Division(padded, {at: Part(on.zero, size)})
        less = length - lengths[at + 1] if at + 1 < len(lengths) else 0
        if less <= 0 or (length - 1) // less < FEWEST:
            continue
        most = on.let("most_behind", on.minimum((padded - size) // less, tiles - FEWEST))
        behind = on.let("tiles_behind", on.select(most < FEWEST, on.zero, most))
        front = (tiles - behind) * length
        by_both = on.let("padded_by_both", padded - behind * less + SAVED)
        yield Division(by_both, {at: Part(on.zero, front), at + 1: Part(front, size - front)})


@dataclass(frozen=True, slots=True)
class Sharing:
    """Which part of each group is a kernel's, of several that share them out, each with tiles as
    long as suits some of them.

    Every kernel asks the same of every group: which of its :func:`ways` pads it least, of equal
    ones the first. So each row is exactly one kernel's.

    Args:
        lengths: of the tiles of each kernel, along what groups share out; empty where all groups
            are one kernel's.
        own: which of them is this kernel's.
    """

    lengths: tuple[int, ...] = ()
    own: int = 0

    def __bool__(self) -> bool:
        """Whether there are others."""
        return bool(self.lengths)

    def __str__(self) -> str:
        return f"{self.own} of {', '.join(map(str, self.lengths))}"

    @property
    def problem(self) -> str:
        """Why these are no kernels that share groups out, or one of them never takes a whole group;
        empty where all do. It never does if a length in front is a part of its own.
        """
        lengths = self.lengths
        if len(lengths) < 2 or min(lengths) < 1:
            return f"lengths of tiles {lengths}: of two kernels or more, each at least 1"
        for at, length in enumerate(lengths):
            if any(length % n == 0 for n in lengths[:at]):
                return f"tiles of {length} never pad a group less than those in front"
        last = len(lengths) - 1
        return "" if 0 <= self.own <= last else f"there are kernels 0 to {last}, not {self.own}"

    def part(self, size: Any, on: Arithmetic = EXPRESSIONS) -> Part:
        """What this kernel has of a group. The best way so far is carried from one to the next, for
        which few registers do.

        Args:
            size: rows of the group, or columns.
            on: what it is computed in.
        """
        first, *others = ways(self.lengths, size, on)
        nothing = Part(on.zero, on.zero)
        best, found = first.padded, first.parts.get(self.own, nothing)
        for way in others:
            mine, better = way.parts.get(self.own, nothing), way.padded < best
            begin = on.let("own_begin", on.select(better, mine.begin, found.begin))
            found = Part(begin, on.let("own_size", on.select(better, mine.size, found.size)))
            best = on.let("least", on.minimum(way.padded, best))
        return found


WHOLE = Sharing()
"""All groups are one kernel's."""


@lru_cache(maxsize=64)
def sizes_of_parts(share: Sharing) -> tuple[int, ...]:
    """Sizes of groups that are divided up in every way there is: the least and the largest that
    each one suits best, and one between.
    """
    best: dict[tuple[int, ...], list[int]] = {}
    for size in range(1, FURTHEST * max(share.lengths, default=0) + 1):
        way = min(ways(share.lengths, size, INTEGERS), key=lambda w: w.padded)
        best.setdefault((*way.parts,), []).append(size)
    found = (s for some in best.values() for s in (some[0], some[len(some) // 2], some[-1]))
    return tuple(dict.fromkeys(found))
