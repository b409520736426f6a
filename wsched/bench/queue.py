"""Tiles dealt out in turn or at run time, while another kernel holds some of the multiprocessors.

``python -m wsched.bench.queue`` prints a line for each shape and number of held multiprocessors:
microseconds of the schedule that the heuristic takes, with ``DistributeTilesAcrossSMs`` and with
``DistributeTilesDynamically``, their ratio, and what the static time on a free device would become
if the work spread evenly over the multiprocessors that are left. The two take turns on the GPU.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

from wsched.bench.method.gpu import elapsed_us, end_without_gpu
from wsched.bench.method.hold import Held
from wsched.bench.method.statistic import in_turns
from wsched.bench.problem import Shape, parse_shapes
from wsched.front import api
from wsched.importer.linear import LINEAR
from wsched.schedule.matmul.params import MatmulParams, TilingStrategy

__all__ = ["HELD", "SHAPES", "main", "measure", "report", "variants"]

SHAPES = "8192x8192x8192,4096x4096x4096,2048x2048x2048,4096x3584x512,16384x2048x7168"
HELD = (0, 4, 16, 33, 66)
"""Multiprocessors of the other kernel: none, few, an eighth, a quarter, half of an H200's 132."""

_ROUNDS = 11
_CALLS = 4

Clock = Callable[[Callable[[], object]], float]


def variants(params: MatmulParams) -> dict[str, MatmulParams]:
    """One schedule with its tiles dealt out in both ways."""
    ways = TilingStrategy.DistributeTilesAcrossSMs, TilingStrategy.DistributeTilesDynamically
    names = ("static", "dynamic")
    known = replace(params, prefetched_steps=0)  # a queue tells a CTA its tiles
    return {n: replace(known, tiling_strategy=w) for n, w in zip(names, ways, strict=True)}


def measure(
    ways: Mapping[str, Callable[[], object]],
    held: AbstractContextManager[object],
    clock: Clock,
    rounds: int = _ROUNDS,
) -> dict[str, float]:
    """Median microseconds of a call of each way; they take turns, in each round in an order that is
    drawn, each within ``held``.
    """

    def timed(name: str) -> float:
        with held:
            return clock(ways[name])

    seen = in_turns(list(ways), rounds, "ways in turn", timed)
    return {name: median(us) for name, us in seen.items()}


def report(found: Mapping[str, Any]) -> str:
    """A line for a shape and a number of held multiprocessors."""
    us, sms, held = found["us"], found["sms"], found["held"]
    even = found["alone"] * sms / (sms - held)
    return (
        f"{found['shape']:18} {held:3} of {sms} held  static {us['static']:9.1f} us  dynamic "
        f"{us['dynamic']:9.1f}  ({us['static'] / us['dynamic']:.3f})  even share {even:9.1f}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m wsched.bench.queue", description=__doc__)
    parser.add_argument("--shapes", default=SHAPES, help="MxNxK,...")
    parser.add_argument("--held", default=",".join(map(str, HELD)), help="multiprocessors, N,...")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    end_without_gpu(parser)
    for shape in parse_shapes(options.shapes):
        for found in _shape(shape, [int(n) for n in options.held.split(",")]):
            print(json.dumps(found) if options.json else report(found), flush=True)
    return 0


def _shape(shape: Shape, counts: Sequence[int]) -> list[dict[str, Any]]:
    import torch

    x, w = (
        torch.randn(rows, shape.k, device="cuda", dtype=torch.bfloat16)
        for rows in (shape.m, shape.n)
    )
    wanted = torch.nn.functional.linear(x, w).float()
    ways: dict[str, Callable[[], object]] = {}
    for name, params in variants(api.compile(LINEAR, [x, w]).params).items():
        launch = api.compile(LINEAR, [x, w], params=params).bind(x, w)
        (d,) = launch()
        error = (d.float() - wanted).norm() / wanted.norm()
        if not error < 0.01:
            raise RuntimeError(f"{name} is wrong: {error}")
        ways[name] = launch
    clock = partial(elapsed_us, calls=_CALLS)
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    alone = measure(ways, Held(0), clock)["static"]
    return [
        {"shape": str(shape), "held": n, "sms": sms, "alone": alone,
         "us": measure(ways, Held(n), clock)}
        for n in counts
    ]  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
