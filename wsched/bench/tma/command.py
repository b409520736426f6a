"""``wsched bench tma``: what the copy engine does with boxes of each kind, and rows by index."""

from __future__ import annotations

import json
from typing import Any

import typer
from rich.console import Console

from lowering.ground.errors import UnsupportedError
from lowering.target.ptx import WIDEST_SWIZZLE
from wsched.bench.method.bar import progress_bar
from wsched.bench.method.clocks import ClockSampler
from wsched.bench.method.environment import environment
from wsched.bench.method.gpu import CudaGpu, require_gpu
from wsched.bench.method.show import show_table
from wsched.bench.tma.gathers import (
    GatherCase,
    GatherFigure,
    GpuGather,
    gather_cases,
    gather_tables,
    measure_gathers,
)
from wsched.bench.tma.measure import SCHEMA, Case, Figure, GpuRing, cases, measure, tables

__all__ = ["tma"]

_METHOD = (
    "A persistent kernel with a CTA on each multiprocessor fills a ring of 192 KB by TMA and gives "
    "each stage back as soon as it is full. Stages are 128 lines; in a cluster every CTA copies a "
    "share of them, to all. Median of five launches of 16 MB per CTA. Of rows by index cycles are "
    "those of an SM's own clock, the median over CTAs: 1024 stages, or as many products of each."
)

_KINDS = ("boxes", "gather")


def tma(
    only: list[str] = typer.Option(list(_KINDS), help="Boxes of bands, or rows by index."),
    source: list[str] = typer.Option(["l2", "memory"], help="Where rows are read from."),
    width: list[int] = typer.Option([], help="Bytes of a line of a box; all kinds by default."),
    align: list[int] = typer.Option([], help="Bytes that rows begin at a multiple of."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Measure TMA by box width, swizzle, alignment of rows, L2 promotion and cluster, and rows by
    index: by boxes of one row or several, one warp or several, or cp.async.
    """
    wanted = _wanted(only, source, width, align)
    boxes = [c for c in wanted if isinstance(c, Case)]
    gathers = [c for c in wanted if isinstance(c, GatherCase)]
    require_gpu("wsched bench tma")
    gpu = CudaGpu(0)
    figures, gathered, clocks = _measured(boxes, gathers, ClockSampler(gpu.uuid))
    if as_json:
        told: dict[str, Any] = {"schema": SCHEMA, "method": _METHOD, "clocks": clocks}
        told["environment"] = environment(gpu.describe())
        told["figures"] = [f.to_dict() for f in figures]
        told["gathers"] = [f.to_dict() for f in gathered]
        typer.echo(json.dumps(told))
        return
    console = Console()
    for made in (*tables(figures), *gather_tables(gathered)):
        show_table(made, console)
    console.print(f"{gpu.describe()['name']}; clocks: {clocks}", markup=False, soft_wrap=True)


def _measured(
    boxes: list[Case], gathers: list[GatherCase], sampler: ClockSampler
) -> tuple[list[Figure], list[GatherFigure], dict[str, Any]]:
    """The figures of both kinds, and the clocks meanwhile."""
    figures: list[Figure] = []
    gathered: list[GatherFigure] = []
    with progress_bar(len(boxes) + len(gathers)) as update:
        sampler.start()
        try:
            if boxes:
                figures += measure(GpuRing(), boxes, update)
            if gathers:
                launch, after = GpuGather(gathers), len(boxes)
                more = measure_gathers(launch, gathers, lambda n, what: update(after + n, what))
                gathered += more
        finally:
            clocks = sampler.stop()
    return figures, gathered, clocks


def _wanted(
    only: list[str], source: list[str], width: list[int], align: list[int]
) -> tuple[Case | GatherCase, ...]:
    """The cases of some kinds, sources, widths and alignments; of all where none is named.

    Raises:
        UnsupportedError: there is none.
    """
    every: tuple[Case | GatherCase, ...] = (*dict.fromkeys(cases()), *gather_cases())
    asked = ("only", only), ("source", source), ("width", width), ("align", align)
    for word, names in asked:
        known = list(dict.fromkeys(_facts(c)[word] for c in every))
        for name in names:
            if name not in known:
                raise UnsupportedError(f"--{word} {name}", ", ".join(map(str, known)))
    return tuple(c for c in every if all(not n or _facts(c)[word] in n for word, n in asked))


def _facts(case: Case | GatherCase) -> dict[str, int | str]:
    """What of a case the options name; rows by index lie in the L2, and are whole lines of it."""
    if isinstance(case, GatherCase):
        line = WIDEST_SWIZZLE
        return {"only": _KINDS[1], "source": "l2", "width": line, "align": line}
    copies = case.copies.width
    return {"only": _KINDS[0], "source": case.source, "width": copies, "align": case.align}
