"""``wsched bench tma``: what the copy engine does with boxes of each kind."""

from __future__ import annotations

import json
from typing import Any

import typer
from rich.console import Console

from lowering.ground.errors import UnsupportedError
from wsched.bench.method.bar import progress_bar
from wsched.bench.method.clocks import ClockSampler
from wsched.bench.method.environment import environment
from wsched.bench.method.gpu import CudaGpu, require_gpu
from wsched.bench.method.show import show_table
from wsched.bench.tma.measure import SCHEMA, Case, Figure, GpuRing, cases, measure, tables

__all__ = ["tma"]

_METHOD = (
    "A persistent kernel with a CTA on each multiprocessor fills a ring of 192 KB by TMA and gives "
    "each stage back as soon as it is full. Stages are 128 lines; in a cluster every CTA copies a "
    "share of them, to all. Median of five launches of 16 MB per CTA."
)


def tma(
    source: list[str] = typer.Option(["l2", "memory"], help="Where rows are read from."),
    width: list[int] = typer.Option([], help="Bytes of a line of a box; all kinds by default."),
    align: list[int] = typer.Option([], help="Bytes that rows begin at a multiple of."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Measure TMA by box width, swizzle, alignment of rows, L2 promotion and cluster."""
    wanted = _wanted(source, width, align)
    require_gpu("wsched bench tma")
    gpu = CudaGpu(0)
    sampler = ClockSampler(gpu.uuid)
    figures: list[Figure] = []
    with progress_bar(len(wanted)) as update:
        sampler.start()
        try:
            figures += measure(GpuRing(), wanted, update)
        finally:
            clocks = sampler.stop()
    if as_json:
        told: dict[str, Any] = {"schema": SCHEMA, "method": _METHOD, "clocks": clocks}
        told["environment"] = environment(gpu.describe())
        told["figures"] = [f.to_dict() for f in figures]
        typer.echo(json.dumps(told))
        return
    console = Console()
    for made in tables(figures):
        show_table(made, console)
    console.print(f"{gpu.describe()['name']}; clocks: {clocks}", markup=False, soft_wrap=True)


def _wanted(source: list[str], width: list[int], align: list[int]) -> tuple[Case, ...]:
    """The cases of some sources, widths and alignments; of all where none is named.

    Raises:
        UnsupportedError: there is none.
    """
    every = tuple(dict.fromkeys(cases()))
    asked = ("source", source), ("width", width), ("align", align)
    for word, names in asked:
        known = list(dict.fromkeys(_facts(c)[word] for c in every))
        for name in names:
            if name not in known:
                raise UnsupportedError(f"--{word} {name}", ", ".join(map(str, known)))
    return tuple(c for c in every if all(not n or _facts(c)[word] in n for word, n in asked))


def _facts(case: Case) -> dict[str, int | str]:
    """What of a case the options name."""
    return {"source": case.source, "width": case.copies.width, "align": case.align}
