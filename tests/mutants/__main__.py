"""Many mutants: ``python -m tests.mutants --count 3000 --seed S --jobs J --out F``.

Draws from all mutants of all kernels of ``tests.mutants.subjects``, evenly, and judges each. ``F``
gets a line of JSON for each, its verdict in it, when a few of a kernel are judged; those that it
has are left alone, but for open ones, which are judged again. So a run that was ended goes on, and
one with open ones is repeated once they are mended. (A number is one of this tree's kernels: of
another tree ``F`` says nothing.) The end is the score by class and by family, what is
harmless and why, and each mutant that can misbehave unnoticed: caught by nobody, and not known to
be harmless; exit status 1 if there is one. With ``--count 0`` that of ``F`` alone; ``--write NOTE``
puts it into a note as well.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
from dataclasses import asdict
from functools import partial
from pathlib import Path

from tests.mutants.many import chunks, drawn, judge_some, numbers
from tests.mutants.score import Line, cost, open_ones, report, write
from tests.mutants.subjects import SUBJECTS


def _json(line: Line) -> str:
    return f"{json.dumps(asdict(line))}\n"


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
    found = [Line(**json.loads(text)) for text in asked.out.read_text().splitlines()]
    known = {(line.name, line.number): line for line in found}  # the last one of each counts
    again = {(line.name, line.number) for line in open_ones(list(known.values())) if asked.count}
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # of processes to come
    processes = multiprocessing.get_context("spawn")
    with processes.Pool(asked.jobs) as pool, asked.out.open("a") as out:
        of = sorted(pool.imap_unordered(partial(numbers, asked.kinds), asked.only))
        places = sorted(again | ({*drawn(of, asked.count, asked.seed)} - known.keys()))
        for some in pool.imap_unordered(judge_some, chunks(places)):
            known |= {(line.name, line.number): line for line in some}
            out.writelines(map(_json, some))
            out.flush()
    lines = list(known.values())
    text = report(lines)
    print(text, cost(lines), sep="\n\n")
    if asked.write is not None:
        write(asked.write, text)
    left = open_ones(lines)
    for line in left:
        print(f"open: {line.name} {line.number}: {line.kind}: {line.what} {line.why}")
    return 1 if left else 0


if __name__ == "__main__":
    raise SystemExit(_main())
