"""RMSNorm in front of a linear: normalised first, or with its factors behind the product.

``python -m wsched.bench.norms`` prints a line for each shape: microseconds of all kernels of a
call, statistics included,

- ``nvfuser``: nvFuser's norm kernel, then cuBLAS, as its ``execute`` does it;
- ``first``: nvFuser's norm kernel, then wsched's matmul;
- ``behind``: wsched's statistics, the norm's weight into the linear's in each call, the product
  scaled in its kernel;
- ``folded``: likewise, but the weights have been multiplied before, as a model whose weights stay
  can have it.

Each is a graph of calls on operands that take turns, so that nothing is left in the L2.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wsched.bench.method.gpu import end_without_gpu
from wsched.bench.method.graphs import of_each, timed
from wsched.bench.method.operands import relative_error
from wsched.bench.problem import Shape, parse_shapes
from wsched.doors.fallback import execute, rebuild
from wsched.front.cut.choose import least
from wsched.front.cut.predict import Call
from wsched.front.cut.program import make
from wsched.front.cut.route import rest_by
from wsched.front.cut.segments import Cutter
from wsched.front.cut.sizes import bind_extents
from wsched.importer import record_text

__all__ = ["SHAPES", "WAYS", "definition", "main", "report", "run_of"]

SHAPES = "8192x4096x4096,8192x1280x8192,4096x4096x4096,2048x4096x4096"
WAYS = ("nvfuser", "first", "behind", "folded")

_SETS = 3
"""Operands that take turns."""

_EPS = 1e-5


def definition(shape: Shape, weight: bool = True) -> str:
    """The text of a norm and a linear; inputs are x, the linear's weight, and the norm's weight.

    Args:
        shape: of the matmul.
        weight: whether the norm has one.
    """
    m, n, k = shape.m, shape.n, shape.k
    tensors = [("x", (m, k)), ("w", (n, k)), *([("g", (k,))] if weight else [])]
    lines = [
        f"{name} = fd.define_tensor(shape={list(sizes)}, contiguity={[True] * len(sizes)}, "
        "dtype=DataType.BFloat16, is_cpu=False)"
        for name, sizes in tensors
    ]
    lines += [
        "f = fd.ops.cast(x, dtype=DataType.Float)",
        "q = fd.ops.mul(f, f)",
        "s = fd.ops.sum(q, dims=[1], keepdim=False, dtype=DataType.Null)",
        f"b = fd.ops.broadcast_in_dim(s, shape=[{m}, 1], broadcast_dims=[0])",
        f"v = fd.ops.mul(b, {1 / k!r})",
        f"a = fd.ops.add(v, {_EPS!r})",
        "r = fd.ops.rsqrt(a)",
        f"e = fd.ops.broadcast_in_dim(r, shape=[{m}, {k}], broadcast_dims=[0, 1])",
        "p = fd.ops.mul(f, e)",
    ]
    if weight:
        lines += [
            f"d = fd.ops.broadcast_in_dim(g, shape=[{m}, {k}], broadcast_dims=[1])",
            "c = fd.ops.cast(d, dtype=DataType.Float)",
            "t = fd.ops.mul(p, c)",
        ]
    lines += [
        f"h = fd.ops.cast({'t' if weight else 'p'}, dtype=DataType.BFloat16)",
        "y = fd.ops.linear(h, w)",
        "fd.add_output(y)",
    ]
    head = "def nvfuser_fusion(fd : FusionDefinition) -> None :"
    return "\n".join([head, *(f"    {line}" for line in lines), ""])


def run_of(text: str, inputs: Sequence[Any], behind: bool) -> Callable[[Sequence[Any]], Any]:
    """How the definition runs in its best cut.

    Args:
        text: of :func:`definition`.
        inputs: of the class for which it is made ready.
        behind: whether the norm's factors are behind the product.
    """
    cutter = Cutter(record_text(text))
    cutter = cutter.with_moved(cutter.moves) if behind else cutter
    names = (n.results[0] for n in cutter.definition.inputs)
    given = dict(zip(names, inputs, strict=True))
    tensors, device = cutter.graph.types, inputs[0].device
    sizes = bind_extents(cutter.definition, tensors, inputs)
    segments = least(cutter, Call(tensors, sizes, given=given, device=device), False).cut.segments
    made = make(cutter.definition, tensors, segments, inputs, lambda s, d: rest_by(s, d)[1])
    return lambda values: made.run(values, None)


def report(found: Mapping[str, Any]) -> str:
    """A line for a shape."""
    us = found["us"]
    best = min(us["nvfuser"], us["first"])
    times = "  ".join(f"{name} {us[name]:8.1f}" for name in WAYS)
    gains = "  ".join(f"{name} {best / us[name]:.3f}" for name in WAYS[2:])
    return f"{found['shape']:18} {times} us; of the best that normalises first: {gains}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m wsched.bench.norms", description=__doc__)
    parser.add_argument("--shapes", default=SHAPES, help="MxNxK,...")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    end_without_gpu(parser)
    for shape in parse_shapes(options.shapes):
        found = _measured(shape)
        print(json.dumps(found) if options.json else report(found), flush=True)
    return 0


def _measured(shape: Shape) -> dict[str, Any]:
    import torch

    with_weight, without = definition(shape), definition(shape, weight=False)
    sets = []
    for _ in range(_SETS):
        x, w = (torch.randn(rows, shape.k, device="cuda") for rows in (shape.m, shape.n))
        g = torch.rand(shape.k, device="cuda") + 0.5
        sets.append(tuple(t.bfloat16() for t in (x, w * shape.k**-0.5, g)))
    folded = [(x, (w.float() * g.float()).bfloat16()) for x, w, g in sets]
    fd = rebuild(record_text(with_weight))
    runs: dict[str, tuple[Callable[[Sequence[Any]], Any], Sequence[Sequence[Any]]]] = {
        "nvfuser": (lambda values: execute(fd, values), sets),
        "first": (run_of(with_weight, sets[0], behind=False), sets),
        "behind": (run_of(with_weight, sets[0], behind=True), sets),
        "folded": (run_of(without, folded[0], behind=True), folded),
    }
    errors = {name: _error(run(given[0]), *sets[0]) for name, (run, given) in runs.items()}
    ways = {name: of_each(run, given) for name, (run, given) in runs.items()}
    return {"shape": str(shape), "us": timed(ways), "errors": errors}


def _error(results: Sequence[Any], x: Any, w: Any, g: Any) -> float:
    """Compared with fp64; RuntimeError if it is wrong."""
    wide = x.double()
    wanted = (wide * (wide.pow(2).mean(1, keepdim=True) + _EPS).rsqrt() * g.double()) @ w.double().T
    error = relative_error(results[0], wanted)
    if not error < 0.01:
        raise RuntimeError(f"a norm in front of a linear is wrong: {error}")
    return error


if __name__ == "__main__":
    raise SystemExit(main())
