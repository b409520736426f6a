"""Linears whose weights have 8 bits, or 4, beside cuBLAS with weights of 16: ``wsched.linear`` of
bf16 and int8, e4m3 or integers of 4 bits with a scale for each output column, and
``torch.nn.functional.linear`` in bf16. With ``--group 128`` a scale is for each so many of K of a
column.

``python -m wsched.bench.weights`` measures few rows by 8192x8192 weights, which rotate over more
than 256 MiB on either side, so that no cache holds them. Both sides are captured in CUDA graphs,
which are replayed in turn. A line has the median of the rounds' ratios, microseconds of both and
of weights that are widened first (``widened``), and the error against fp32. With ``--best n`` the
``n`` schedules that are predicted to be fastest take turns, too: a line each, with what was
predicted.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import wsched
from wsched.bench.method.appended import append
from wsched.bench.method.gpu import elapsed_us, end_without_gpu
from wsched.bench.method.operands import relative_error
from wsched.bench.method.statistic import geometric_mean, paired_ratios
from wsched.bench.narrow import captured, compared
from wsched.bench.problem import Shape, parse_shapes
from wsched.choose.heuristics import candidates
from wsched.doors.fallback.torch_products import along_k
from wsched.front.linear import linear_call
from wsched.front.problems import problem_of
from wsched.importer.scales import GROUPS

__all__ = ["ROTATED", "SHAPES", "TYPES", "main", "report", "sets_of", "widened_first"]

SHAPES = tuple(Shape(m, 8192, 8192) for m in (16, 32, 64, 128))
TYPES = ("int8", "float8_e4m3fn", "int4")

ROTATED = 256 * 2**20
"""Bytes of weights among which launches rotate, at least."""

Call = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class _Side:
    """A way to compute, and sets of arguments to rotate among."""

    call: Call
    sets: list[tuple[Any, ...]]


def sets_of(shape: Shape, bits: int) -> int:
    """Sets of weights with elements of so many bits that are rotated among."""
    return max(2, 8 * ROTATED // (shape.n * shape.k * bits) + 1)


def report(found: dict[str, Any]) -> list[str]:
    """The lines of a shape and a type."""
    us = {name: median(times) for name, times in found["us"].items()}
    shown = ", ".join(f"{name} {t:.1f}" for name, t in us.items())
    head = f"{found['shape']:16} {found['type']:14} {found['ratio']:.3f} of cuBLAS bf16"
    lines = [f"{head}  us: {shown}  error {found['error']:.2e}  {found['kernel']}"]
    predicted = found.get("predicted", {})
    return lines + [f"  {name}: {us[name]:.1f} us, predicted {t:.1f}"
                    for name, t in predicted.items()]  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m wsched.bench.weights", description=__doc__)
    parser.add_argument("--shapes", help="MxNxK,...; by default 16 to 128 by 8192x8192")
    parser.add_argument("--types", help=f"of weights, with commas between: {','.join(TYPES)}")
    parser.add_argument("--group", type=int, choices=GROUPS, help="K of a scale; by default all")
    parser.add_argument("--best", type=int, default=0, help="schedules that take turns as well")
    parser.add_argument("--json", type=Path, help="file for all numbers, a line each")
    options = parser.parse_args(arguments)
    end_without_gpu(parser)
    import torch

    shapes = parse_shapes(options.shapes) if options.shapes else SHAPES
    found = []
    for dtype in (options.types or ",".join(TYPES)).split(","):
        for shape in shapes:
            found.append(_measured(torch, shape, dtype, options))
            print("\n".join(report(found[-1])), flush=True)
            if options.json:
                append(options.json, found[-1])
    for dtype in dict.fromkeys(x["type"] for x in found):
        ratios = [x["ratio"] for x in found if x["type"] == dtype]
        print(f"{dtype:14} {geometric_mean(ratios):.3f} in geometric mean, {min(ratios):.3f}")
    return 0


def _measured(torch: Any, shape: Shape, dtype: str, options: argparse.Namespace) -> dict[str, Any]:
    """The times of a shape with weights of a type."""
    group = options.group
    narrow = _operands(torch, shape, dtype, group)
    x, w, scale = narrow[0]
    wide = [(x, _wide(torch, w)) for x, w, _ in narrow[: sets_of(shape, 16)]]
    text, inputs = linear_call(x, w, scale, group=group)
    kernel = wsched.compile(text, inputs)
    sides = {
        "wsched": _Side(partial(wsched.linear, group=group), narrow),
        "cuBLAS": _Side(torch.nn.functional.linear, wide),
        "widened": _Side(widened_first(torch, group), narrow),
    }
    priced = candidates(problem_of(kernel.fusion, inputs))[: options.best]
    predicted = dict[str, float]()
    for candidate in priced:
        own = wsched.compile(text, inputs, params=candidate.params)
        name = own.kernel.name.removeprefix("matmul_")
        if name not in sides:
            sides[name] = _Side(lambda *a, own=own: own(*a)[0], narrow)
            predicted[name] = candidate.cost.us
    graphs = {name: captured(torch, s.call, s.sets) for name, s in sides.items()}
    launches = {name: count for name, (_, count) in graphs.items()}
    replays = {name: graph.replay for name, (graph, _) in graphs.items()}
    times = compared(replays, elapsed_us, f"{shape} {dtype}")
    us = {name: [t / launches[name] for t in ts] for name, ts in times.items()}
    wanted = x.float() @ (wide[0][1].float() * _spread(scale, shape.k, group)).T
    return {
        "shape": str(shape),
        "type": dtype if group is None else f"{dtype} by {group}",
        "ratio": median(paired_ratios(us["cuBLAS"], us["wsched"])),
        "us": us,
        "predicted": predicted,
        "error": relative_error(sides["wsched"].call(x, w, scale), wanted),
        "kernel": kernel.kernel.name,
    }


def _operands(torch: Any, shape: Shape, dtype: str, group: int | None) -> list[tuple[Any, ...]]:
    """Rows, weights and scales."""
    cuda = {"device": "cuda", "generator": torch.Generator("cuda").manual_seed(0)}
    words = dtype == "int4"
    scales = (shape.n,) if group is None else (shape.n, -(-shape.k // group))
    kind = torch.int32 if words else getattr(torch, dtype)
    found = []
    for _ in range(sets_of(shape, 4 if words else 8)):
        x = torch.randn(shape.m, shape.k, dtype=torch.bfloat16, **cuda)
        if words:
            w = torch.randint(-(2**31), 2**31, (shape.n, shape.k // 8), dtype=kind, **cuda)
        elif kind.is_floating_point:
            w = torch.randn(shape.n, shape.k, dtype=torch.bfloat16, **cuda).to(kind)
        else:
            w = torch.randint(-128, 128, (shape.n, shape.k), dtype=kind, **cuda)
        found.append((x, w, torch.rand(scales, **cuda) + 0.5))
    return found


def _wide(torch: Any, w: Any) -> Any:
    """Weights of 16 bits."""
    if w.dtype is torch.int32:
        shifts = torch.arange(0, 32, 4, dtype=torch.int32, device=w.device)
        w = (w[:, :, None] >> shifts & 15).flatten(1)
    return w.to(torch.bfloat16)


def _spread(scale: Any, k: int, group: int | None) -> Any:
    """Scales, [N, 1] of columns, [N, K] of groups of K."""
    return scale[:, None] if group is None else along_k(scale, group, k)


def widened_first(torch: Any, group: int | None) -> Call:
    """A kernel that widens the weights, then cuBLAS; scales of columns behind, as a third one, of
    groups in front.
    """

    def call(x: Any, w: Any, scale: Any) -> Any:
        wide = _wide(torch, w)
        if group is not None:
            scaled = wide * _spread(scale, wide.shape[1], group).to(x.dtype)
            return torch.nn.functional.linear(x, scaled)
        return torch.nn.functional.linear(x, wide) * scale.to(x.dtype)

    return call


if __name__ == "__main__":
    raise SystemExit(main())
