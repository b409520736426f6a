"""``wsched bench moe``: the grouped matmuls of layers of experts, beside torch's.

Of each layer gate and up with ``silu(g) * u``, and down, are computed by ``wsched.grouped_mm`` and
by ``torch._grouped_mm`` with torch's pointwise operations between; up alone shows the bare matmul,
and the gradient of up a sum over groups, of rows as they lie in a backward pass.
The rows are those that a routing of so many tokens gives to experts, from a seed. With ``--layer``
the layer is computed as a whole (:mod:`wsched.bench.experts`), also by ``torch.compile``. Ways take
turns, in an order that is drawn for each round; calls are eager, and timed from a synchronization
to the next one. Behind the times their cycles are counted, which no clock moves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import typer
from rich.console import Console

from lowering.ground.errors import UnsupportedError
from wsched.bench.experts import ADDED, TORCH, WSCHED, Part, parts_of, whole_of
from wsched.bench.gemm.results import check_path, save
from wsched.bench.method.cycles import Counted, CycleCounter, counted, told
from wsched.bench.method.environment import environment
from wsched.bench.method.gpu import require_gpu
from wsched.bench.method.operands import relative_error
from wsched.bench.mlp import times_of

__all__ = ["LAYERS", "ROUTINGS", "Layer", "Row", "moe", "report", "rows_of"]

TOLERANCE = 1e-2
"""Largest relative Frobenius difference of bf16 results."""


@dataclass(frozen=True, slots=True)
class Layer:
    """The experts of a model.

    Args:
        experts: how many there are.
        chosen: of them for each token.
        width: columns of tokens.
        hidden: columns between gate or up, and down.
    """

    experts: int
    chosen: int
    width: int
    hidden: int


LAYERS = {
    "mixtral-8x7b": Layer(8, 2, 4096, 14336),
    "llama-4-scout": Layer(16, 1, 5120, 8192),
    "deepseek-v3": Layer(256, 8, 7168, 2048),
    "qwen3-235b": Layer(128, 8, 4096, 1536),
}
"""By the name of the model: its published configuration."""

ROUTINGS = ("uniform", "skewed", "one")
"""Each expert is as likely; the i-th is 1/i as likely; all rows are one expert's."""


@dataclass(frozen=True, slots=True)
class Row:
    """A part of a layer.

    Args:
        layer: its model.
        routing: of the tokens.
        part: ``up``, ``gate and up``, ``down`` or ``gradient of up``.
        rows: of all experts.
        experts: that have rows.
        flops: floating-point operations.
        us: microseconds of a call of each way.
        error: relative difference of the results.
        cycles: of a call of each way, if they were counted.
    """

    layer: str
    routing: str
    part: str
    rows: int
    experts: int
    flops: int
    us: dict[str, float]
    error: float
    cycles: dict[str, Counted] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """How much faster wsched is than the fastest other way."""
        others = (us for way, us in self.us.items() if way not in (WSCHED, ADDED))
        return min(others) / self.us[WSCHED]


def choices_of(routing: str, layer: Layer, tokens: int, seed: int) -> list[list[int]]:
    """The experts of each token: so many different ones, or the first as often."""
    if routing == "one":
        return [[0] * layer.chosen for _ in range(tokens)]
    draw, places = Random(seed), range(layer.experts)
    weights = [1.0 if routing == "uniform" else 1 / (i + 1) for i in places]
    found = []
    for _ in range(tokens):
        # The largest of u ** (1 / w): so many different ones, with these weights.
        keys = [draw.random() ** (1 / w) for w in weights]
        found.append(sorted(places, key=keys.__getitem__)[-layer.chosen :])
    return found


def rows_of(routing: str, layer: Layer, tokens: int, seed: int) -> list[int]:
    """Rows of each expert."""
    counts = Counter(e for some in choices_of(routing, layer, tokens, seed) for e in some)
    return [counts[e] for e in range(layer.experts)]


def moe(
    layers: str = typer.Option(",".join(LAYERS), help="Of " + ", ".join(LAYERS)),
    routings: str = typer.Option(",".join(ROUTINGS), help="Of " + ", ".join(ROUTINGS)),
    tokens: int = typer.Option(4096, min=1, help="Tokens; each has rows of several experts."),
    layer: bool = typer.Option(False, "--layer", help="Layers as a whole, and torch.compile."),
    rounds: int = typer.Option(10, min=1, help="Counted rounds."),
    burst_ms: float = typer.Option(10.0, min=0.1, help="Time of a way in a round."),
    seed: int = typer.Option(0, help="Of operands and routing."),
    json_path: Path | None = typer.Option(None, "--json", help="Write what was measured."),
) -> None:
    """Compare grouped matmuls of layers of experts, or these layers, with torch's.

    The exit status is 1 if a result is wrong.
    """
    names, kinds = _words(layers, LAYERS, "--layers"), _words(routings, ROUTINGS, "--routings")
    if json_path is not None:
        check_path(json_path)
    require_gpu("wsched bench moe")
    import torch

    found, counter = list[Row](), CycleCounter()
    for name in names:
        weights = _weights(LAYERS[name], seed)
        for routing in kinds:
            chosen = choices_of(routing, LAYERS[name], tokens, seed)
            of = whole_of(chosen, weights, seed) if layer else parts_of(chosen, weights)
            for part in of:
                row = _measured(name, routing, part, chosen, rounds, burst_ms, counter)
                found.append(row)
                Console().print(report(row), markup=False, highlight=False, soft_wrap=True)
        if json_path is not None:
            command = {"tokens": tokens, "layer": layer, "rounds": rounds, "burst_ms": burst_ms,
                       "seed": seed}  # fmt: skip
            gpu = {"name": torch.cuda.get_device_name()}
            data = {"environment": environment(gpu), "command": command}
            save(json_path, data | {"rows": [asdict(r) | {"ratio": r.ratio} for r in found]})
    if any(r.error > TOLERANCE for r in found):
        raise typer.Exit(1)


def _words(text: str, known: Sequence[str] | dict[str, Layer], option: str) -> list[str]:
    words = [w.strip() for w in text.split(",") if w.strip()]
    if not words or any(w not in known for w in words):
        raise UnsupportedError(f"{option} {text}", "of " + ", ".join(known))
    return words


def _weights(layer: Layer, seed: int) -> list[Any]:
    """Gate, up and down, such that products have about deviation 1."""
    import torch

    generator = torch.Generator("cuda").manual_seed(seed)
    shapes = [(layer.hidden, layer.width)] * 2 + [(layer.width, layer.hidden)]
    made = []
    for n, k in shapes:
        t = torch.empty(layer.experts, n, k, device="cuda", dtype=torch.bfloat16)
        made.append(t.normal_(std=k**-0.5, generator=generator).mT)
    return made


def _measured(
    name: str, routing: str, part: Part, chosen: list[list[int]], rounds: int, burst_ms: float,
    counter: CycleCounter | None = None,
) -> Row:  # fmt: skip
    import torch

    right = part.ways[TORCH]().float()
    error = max(relative_error(run(), right) for way, run in part.ways.items() if way != TORCH)
    seed = f"{name} {routing} {part.name}"
    us = times_of(part.ways, torch.cuda.synchronize, rounds, burst_ms * 1e3, seed)
    times = {way: t for way, (t, _) in us.items()}
    experts = {e for some in chosen for e in some}
    rows = sum(map(len, chosen))
    cycles = counted(part.ways, counter, part.flops, seed)
    return Row(name, routing, part.name, rows, len(experts), part.flops, times, error, cycles)


def report(row: Row) -> str:
    """A line for a part of a layer."""
    wrong = f"  WRONG: off by {row.error:.1e}" if row.error > TOLERANCE else ""
    rates = "  ".join(f"{w} {us:8.1f} us {row.flops / us / 1e6:4.0f}" for w, us in row.us.items())
    where = f"{row.layer} {row.routing}, {row.rows} rows of {row.experts} experts, {row.part}"
    others = {way: us / row.us[WSCHED] for way, us in row.us.items() if way != WSCHED}
    ratios = ", ".join(f"{r:.3f} as fast as {way}" for way, r in others.items())
    return f"{where}: {rates} TFLOP/s, {ratios}{told(row.cycles)}{wrong}"
