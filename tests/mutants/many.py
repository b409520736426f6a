"""Many mutants of all kernels: which ones are drawn, and what a process does with a few of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cache
from itertools import groupby
from random import Random
from time import process_time

from tests.mutants.edits import mutants
from tests.mutants.harmless import argument
from tests.mutants.judge import Fate, Judge
from tests.mutants.score import Line
from tests.mutants.subjects import subject

__all__ = ["chunks", "drawn", "judge_some", "numbers"]

CHUNK = 16
"""Mutants of a kernel that a process judges before it hands them over: it has proved and run the
right one first."""


@cache
def _judge(name: str) -> Judge:
    return Judge(subject(name))


def _judge_one(place: tuple[str, int]) -> Line:
    """What becomes of a mutant."""
    name, number = place
    judge = _judge(name)
    begin = process_time()
    mutant = judge.mutants[number]
    try:
        found = judge.judged(mutant)
        fate, why = found.fate.name, found.why
    except Exception as error:
        fate, why = "ERROR", f"{type(error).__name__}: {error}"
    method = ""
    if fate == Fate.NEITHER.name:
        why, method = argument(mutant) or "", found.method
    seconds = round(process_time() - begin, 2)
    return Line(name, number, mutant.kind, mutant.what, fate, why, seconds, method)


def judge_some(places: Sequence[tuple[str, int]]) -> list[Line]:
    """What becomes of each of a few mutants."""
    return [_judge_one(place) for place in places]


def chunks(places: Iterable[tuple[str, int]]) -> list[list[tuple[str, int]]]:
    """Sorted places in lists of mutants of one kernel, at most :data:`CHUNK` of them."""
    kernels = [[*of] for _, of in groupby(places, lambda place: place[0])]
    return [of[n : n + CHUNK] for of in kernels for n in range(0, len(of), CHUNK)]


def numbers(kinds: Collection[str], name: str) -> tuple[str, list[int]]:
    """The mutants of a kernel that are of some classes; all where none is named."""
    every = enumerate(mutants(subject(name).kernel))
    return name, [n for n, m in every if not kinds or m.kind in kinds]


def drawn(
    numbers: Iterable[tuple[str, Iterable[int]]], count: int, seed: int
) -> list[tuple[str, int]]:
    """So many mutants of all, by kernel; all of them if there are no more.

    More of them are the same and others, so that a run can be made longer.
    """
    places = [(name, n) for name, many in numbers for n in many]
    Random(seed).shuffle(places)
    return sorted(places[:count])
