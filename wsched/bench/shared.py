"""Several matmuls of one operand, and batches: what one kernel is worth where it can be one.

``python -m wsched.bench.shared`` prints a line for each case: microseconds by
:func:`wsched.execute` and by what it is compared with,

- ``fronts``: ``silu(x · gateᵀ) * (x · upᵀ)``, beside wsched's own bare product of twice the columns
  (``bare``) and beside ``torch.compile`` (``compiled``);
- ``lists``: q, k and v of different widths, beside one product with concatenated weights, wsched's
  own (``bare``) and cuBLAS's (``torch``);
- ``batches``: products with a batch, and with one matrix for all of a batch, beside ``torch``.

Each is a graph of calls on operands that take turns, so that nothing is left in the L2.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wsched.bench.method.gpu import end_without_gpu
from wsched.bench.method.graphs import of_each, timed
from wsched.bench.method.operands import relative_error
from wsched.front.api import compile as compile_fusion
from wsched.front.api import execute
from wsched.front.written import definition, tensor_line
from wsched.fusion import DataType
from wsched.importer.linear import LINEAR

__all__ = ["CASES", "Case", "batch", "front", "list_of", "main", "report"]

_SETS = 2
"""Operands that take turns: those of every case are larger than the L2 together with results."""

_TOLERANCE = 6e-3
"""Largest relative Frobenius error against fp32, bf16 rounded twice on its way."""

Call = Callable[[Sequence[Any]], Any]


@dataclass(frozen=True, slots=True)
class Case:
    """What is computed, and by whom else.

    Args:
        name: of the case; the part comes first.
        text: the definition.
        sizes: of its inputs, which are bf16.
        wanted: the results in torch's words, of these inputs in any precision.
        peers: other ways that compute as much, by name; they are given the inputs, too.
    """

    name: str
    text: str
    sizes: tuple[tuple[int, ...], ...]
    wanted: Callable[..., Any]
    peers: tuple[str, ...]

    @property
    def part(self) -> str:
        """``fronts``, ``lists`` or ``batches``."""
        return self.name.split()[0]


def front(rows: int, width: int, k: int) -> Case:
    """A gated front: x [rows, k], gate and up [width, k]."""
    from torch.nn import functional

    sizes = ((rows, k), (width, k), (width, k))
    lines = (
        "g = fd.ops.linear(x0, x1)",
        "u = fd.ops.linear(x0, x2)",
        "f = fd.ops.cast(g, dtype=DataType.Float)",
        "n = fd.ops.neg(f)",
        "e = fd.ops.exp(n)",
        "a = fd.ops.add(e, 1.0)",
        "r = fd.ops.reciprocal(a)",
        "s = fd.ops.mul(f, r)",
        "v = fd.ops.cast(u, dtype=DataType.Float)",
        "p = fd.ops.mul(s, v)",
        "y = fd.ops.cast(p, dtype=DataType.BFloat16)",
    )

    def wanted(x: Any, gate: Any, up: Any) -> Any:
        return functional.silu(functional.linear(x, gate)) * functional.linear(x, up)

    name = f"fronts {rows}x(2x{width})x{k}"
    return Case(name, _text(sizes, lines, ("y",)), sizes, wanted, ("bare", "compiled"))


def list_of(rows: int, widths: Sequence[int], k: int) -> Case:
    """Products of x [rows, k] with weights [width, k] of each width."""
    import torch
    from torch.nn import functional

    sizes = ((rows, k), *((n, k) for n in widths))
    lines = [f"y{i} = fd.ops.linear(x0, x{i})" for i in range(1, len(sizes))]
    outputs = [f"y{i}" for i in range(1, len(sizes))]

    def wanted(x: Any, *weights: Any) -> Any:
        return functional.linear(x, torch.cat(weights))

    name = f"lists {rows}x({'+'.join(map(str, widths))})x{k}"
    return Case(name, _text(sizes, lines, outputs), sizes, wanted, ("bare", "torch"))


def batch(count: int, m: int, n: int, k: int, shared: bool = False) -> Case:
    """Products [count, m, k] · [count, k, n], or with [k, n] for all of them."""
    import torch

    sizes = ((count, m, k), (k, n) if shared else (count, k, n))
    text = _text(sizes, ("y = fd.ops.matmul(x0, x1)",), ("y",))
    name = f"batches {count}x{m}x{n}x{k}{' one matrix' if shared else ''}"
    return Case(name, text, sizes, torch.matmul, ("torch",))


def _text(sizes: Sequence[tuple[int, ...]], lines: Sequence[str], outputs: Sequence[str]) -> str:
    tensors = (tensor_line(f"x{i}", s, DataType.BFloat16) for i, s in enumerate(sizes))
    return definition(*tensors, *lines, outputs=outputs)


CASES: Mapping[str, Callable[[], Sequence[Case]]] = {
    "fronts": lambda: (front(8192, 14336, 4096), front(4096, 8192, 8192)),
    "lists": lambda: tuple(list_of(m, (4096, 1024, 1024), 4096) for m in (1024, 2048, 8192)),
    "batches": lambda: (
        batch(64, 1024, 1024, 1024),
        batch(16, 2048, 128, 2048),
        batch(16, 2048, 2048, 128),
        batch(128, 512, 512, 64),
        batch(64, 1024, 1024, 1024, shared=True),
    ),
}
"""Cases of each part: Llama 3 8B's layers, and batches of squares and of attention's shapes."""


def report(found: Mapping[str, Any]) -> str:
    """A line for a case."""
    us = found["us"]
    others = "  ".join(
        f"{n} {t:8.1f} us ({t / us['wsched']:.3f})" for n, t in us.items() if n != "wsched"
    )
    return f"{found['case']:34} {us['wsched']:8.1f} us  {others}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m wsched.bench.shared", description=__doc__)
    parser.add_argument("--parts", default=",".join(CASES), help="fronts,lists,batches")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    parts = options.parts.split(",")
    if unknown := [p for p in parts if p not in CASES]:
        parser.error(f"no part is called {unknown[0]!r}; there are {', '.join(CASES)}")
    end_without_gpu(parser)
    for case in (c for p in parts for c in CASES[p]()):
        found = _measured(case)
        print(json.dumps(found) if options.json else report(found), flush=True)
    return 0


def _measured(case: Case) -> dict[str, Any]:
    import torch

    torch.manual_seed(0)
    sets: list[Sequence[Any]] = []
    for _ in range(_SETS):
        drawn = [torch.randn(s, device="cuda", dtype=torch.bfloat16) for s in case.sizes]
        sets.append([drawn[0], *(w * w.shape[-1] ** -0.5 for w in drawn[1:])])
    calls: dict[str, tuple[Call, Sequence[Sequence[Any]]]]
    calls = {"wsched": (lambda values: execute(case.text, values), sets)}
    calls |= {name: _peer(case, name, sets) for name in case.peers}
    _check(case, sets[0])
    ways = {name: of_each(run, given) for name, (run, given) in calls.items()}
    return {"case": case.name, "us": timed(ways)}


def _peer(
    case: Case, name: str, sets: Sequence[Sequence[Any]]
) -> tuple[Call, Sequence[Sequence[Any]]]:
    """How another computes as much, and what it is given."""
    import torch

    if name == "compiled":
        made = torch.compile(case.wanted, mode="max-autotune-no-cudagraphs", dynamic=False)
        return (lambda values: made(*values)), sets
    if case.part == "batches":
        return (lambda values: torch.matmul(*values)), sets
    joined = [(x, torch.cat(weights)) for x, *weights in sets]
    if name == "torch":
        return (lambda values: torch.nn.functional.linear(*values)), joined
    kernel = compile_fusion(LINEAR, joined[0])
    return (lambda values: kernel(*values)), joined


def _check(case: Case, inputs: Sequence[Any]) -> None:
    """Compared with fp32; RuntimeError if it is wrong."""
    import torch

    results = execute(case.text, inputs)
    error = relative_error(
        torch.cat([r.float() for r in results], -1), case.wanted(*(t.float() for t in inputs))
    )
    if not error < _TOLERANCE:
        raise RuntimeError(f"{case.name} is wrong: {error}")


if __name__ == "__main__":
    raise SystemExit(main())
