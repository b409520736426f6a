"""Operands that TMA cannot read: copied for wsched's kernel, or read as they lie by cuBLAS.

``python -m wsched.bench.unaligned`` measures what the constants of :mod:`wsched.run.copies` say:
how fast a copy is, and how fast cuBLAS is on rows that start at odd addresses. Each line is a
shape: microseconds of the copies alone, of torch's in their place, of copies and kernel, of kernels
whose threads load both operands where they lie (the fastest of a few schedules), of cuBLAS and of
nvFuser on the same tensors (nvFuser takes cuBLAS; what it adds is on the host), and the way
that wsched predicts to be faster. The ways take turns on the GPU.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

from lowering.ground.errors import ScheduleError, UnsupportedError
from wsched.bench.method.gpu import elapsed_us, end_without_gpu
from wsched.bench.method.statistic import in_turns
from wsched.choose.heuristics import ranked
from wsched.doors.fallback.nvfuser import rebuild
from wsched.front import api
from wsched.front.known import import_fusion, recorded
from wsched.front.problems import problem_of
from wsched.fusion import Fusion
from wsched.importer.linear import LINEAR
from wsched.program.prepare import prepare, torch_copy
from wsched.run.compiled import CompiledFusion
from wsched.run.copies import alone, copies, in_front, thread_bytes, unreadable
from wsched.run.registers import compile_clean
from wsched.run.row_copy import copy_rows
from wsched.schedule.matmul.params import ClusterDims, MatmulParams, ThreadLoads

__all__ = ["SHAPES", "main", "measure", "report"]

SHAPES = (
    (16, 512, 511), (256, 512, 511), (1024, 1024, 1023), (16, 4096, 4095), (16, 8192, 8191),
    (128, 4096, 4095), (128, 8192, 8191), (512, 4096, 4095), (512, 8192, 8191), (2048, 2048, 2047),
    (4096, 4096, 4095), (4096, 8192, 511), (8192, 8192, 8191),
)  # fmt: skip
"""M, N, K with rows of an odd number of elements, from few rows on."""

_ROUNDS, _LEAST_CALLS, _ROUND_US = 11, 3, 2000.0


def measure(
    ways: Mapping[str, Callable[[], object]], clock: Callable[[Callable[[], object], int], float]
) -> dict[str, float]:
    """Median microseconds of each way, which take turns in orders that are drawn.

    Args:
        ways: name -> one call.
        clock: microseconds of a call, from so many of them in a row.
    """
    calls = dict.fromkeys(ways, 1)
    for name, way in ways.items():
        way()
        calls[name] = max(_LEAST_CALLS, int(_ROUND_US / max(clock(way, 1), 1.0)))
    timed = lambda name: clock(ways[name], calls[name])  # noqa: E731
    seen = in_turns(list(ways), _ROUNDS, "ways in turn", timed)
    return {name: median(us) for name, us in seen.items()}


def report(found: Mapping[str, Any]) -> str:
    """A line for a shape."""
    m, n, k = found["shape"]
    us = found["us"]
    moved, flops = found["bytes"] / us["copies"] / 1e6, 2 * m * n * k / us["cublas"] / 1e6
    return (
        f"{f'{m}x{n}x{k}':16} copies {us['copies']:8.1f} us ({moved:5.2f} TB/s)  "
        f"torch's {us['torch']:8.1f}  copies and kernel {us['wsched']:8.1f}  "
        f"by threads {us['threads']:8.1f} ({found['threads']})  "
        f"cuBLAS {us['cublas']:8.1f} ({flops:4.0f} TFLOP/s)  nvFuser {us['nvfuser']:8.1f}  "
        f"predicted faster: {'nvFuser' if found['refused'] else 'copies'}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m wsched.bench.unaligned", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    end_without_gpu(parser)
    for shape in SHAPES:
        found = _shape(*shape)
        print(json.dumps(found) if options.json else report(found), flush=True)
    return 0


def _shape(m: int, n: int, k: int) -> dict[str, Any]:
    import torch

    x, w = (torch.randn(rows, k, device="cuda", dtype=torch.bfloat16) for rows in (m, n))
    fusion = import_fusion(LINEAR)
    kernel = api.compile(LINEAR, [x, w])
    moved = alone(in_front(kernel.plan, kernel.kernel.name, unreadable(fusion, [x, w])))
    front, by_torch = (prepare(moved, {}, {}, [x, w], copy) for copy in (copy_rows, torch_copy))
    definition = rebuild(recorded(LINEAR))
    tried = {_name(made.params): made for made in _by_threads(fusion, (x, w))}
    alone_us = {name: elapsed_us(partial(made, x, w), 20) for name, made in tried.items()}
    fastest = min(alone_us, key=alone_us.__getitem__)
    ways = {
        "threads": lambda: tried[fastest](x, w),
        "copies": lambda: front([x, w]),
        "torch": lambda: by_torch([x, w]),
        "wsched": lambda: kernel(x, w),
        "cublas": lambda: torch.nn.functional.linear(x, w),
        "nvfuser": lambda: definition.execute([x, w]),
    }
    nbytes = sum(c.bytes for c in copies(fusion, [x, w]))
    refused = api.explain(LINEAR, [x, w]).route != "wsched"
    us = measure(ways, elapsed_us)
    return {"shape": [m, n, k], "us": us, "bytes": nbytes, "refused": refused, "threads": fastest}


def _name(params: MatmulParams) -> str:
    turns = " in turns" if params.ping_pong else ""
    parts = f" parts {params.splitk_factor}" if params.splitk_factor > 1 else ""
    return f"{params.output_tile}{turns}{parts}, {params.thread_loads.warpgroups} load"


def _by_threads(fusion: Fusion, inputs: Sequence[Any]) -> list[CompiledFusion]:
    """Kernels whose threads load both operands, that compile without spills: of the ten schedules
    by TMA that are predicted to be the fastest, with one warpgroup that loads and with two.
    """
    a, b = map(thread_bytes, inputs)
    found: dict[MatmulParams, CompiledFusion] = {}
    for _, params in ranked(problem_of(fusion, inputs)):
        for groups in (1, 2):
            loads = ThreadLoads(a, b, groups)
            tried = replace(params, thread_loads=loads, cluster_dims=ClusterDims())
            if len(found) >= 20 or tried in found:
                continue
            try:
                found[tried] = compile_clean(fusion, tried)
            except (ScheduleError, UnsupportedError):
                continue
    return list(found.values())


if __name__ == "__main__":
    raise SystemExit(main())
