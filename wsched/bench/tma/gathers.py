"""How fast rows come by index: cases, launches, and the tables of what they come to."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.table import Table

from lowering.kernel.kernel import Kernel
from lowering.target.ptx import WARPS
from wsched.bench.tma.beside import COLUMNS, Beside
from wsched.bench.tma.fills import Boxes, Fill, Pieces
from wsched.bench.tma.gather import Gather, gather_kernel
from wsched.bench.tma.kernel import LINES
from wsched.bench.tma.measure import BANDS, LAUNCHES, SHARES

__all__ = ["ORDERS", "GatherCase", "GatherFigure", "GpuGather", "compiled", "cycles_of",
           "gather_cases", "gather_tables", "measure_gathers", "numbers_of"]  # fmt: skip

TOKENS, WIDTH = 4096, 4096
"""Rows of the table, and their elements, as of Mixtral 8x7B: 32 MB, which stay in the L2."""

STRIPS = 4
"""Strips of weights, 2 MB each, which CTAs in turn read."""

ROUNDS = 16
"""Bands that each CTA receives: 1024 stages."""

ORDERS = ("in order", "random")
"""Boxes follow each other in the table; they are drawn, as tokens of an expert are."""

ROWS = {Beside.NOTHING: LINES, Beside.WEIGHTS: 104, Beside.PRODUCTS: 104}
"""Rows of a stage. 104 are those of Mixtral's gate and up, whose weights are the A operand."""

Numbers = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class GatherCase:
    """What one launch copies.

    Args:
        order: one of :data:`ORDERS`.
        share: CTAs that read the same rows at the same time.
        gather: how.
    """

    order: str
    share: int
    gather: Gather

    @property
    def stages(self) -> int:
        """Stages that each CTA receives."""
        return ROUNDS * (WIDTH // COLUMNS)

    @property
    def numbers(self) -> int:
        """Row numbers."""
        return BANDS["l2"] * self.gather.rows

    def params(self, ctas: int) -> dict[str, int]:
        """The kernel's parameters, and those of others."""
        given = {"R": TOKENS, "K": WIDTH, "N": self.numbers, "rounds": ROUNDS, "share": self.share}
        return {**given, "F": STRIPS * self.gather.beside.rows, "C": ctas}


@dataclass(frozen=True, slots=True)
class GatherFigure:
    """A case, microseconds of a launch, and cycles of a stage on an SM beside all others."""

    case: GatherCase
    us: float
    cycles: float
    ctas: int

    @property
    def bytes_per_cycle(self) -> float:
        """What an SM receives in a cycle, weights among it."""
        return self.case.gather.stage_bytes / self.cycles

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON data."""
        gather = self.case.gather
        fill = gather.fill
        return {
            "order": self.case.order, "share": self.case.share, "rows": gather.rows,
            "fill": fill.name, "box": fill.rows, "warps": fill.warps, "held": fill.held,
            "beside": gather.beside.value, "us": round(self.us, 2), "ctas": self.ctas,
            "cycles": round(self.cycles, 1), "bytes_per_cycle": round(self.bytes_per_cycle, 2),
        }  # fmt: skip


def gather_cases() -> Iterator[GatherCase]:
    """Every case; those that need the same kernel follow each other."""
    for beside, rows in ROWS.items():
        for fill, order, share in itertools.product(_fills(rows), ORDERS, SHARES):
            yield GatherCase(order, share, Gather(rows, fill, beside))


def _fills(rows: int) -> Iterator[Fill]:
    """All ways to fill a stage: boxes of powers of two that make it, and of all of it."""
    powers = (2**e for e in range(rows.bit_length()) if rows % 2**e == 0)
    for box in dict.fromkeys((*powers, rows)):
        for warps in (1, 2, WARPS):
            if rows // box >= warps:
                yield Boxes(box, warps)
                if box == 1:
                    yield Boxes(box, warps, held=True)
    yield Pieces()


def numbers_of(case: GatherCase, seed: int = 0) -> Numbers:
    """The number of each row, int32 ``[numbers]``: boxes of rows that follow each other, in order
    or as chance draws them, each once before any of them comes again.
    """
    box = case.gather.fill.rows
    firsts, boxes = np.arange(0, TOKENS - box + 1, box), -(-case.numbers // box)
    draw = np.random.default_rng(seed)
    turns = range(-(-boxes // len(firsts)))
    drawn = [draw.permutation(firsts) if case.order == ORDERS[1] else firsts for _ in turns]
    rows = np.concatenate(drawn)[:boxes, None] + np.arange(box)
    numbers: Numbers = rows.reshape(-1)[: case.numbers].astype(np.int32)
    return numbers


Launched = tuple[list[float], list[float], int]
"""Microseconds and an SM's cycles of each timed launch, and how many CTAs there were."""


def measure_gathers(
    launch: Callable[[GatherCase], Launched],
    wanted: Sequence[GatherCase],
    told: Callable[[int, str], None] = lambda done, what: None,
) -> Iterator[GatherFigure]:
    """Measure one case after another."""
    for number, case in enumerate(wanted):
        told(number, f"{case.order}, {case.gather.name}")
        times, cycles, ctas = launch(case)
        yield GatherFigure(case, median(times), median(cycles) / case.stages, ctas)


def compiled(gather: Gather) -> tuple[Kernel, bytes]:
    """The kernel and its code."""
    from lowering.cuda.emit import emit_cuda
    from lowering.cuda.nvrtc import compile_cubin

    kernel = gather_kernel(gather)
    return kernel, compile_cubin(emit_cuda(kernel), kernel.name).cubin


class GpuGather:
    """Launches on CUDA device 0; all kernels are compiled at the start, several at a time."""

    def __init__(self, wanted: Sequence[GatherCase]) -> None:
        import torch

        from lowering.cuda.launch import LoadedKernel

        self._torch = torch
        kinds = list(dict.fromkeys(case.gather for case in wanted))
        with ThreadPoolExecutor() as pool:
            made = pool.map(compiled, kinds)
            self._loaded = {
                kind: LoadedKernel(*code) for kind, code in zip(kinds, made, strict=True)
            }
        weights = STRIPS * Beside.WEIGHTS.rows
        self._rows, self._weights = (
            torch.randn((n, WIDTH), dtype=torch.bfloat16, device="cuda") for n in (TOKENS, weights)
        )

    def __call__(self, case: GatherCase) -> Launched:
        """Launch a case: once untimed, then as often as others."""
        torch, loaded = self._torch, self._loaded[case.gather]
        ctas = loaded.resident_ctas(0) // case.share * case.share
        kernel, rows = loaded.kernel, case.gather.rows
        order = torch.from_numpy(numbers_of(case)).cuda()
        (trace,) = kernel.traces
        stamps = (ctas, kernel.threads // 32, 1 + trace.slots, 2)
        clock = torch.zeros(stamps, dtype=torch.int64, device="cuda")
        sums = torch.empty((ctas * Beside.PRODUCTS.rows, rows), device="cuda")
        numbers = order[:, None] if isinstance(case.gather.fill, Pieces) else order
        tensors = {"T": self._rows, "V": self._weights, "D": sums, "order": numbers, "clock": clock}
        launch = loaded.prepare(tensors, case.params(ctas), ctas)
        times, cycles = [], []
        for _ in range(LAUNCHES + 1):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            launch()
            end.record()
            end.synchronize()
            times.append(float(begin.elapsed_time(end)) * 1e3)
            cycles.append(cycles_of(clock.cpu().numpy()))
        return times[1:], cycles[1:], ctas


def cycles_of(clock: npt.NDArray[np.int64]) -> float:
    """Cycles of the CTAs' loops, their median, of what a launch left in its ``TraceBuffer``: the
    first warp of each CTA has a record where they begin, and one where they end.
    """
    begin, end = clock[:, 0, 1, 0], clock[:, 0, 2, 0]
    return float(np.median(end - begin))


def gather_tables(figures: Sequence[GatherFigure]) -> list[Table]:
    """Return a table for each of what stages have beside rows: cycles of a stage, and bytes in a
    cycle.
    """
    found = []
    for beside, rows in ROWS.items():
        at = {f.case: f for f in figures if f.case.gather.beside is beside}
        if not at:
            continue
        title = (
            f"cycles of a stage of {rows} rows by index, {beside.value} beside (bytes in a cycle)"
        )
        made = Table("rows at once", "warps", "numbers", title=title, title_justify="left")
        for order, share in itertools.product(ORDERS, SHARES):
            made.add_column(f"{order}, for {share}", justify="right")
        for gather in dict.fromkeys(case.gather for case in at):
            cases = (GatherCase(o, s, gather) for o, s in itertools.product(ORDERS, SHARES))
            cells = (
                f"{at[c].cycles:.0f} ({at[c].bytes_per_cycle:.1f})" if c in at else "–"
                for c in cases
            )
            fill = gather.fill
            name = str(fill.rows) if isinstance(fill, Boxes) else "16 bytes, cp.async"
            held = "held" if fill.held else "read"
            made.add_row(name, str(fill.warps), held, *cells)
        found.append(made)
    return found
