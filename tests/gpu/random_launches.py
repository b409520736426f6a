"""Many random launches, judged one by one and summed up on one line.

``python -m tests.gpu.random_launches --count 3000 --seed 1 --seconds 300``
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Set
from time import perf_counter

from tests.gpu.cases import HEURISTIC, Case, check, draw, prepare
from tests.gpu.watchdog import watchdog
from tests.schedules import SCHEDULES

__all__ = ["launches", "main", "summary"]


def summary(count: int, wanted: int, seconds: float, done: Counter[str], bad: Counter[str]) -> str:
    """``3000 of 3000 launches in 120 s, none wrong: coop_128x256 41, ...``, the wrong ones first.

    Args:
        count: launches that were checked.
        wanted: launches that were asked for.
        seconds: that they took.
        done: launches by schedule.
        bad: wrong ones by schedule.
    """
    verdict = f"{bad.total()} WRONG" if bad else "none wrong"
    names = sorted(done, key=lambda name: (-bad[name], name))
    each = ", ".join(f"{n} {done[n]}" + (f" ({bad[n]} WRONG)" if bad[n] else "") for n in names)
    return f"{count} of {wanted} launches in {seconds:.0f} s, {verdict}: {each}"


def main(arguments: list[str]) -> int:
    """Run; exit status 1 if a launch was wrong or a schedule was never launched."""
    return launches(arguments, __doc__, draw, check, {HEURISTIC, *SCHEDULES})


def launches(
    arguments: list[str],
    what: str | None,
    draw: Callable[[int], Case],
    check: Callable[[Case], str],
    schedules: Set[str],
) -> int:
    """Draw cases, check them one by one, sum up; the exit status of the command.

    Args:
        arguments: of the command line.
        what: the command does.
        draw: the case of a seed.
        check: empty if a case is right, else what is wrong.
        schedules: those that a run of 500 cases or more has to meet.
    """
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--count", type=int, default=3000, help="launches")
    parser.add_argument("--seed", type=int, default=0, help="of the first launch; the rest follow")
    parser.add_argument("--seconds", type=float, default=300, help="stop after this time")
    parser.add_argument("--hang", type=float, default=30, help="seconds that one launch may take")
    options = parser.parse_args(arguments)
    # Far apart, so that two runs with neighbouring seeds do not repeat each other.
    cases = [draw(1_000_000 * (options.seed + 1) + i) for i in range(options.count)]
    begin = perf_counter()
    with watchdog(options.seconds, "compiling"):
        kernels = prepare(cases, threads=os.cpu_count() or 1)
    print(f"{len(kernels)} kernels in {perf_counter() - begin:.0f} s", flush=True)
    done: Counter[str] = Counter()
    bad: Counter[str] = Counter()
    for case in cases:
        if perf_counter() - begin > options.seconds:
            break
        with watchdog(options.hang, str(case)):
            wrong = check(case)
        done[case.schedule] += 1
        if wrong:
            bad[case.schedule] += 1
            print(f"WRONG {case}: {wrong}", flush=True)
    print(summary(done.total(), options.count, perf_counter() - begin, done, bad))
    missing = schedules - set(done) if done.total() >= 500 else set()
    if missing:
        print(f"never launched: {', '.join(sorted(missing))}")
    return 1 if bad or missing or not done else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
