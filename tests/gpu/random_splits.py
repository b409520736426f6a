"""Random launches of kernels whose CTAs add up parts of tiles: right, and always the same bits.

``python -m tests.gpu.random_splits --count 3000 --seed 1 --seconds 300``

Each case is launched on two streams at once and by a captured graph that is replayed; all results
have to be right (those of the first launch are judged) and equal bit by bit.
"""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from functools import cache
from typing import Any

import wsched
from tests.gpu.cases import Case, difference, draw, matrix, operands_of
from tests.gpu.random_launches import launches
from tests.schedules import SCHEDULES, definition

__all__ = ["SPLITS", "check_splits", "draw_split", "main"]

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


def main(arguments: list[str]) -> int:
    """Run; exit status 1 if a launch was wrong or a schedule was never launched."""
    import torch

    @cache  # made at the first case: --help needs no GPU
    def gpu() -> tuple[list[Any], int]:
        sms = torch.cuda.get_device_properties(0).multi_processor_count
        return [torch.cuda.Stream() for _ in range(2)], sms

    def judge(case: Case) -> str:
        return check_splits(case, *gpu())

    return launches(arguments, __doc__, draw_split, judge, set(SPLITS))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
