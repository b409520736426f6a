"""Which matmuls are measured: a sample of a list of M, N, K and layout."""

from __future__ import annotations

import csv
import random
from dataclasses import dataclass
from math import gcd
from pathlib import Path

from lowering.ground.errors import UnsupportedError
from lowering.ground.natural import natural
from wsched.bench.problem import LAYOUTS, Problem, Shape

__all__ = ["FEWEST_FLOP", "MOST_FLOP", "Drawn", "draw", "read_problems"]

FEWEST_FLOP, MOST_FLOP = 2e9, 3e12
"""What takes a few microseconds and what takes a few milliseconds of an H200."""

_COLUMNS = ("M", "N", "K", "layout")


@dataclass(frozen=True, slots=True, order=True)
class Drawn(Shape):
    """A shape with its layout, one of :data:`wsched.bench.problem.LAYOUTS`."""

    layout: str = "tn"

    @property
    def problem(self) -> Problem:
        """The matmul, in bf16."""
        return Problem(Shape(self.m, self.n, self.k), "bf16", self.layout)

    @property
    def rows(self) -> tuple[int, int, int]:
        """Bytes, at most 128, that every row of A, of B and of the result begins at a multiple
        of, in tensors that lie densely at an aligned address.
        """
        a = self.k if self.problem.a_k_major else self.m
        b = self.k if self.problem.b_k_major else self.n
        ra, rb, rd = (gcd(2 * size, 128) for size in (a, b, self.n))
        return ra, rb, rd

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k} {self.layout}"


def read_problems(path: Path) -> tuple[Drawn, ...]:
    """Read a CSV file with the columns M, N, K and layout (BLAS letters of A and B).

    Raises:
        UnsupportedError: it cannot be read, lacks a column or has a line that is no matmul.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            lines = csv.DictReader(file)
            missing = [c for c in _COLUMNS if c not in (lines.fieldnames or ())]
            if missing:
                raise UnsupportedError(
                    f"{path} without the column {missing[0]}", ", ".join(_COLUMNS)
                )
            return tuple(_problem(path, lines.line_num, line) for line in lines)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UnsupportedError(
            f"{path} ({error})", "a CSV file with the columns " + ", ".join(_COLUMNS)
        ) from error


def _problem(path: Path, number: int, line: dict[str, str]) -> Drawn:
    m, n, k = (natural(line[c] or "") or 0 for c in "MNK")
    layout = (line["layout"] or "").lower()
    if not m * n * k or layout not in LAYOUTS:
        wrote = ", ".join(str(line[c]) for c in _COLUMNS)
        raise UnsupportedError(
            f"{path}, line {number} ({wrote})", "three sizes and one of " + ", ".join(LAYOUTS)
        )
    return Drawn(m, n, k, layout)


def draw(
    problems: tuple[Drawn, ...], count: int, seed: int, odd: bool = False
) -> tuple[Drawn, ...]:
    """Return ``random.Random(seed).sample`` of the problems between 2 GFLOP and 3 TFLOP, in its
    order; a problem that the list has twice may come twice and is then measured once.

    Args:
        problems: the list.
        count: how many.
        seed: of the draw.
        odd: whether M, N and K of each are made smaller by 0 to 7 each, likewise drawn, and one of
            them at least by such a number that it is no multiple of 8.

    Raises:
        UnsupportedError: there are fewer.
    """
    there = [p for p in problems if FEWEST_FLOP <= p.flops <= MOST_FLOP]
    if count > len(there):
        raise UnsupportedError(
            f"--count {count}", f"at most {len(there)}, so many lie between 2 GFLOP and 3 TFLOP"
        )
    drawn = random.Random(seed)
    found = drawn.sample(there, count)
    return tuple(dict.fromkeys([_odd(p, drawn) for p in found] if odd else found))


def _odd(p: Drawn, drawn: random.Random) -> Drawn:
    while True:
        m, n, k = (max(size - drawn.randrange(8), 1) for size in (p.m, p.n, p.k))
        if any(size % 8 for size in (m, n, k)):
            return Drawn(m, n, k, p.layout)
