"""What reductions beside a result cost: the same matmul with and without them, in turn.

``python -m wsched.bench.reductions`` prints a line for each shape and reduction: microseconds of
the matmul alone, and how much longer it takes with the schedule that it has beside the reduction,
with the parts of the reduction, and with what puts them together. Each is graphs of launches on
operands that take turns, so that nothing is left in the L2. All reductions of a shape take turns,
beside one matmul alone, because a GPU's clock drifts from one minute to the next.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from lowering.ground.errors import InternalError, ScheduleError
from wsched.bench.method.gpu import end_without_gpu
from wsched.bench.method.graphs import timed
from wsched.bench.problem import Shape, parse_shapes
from wsched.front import api
from wsched.importer.linear import LINEAR
from wsched.run.compiled import CompiledFusion
from wsched.run.host import BoundLaunch
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["REDUCTIONS", "SHAPES", "definition", "main", "report"]

SHAPES = "8192x8192x8192,8192x4096x4096,8192x4096x2048,4096x4096x2048,8192x4096x512,4096x14336x512"

REDUCTIONS = {
    "columns": "s = fd.ops.sum(f, dims=[0], keepdim=False, dtype=DataType.Null)",
    "rows": "s = fd.ops.sum(f, dims=[1], keepdim=False, dtype=DataType.Null)",
    "squares": "q = fd.ops.mul(f, f)\n"
               "    s = fd.ops.sum(q, dims=[1], keepdim=False, dtype=DataType.Null)",
    "amax": "a = fd.ops.abs(f)\n"
            "    s = fd.ops.max(a, dims=[0, 1], keepdim=False, dtype=DataType.Null)",
    "norm": "q = fd.ops.mul(f, f)\n"
            "    s = fd.ops.sum(q, dims=[0, 1], keepdim=False, dtype=DataType.Null)",
}  # fmt: skip
"""A bias gradient, sums of rows, a norm's statistics, the scale and the norm of a tensor."""

_ALONE = "alone"
_SETS = 3
"""Operands that take turns; of the smallest shape they are larger than the L2 together with what
is written."""


def definition(reduction: str) -> str:
    """The text of a linear with a reduction of its result, a key of :data:`REDUCTIONS`."""
    plain = LINEAR.replace("tv2", "y").replace("    fd.add_output(y)\n", "")
    lines = ("f = fd.ops.cast(y, dtype=DataType.Float)", *REDUCTIONS[reduction].splitlines())
    lines = (*lines, "fd.add_output(y)", "fd.add_output(s)")
    return plain + "".join(f"    {line.strip()}\n" for line in lines)


def report(found: Mapping[str, Any]) -> str:
    """A line for a shape and a reduction."""
    us = found["us"]
    alone, more = us[_ALONE], {name: us[name] / us[_ALONE] - 1 for name in us}
    return (
        f"{found['shape']:18} {found['reduction']:8} alone {alone:8.1f} us  with its schedule "
        f"{more['same']:+.1%}  with its parts {more['kernel']:+.1%}  and put together "
        f"{more['whole']:+.1%}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m wsched.bench.reductions", description=__doc__)
    parser.add_argument("--shapes", default=SHAPES, help="MxNxK,...")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    end_without_gpu(parser)
    for shape in parse_shapes(options.shapes):
        for found in _measured(shape):
            print(json.dumps(found) if options.json else report(found), flush=True)
    return 0


def _measured(shape: Shape) -> list[dict[str, Any]]:
    """What is found of each reduction, all of them and the matmul alone in the same rounds."""
    import torch

    sets = []
    for _ in range(_SETS):
        x, w = (torch.randn(rows, shape.k, device="cuda").bfloat16() for rows in (shape.m, shape.n))
        sets.append((x, w * shape.k**-0.5))
    bare = api.compile(LINEAR, sets[0])
    kernels = {name: api.compile(definition(name), sets[0]) for name in REDUCTIONS}
    ways = {_ALONE: partial(_bound, bare, sets)}
    for name, kernel in kernels.items():
        _check(kernel(*sets[0]), name, *sets[0])
        same = _bare(sets[0], kernel.params)
        for part, of in (("same", same), ("kernel", kernel.alone), ("whole", kernel)):
            ways[f"{name} {part}"] = partial(_bound, of, sets)
    us = timed(ways)
    found = []
    for name, kernel in kernels.items():
        own = {_ALONE: us[_ALONE]} | {p: us[f"{name} {p}"] for p in ("same", "kernel", "whole")}
        params = {_ALONE: bare.params.to_dict(), "kernel": kernel.params.to_dict()}
        found.append({"shape": str(shape), "reduction": name, "us": own, "params": params})
    return found


def _bound(kernel: CompiledFusion, sets: Sequence[Sequence[Any]]) -> list[BoundLaunch]:
    """Launches with results of their own."""
    return [kernel.bind(*s) for s in sets]


def _bare(inputs: Sequence[Any], params: MatmulParams) -> CompiledFusion:
    """The matmul alone in the same schedule.

    Its chunks are wider, so there may be fewer than buffers.
    """
    for buffers in (params.epilogue_stages, 1):
        try:
            return api.compile(LINEAR, inputs, params=replace(params, epilogue_stages=buffers))
        except ScheduleError:
            continue
    raise InternalError("reductions", f"no matmul alone has the schedule {params}")


def _check(results: Sequence[Any], reduction: str, x: Any, w: Any) -> None:
    """Compare with fp32; RuntimeError if it is wrong."""
    y = x.float() @ w.float().T
    wanted = {
        "columns": lambda: y.sum(0), "rows": lambda: y.sum(1), "squares": lambda: (y * y).sum(1),
        "amax": lambda: y.abs().amax(), "norm": lambda: (y * y).sum(),
    }[reduction]()  # fmt: skip
    error = (results[1] - wanted).norm() / wanted.norm()
    if not error < 0.01:
        raise RuntimeError(f"{reduction} is wrong: {error}")


if __name__ == "__main__":
    raise SystemExit(main())
