"""Random launches of kernels whose CTAs add up parts of tiles: right, and always the same bits.

``python -m tests.gpu.random_splits --count 3000 --seed 1 --seconds 300``

Each case is launched on two streams at once and by a captured graph that is replayed; all results
have to be right (those of the first launch are judged) and equal bit by bit.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from time import perf_counter
from typing import Any

import wsched
from tests.gpu.cases import Case, difference, draw, matrix, operands_of, prepare
from tests.gpu.watchdog import watchdog
from tests.schedules import SCHEDULES, definition

__all__ = ["SPLITS", "check_splits", "draw_split", "main", "summary"]

SPLITS = tuple(sorted(name for name, params in SCHEDULES.items() if params.combines))
REPLAYS = 3


def draw_split(seed: int) -> Case:
    """A case on one of the schedules that split tiles; half of them with a long K."""
    rng = random.Random(seed)
    case = replace(draw(seed), schedule=rng.choice(SPLITS))
    if rng.random() < 0.5:
        return replace(case, k=8 * rng.randint(128, 1024), m=min(case.m, 512))
    return case


def check_splits(case: Case, streams: list[Any], sms: int) -> str:
    """Launch a case on each stream and in a graph; empty if all is right, else what is wrong."""
    import torch

    operands = operands_of(case)
    results = [
        matrix(case.m, case.n, case.result, case.padding) for _ in range(len(streams) + REPLAYS)
    ]
    params = case.params(sms)
    kernel = wsched.compile(definition(case.operand, case.result), operands, params=params)
    torch.cuda.synchronize()
    for stream, d in zip(streams, results, strict=False):
        with torch.cuda.stream(stream):
            kernel(*operands, out=[d])
            kernel(*operands, out=[d])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=streams[0]):
        for d in results[len(streams) :]:
            kernel(*operands, out=[d])
    for _ in range(REPLAYS):
        graph.replay()
    torch.cuda.synchronize()
    wrong = difference(case, *operands, results[0])
    if wrong:
        return wrong
    for i, d in enumerate(results[1:], 1):
        if not torch.equal(d, results[0]):
            return f"launch {i} has {int((d != results[0]).sum())} other elements than the first"
    return ""


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


def launches(arguments: list[str], check: Callable[[Case], str]) -> int:
    """Draw cases, check them one by one, sum up; the exit status of the command.

    Args:
        arguments: of the command line.
        check: empty if a case is right, else what is wrong.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=3000, help="launches")
    parser.add_argument("--seed", type=int, default=0, help="of the first launch; the rest follow")
    parser.add_argument("--seconds", type=float, default=300, help="stop after this time")
    parser.add_argument("--hang", type=float, default=30, help="seconds that one launch may take")
    options = parser.parse_args(arguments)
    # Far apart, so that two runs with neighbouring seeds do not repeat each other.
    cases = [draw_split(1_000_000 * (options.seed + 1) + i) for i in range(options.count)]
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
    missing = set(SPLITS) - set(done) if done.total() >= 500 else set()
    if missing:
        print(f"never launched: {', '.join(sorted(missing))}")
    return 1 if bad or missing or not done else 0


def main(arguments: list[str]) -> int:
    """Run; exit status 1 if a launch was wrong or a schedule was never launched."""
    import torch

    @cache  # made at the first case: --help needs no GPU
    def gpu() -> tuple[list[Any], int]:
        sms = torch.cuda.get_device_properties(0).multi_processor_count
        return [torch.cuda.Stream() for _ in range(2)], sms

    def judge(case: Case) -> str:
        return check_splits(case, *gpu())

    return launches(arguments, judge)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
