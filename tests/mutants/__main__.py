"""Many mutants: ``python -m tests.mutants --count 3000 --seed S --jobs J --out F``.

Draws from all mutants of all kernels of ``tests.mutants.subjects``, evenly, and judges each. ``F``
gets a line of JSON for each as soon as it is judged; those that it has are left alone, so a run
that was ended goes on. The end is the score by class, and each mutant that can misbehave
unnoticed: caught by nobody, and not known to be harmless.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from random import Random
from time import process_time

from tests.mutants.edits import mutants
from tests.mutants.harmless import argument
from tests.mutants.judge import Fate, Judge
from tests.mutants.subjects import SUBJECTS, subject

__all__ = ["Line", "drawn", "score"]


@dataclass(frozen=True, slots=True)
class Line:
    """A mutant that was judged: the number of it among those of its kernel, and what came of it.

    Args:
        name: of the kernel.
        number: of the mutant.
        kind: class of the edit.
        what: the edit.
        fate: what became of it, a name of ``Fate``.
        why: who says so; of one that nobody catches, why it is harmless, if that is known.
        seconds: that it took, of one core.
    """

    name: str
    number: int
    kind: str
    what: str
    fate: str
    why: str
    seconds: float


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
    if fate == Fate.NEITHER.name:
        why = argument(mutant) or ""
    seconds = round(process_time() - begin, 2)
    return Line(name, number, mutant.kind, mutant.what, fate, why, seconds)


def _count(name: str) -> tuple[str, int]:
    return name, sum(1 for _ in mutants(subject(name).kernel))


def drawn(counts: Iterable[tuple[str, int]], count: int, seed: int) -> list[tuple[str, int]]:
    """So many mutants of all, by kernel; all of them if there are no more.

    More of them are the same and others, so that a run can be made longer.
    """
    places = [(name, n) for name, many in counts for n in range(many)]
    Random(seed).shuffle(places)
    return sorted(places[:count])


def score(lines: Sequence[Line]) -> str:
    """A table: classes of edits, what became of them, and how many nobody can explain."""
    names = [*(f.name for f in Fate if f is not Fate.NEITHER), "HARMLESS", "OPEN"]
    table: Counter[tuple[str, str]] = Counter()
    for line in lines:
        fate = line.fate
        if fate == Fate.NEITHER.name:
            fate = "HARMLESS" if line.why else "OPEN"
        table[line.kind, fate if fate in names else "OPEN"] += 1
    kinds = sorted({k for k, _ in table})
    for name in names:
        table["all", name] = sum(table[k, name] for k in kinds)
    rows = [f"{'class':12}" + "".join(f"{n.lower():>10}" for n in names)]
    rows += [f"{k:12}" + "".join(f"{table[k, n]:10}" for n in names) for k in [*kinds, "all"]]
    return "\n".join(rows)


def _main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=3000, help="how many mutants")
    parser.add_argument("--seed", type=int, default=0, help="which ones")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path, required=True, help="file of JSON lines")
    parser.add_argument("--only", nargs="*", choices=SUBJECTS, default=SUBJECTS, help="kernels")
    asked = parser.parse_args()
    asked.out.touch()
    lines = [Line(**json.loads(text)) for text in asked.out.read_text().splitlines()]
    done = {(line.name, line.number) for line in lines}
    with multiprocessing.Pool(asked.jobs) as pool, asked.out.open("a") as out:
        counts = pool.imap_unordered(_count, asked.only)
        places = [p for p in drawn(sorted(counts), asked.count, asked.seed) if p not in done]
        for line in pool.imap_unordered(judge_one, places, chunksize=4):
            lines.append(line)
            print(json.dumps(asdict(line)), file=out, flush=True)
    print(score(lines))
    open_ = [line for line in lines if line.fate in ("NEITHER", "ERROR") and not line.why]
    open_ += [line for line in lines if line.fate == "ERROR" and line.why]
    for line in open_:
        print(f"open: {line.name} {line.number}: {line.kind}: {line.what} {line.why}")
    return 1 if open_ else 0


if __name__ == "__main__":
    raise SystemExit(_main())
