"""Many mutants: ``python -m tests.mutants --count 3000 --seed S --jobs J --out F``.

Draws from all mutants of all kernels of ``tests.mutants.subjects``, evenly, and judges each. ``F``
gets a line of JSON for each as soon as it is judged, its verdict in it; those that it has are left
alone, so a run that was ended goes on. The end is the score by class and by family, what is
harmless and why, and each mutant that can misbehave unnoticed: caught by nobody, and not known to
be harmless. With ``--count 0`` that of ``F`` alone; ``--write NOTE`` puts it into a note as well.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
from collections.abc import Collection, Iterable
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from random import Random
from time import process_time

from tests.mutants.edits import mutants
from tests.mutants.harmless import argument
from tests.mutants.judge import Fate, Judge
from tests.mutants.score import Line, open_ones, report, write
from tests.mutants.subjects import SUBJECTS, subject

__all__ = ["drawn"]


@cache
def _judge(name: str) -> Judge:
    return Judge(subject(name))


def judge_one(place: tuple[str, int]) -> Line:
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


def _numbers(kinds: Collection[str], name: str) -> tuple[str, list[int]]:
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


def _main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=3000, help="how many mutants")
    parser.add_argument("--seed", type=int, default=0, help="which ones")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path, required=True, help="file of JSON lines")
    parser.add_argument("--only", nargs="*", choices=SUBJECTS, default=SUBJECTS, help="kernels")
    parser.add_argument("--kinds", nargs="*", default=(), help="classes of edits, such as scalar")
    parser.add_argument("--write", type=Path, help="note that gets the score")
    asked = parser.parse_args()
    asked.out.touch()
    lines = [Line(**json.loads(text)) for text in asked.out.read_text().splitlines()]
    done = {(line.name, line.number) for line in lines}
    with multiprocessing.Pool(asked.jobs) as pool, asked.out.open("a") as out:
        numbers = sorted(pool.imap_unordered(partial(_numbers, asked.kinds), asked.only))
        places = [p for p in drawn(numbers, asked.count, asked.seed) if p not in done]
        for line in pool.imap_unordered(judge_one, places, chunksize=8):
            lines.append(line)
            print(json.dumps(asdict(line)), file=out, flush=True)
    text = report(lines)
    print(text)
    if asked.write is not None:
        write(asked.write, text)
    left = open_ones(lines)
    for line in left:
        print(f"open: {line.name} {line.number}: {line.kind}: {line.what} {line.why}")
    return 1 if left else 0


if __name__ == "__main__":
    raise SystemExit(_main())
