"""How fast the copy engine is: cases, launches, and the table of what they come to."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

from rich.table import Table

from lowering.kernel.kernel import Kernel
from lowering.kernel.tensors import PROMOTIONS
from wsched.bench.tma.kernel import LINES, Copies, ring_kernel

__all__ = ["ALIGNMENTS", "SCHEMA", "Case", "Figure", "GpuRing", "cases", "measure", "tables"]

SCHEMA = "wsched.bench.tma/1"

ALIGNMENTS = (16, 32, 64, 128)
"""Bytes that rows begin at a multiple of; of what is larger nothing was ever different."""

LINES_OF_BOXES = ((32, 32), (64, 64), (128, 128), (32, 0), (128, 0), (256, 0))
"""Width of a box and span of its swizzle, in bytes."""

CLUSTERS, SHARES = (1, 2, 4), (1, 8)
"""CTAs that load a box together, and CTAs that read the same rows at the same time."""

ROW_BYTES = 1152
"""A row that is aligned to 128 bytes and whose length is no power of two, so that rows lie evenly
over the slices of the L2. An alignment below 128 is added to it."""

BANDS = {"l2": 132, "memory": 7200}
"""Bands of ``LINES`` rows of the tensor: 20 MB, which stay in the L2, and 1 GB, which do not."""

CTA_BYTES = 16 << 20
"""About what every CTA receives in a launch."""

LAUNCHES = 5
"""Timed ones, after one that is not."""


@dataclass(frozen=True, slots=True)
class Case:
    """What one launch copies.

    Args:
        source: ``l2`` or ``memory``.
        align: bytes that rows begin at a multiple of.
        share: CTAs that read the same rows at the same time, the cluster's at least.
        copies: how.
    """

    source: str
    align: int
    share: int
    copies: Copies

    @property
    def columns(self) -> int:
        """Elements of a row of the tensor."""
        return (ROW_BYTES + self.align % 128) // 2

    @property
    def rounds(self) -> int:
        """Bands that each CTA receives."""
        return max(CTA_BYTES // self._band_bytes, 1)

    @property
    def cta_bytes(self) -> int:
        """Bytes that each CTA receives."""
        return self.rounds * self._band_bytes

    @property
    def _band_bytes(self) -> int:
        return self.columns // self.copies.columns * self.copies.stage_bytes

    @property
    def params(self) -> dict[str, int]:
        """The kernel's parameters."""
        rows = BANDS[self.source] * LINES
        return {"M": rows, "K": self.columns, "rounds": self.rounds, "share": self.share}


@dataclass(frozen=True, slots=True)
class Figure:
    """A case, microseconds of a launch, and bytes per second that CTAs received."""

    case: Case
    us: float
    ctas: int

    @property
    def tb_per_s(self) -> float:
        """Terabytes in a second, those that a multicast copy brings counted for each CTA."""
        return self.ctas * self.case.cta_bytes / self.us / 1e6

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON data."""
        data = asdict(self.case)
        copies = data.pop("copies")
        told = {"us": round(self.us, 2), "ctas": self.ctas, "tb_per_s": round(self.tb_per_s, 3)}
        return {**data, **copies, **told}


def cases() -> Iterator[Case]:
    """Every case; those that need the same kernel follow each other."""
    for (width, swizzle), cluster in itertools.product(LINES_OF_BOXES, CLUSTERS):
        for source, align in itertools.product(BANDS, ALIGNMENTS):
            for share, promotion in itertools.product(SHARES, PROMOTIONS):
                copies = Copies(width, swizzle, promotion, cluster)
                yield Case(source, align, max(share, cluster), copies)


Launch = Callable[[Case], tuple[list[float], int]]
"""Launches a case: microseconds of each timed launch, and how many CTAs there were."""


def measure(
    ring: Launch, wanted: Sequence[Case], told: Callable[[int, str], None] = lambda done, what: None
) -> Iterator[Figure]:
    """Measure one case after another."""
    for number, case in enumerate(wanted):
        told(number, f"{case.source}, {case.copies.name}")
        times, ctas = ring(case)
        yield Figure(case, median(times), ctas)


class GpuRing:
    """Launches on CUDA device 0; kernels and tensors are made when a case first needs them."""

    def __init__(self) -> None:
        import torch

        self._torch = torch
        self._loaded: dict[Copies, Any] = {}
        self._cubins: dict[str, bytes] = {}
        self._memory = torch.zeros(
            max(BANDS.values()) * LINES * (ROW_BYTES // 2 + 64), dtype=torch.bfloat16, device="cuda"
        )

    def __call__(self, case: Case) -> tuple[list[float], int]:
        """See :data:`Launch`."""
        loaded = self._kernel(case.copies)
        ctas = loaded.resident_ctas(0) // case.share * case.share
        rows, columns = case.params["M"], case.columns
        tensor = self._memory[: rows * columns].view(rows, columns)
        launch = loaded.prepare({"T": tensor}, case.params, ctas)
        event = self._torch.cuda.Event
        times = []
        for _ in range(LAUNCHES + 1):
            begin, end = event(enable_timing=True), event(enable_timing=True)
            begin.record()
            launch()
            end.record()
            end.synchronize()
            times.append(float(begin.elapsed_time(end)) * 1e3)
        return times[1:], ctas

    def _kernel(self, copies: Copies) -> Any:
        from lowering.cuda.emit import emit_cuda
        from lowering.cuda.launch import LoadedKernel
        from lowering.cuda.nvrtc import compile_cubin

        if copies not in self._loaded:
            kernel: Kernel = ring_kernel(copies)
            code = self._cubins.get(kernel.name)
            if code is None:
                code = compile_cubin(emit_cuda(kernel), kernel.name).cubin
                self._cubins[kernel.name] = code
            self._loaded[copies] = LoadedKernel(kernel, code)
        return self._loaded[copies]


def tables(figures: Sequence[Figure]) -> list[Table]:
    """Return a table for each source and number of CTAs that share: TB/s by alignment and
    promotion.
    """
    found: list[Table] = []
    for source, share in itertools.product(BANDS, SHARES):
        title = f"TB/s received from {source}, the same rows for {share} CTAs or a cluster"
        made = Table("box bytes", "swizzle", "cluster", title=title, title_justify="left")
        for align, promotion in itertools.product(ALIGNMENTS, PROMOTIONS):
            made.add_column(f"{align} ({promotion})", justify="right")
        at = {
            f.case: f"{f.tb_per_s:.2f}"
            for f in figures
            if f.case.source == source and f.case.share == max(share, f.case.copies.cluster)
        }
        if not at:
            continue
        rows = dict.fromkeys(replace(c.copies, promotion=PROMOTIONS[0]) for c in at)
        for copies in rows:
            cells = [
                at.get(
                    Case(source, a, max(share, copies.cluster), replace(copies, promotion=p)), "–"
                )
                for a, p in itertools.product(ALIGNMENTS, PROMOTIONS)
            ]
            made.add_row(str(copies.width), str(copies.swizzle), str(copies.cluster), *cells)
        found.append(made)
    return found
