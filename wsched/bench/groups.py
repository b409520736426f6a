"""``wsched bench groups``: grouped matmuls by the sizes of their groups, beside torch's.

Groups of rows, bf16, whose sizes come from a seed: any, or hard ones (:data:`SIZES`). Beside
``torch._grouped_mm`` stands the dense matmul of as many rows by one matrix, cuBLAS', which has one
matrix to read and pads nothing. A line has the ratio to torch, and the share of the dense rate: of
useful rows over rows padded to 64, the rows of a wgmma, so that 1 is a kernel that loses nothing
but what such rows of the last tile of each group cost. Ways take turns, in an order that is drawn
for each round; calls are eager, and timed from a synchronization to the next one. Behind the times
their cycles are counted, which no clock moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import typer
from rich.console import Console

from lowering.ground.errors import UnsupportedError
from lowering.ground.natural import natural
from wsched.bench.gemm.results import check_path, save
from wsched.bench.method.cycles import Counted, CycleCounter, counted, told
from wsched.bench.method.environment import environment
from wsched.bench.method.gpu import require_gpu
from wsched.bench.method.operands import relative_error
from wsched.bench.mlp import times_of

__all__ = ["PROBLEMS", "SIZES", "Problem", "Row", "groups", "padded", "report", "sizes_of"]

TORCH, DENSE, WSCHED = "torch", "dense", "wsched"

TOLERANCE = 1e-2
"""Largest relative Frobenius difference of bf16 results."""

SIZES = ("drawn", "odd", "last", "half")
"""Each size is as likely, from nothing to twice the mean; 1, 63, 65 or 129 rows more than whole
tiles of :data:`TILE`; drawn and sorted, the largest last; drawn, but one group has half of all."""

TILE, ODD = 256, (1, 63, 65, 129)
"""Rows of which those of any tile are a part, and how many more an ``odd`` group has."""

WGMMA_ROWS = 64


@dataclass(frozen=True, slots=True)
class Problem:
    """Groups of ``rows`` in all: x [rows, k] by w [groups, k, n]."""

    groups: int
    rows: int
    n: int
    k: int

    def __str__(self) -> str:
        return f"{self.groups}x{self.rows}x{self.n}x{self.k}"


PROBLEMS = (
    Problem(16, 8192, 8192, 5120),
    Problem(8, 4096, 14336, 4096),
    Problem(64, 8192, 2048, 7168),
    Problem(128, 4096, 1536, 4096),
)
"""Groups of 512 rows, of 128, and of 32, whose time is that of the weights' way from memory."""


@dataclass(frozen=True, slots=True)
class Row:
    """What a problem takes with some sizes of groups.

    Args:
        problem: as text.
        sizes: of :data:`SIZES`.
        seed: of these, and of operands.
        rows: of each group.
        flops: floating-point operations of those.
        us: microseconds of a call of each way.
        error: relative difference of the results.
        cycles: of a call of each way, if they were counted.
    """

    problem: str
    sizes: str
    seed: int
    rows: list[int]
    flops: int
    us: dict[str, float]
    error: float
    cycles: dict[str, Counted] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """How much faster wsched is than torch."""
        return self.us[TORCH] / self.us[WSCHED]

    @property
    def share(self) -> float:
        """Of the dense rate of rows padded to those of a wgmma."""
        return self.us[DENSE] * padded(self.rows, WGMMA_ROWS) / self.us[WSCHED]


def sizes_of(kind: str, problem: Problem, seed: int) -> list[int]:
    """Rows of each group, all together those of the problem; of ``odd`` ones at most as many, where
    there are as many as odd parts have.
    """
    count, rows, draw = problem.groups, problem.rows, Random(seed)
    if kind == "odd":
        more = [ODD[i % len(ODD)] for i in range(count)]
        whole = _shared_out(max(rows - sum(more), 0) // TILE, count, draw)
        return [TILE * n + x for n, x in zip(whole, more, strict=True)]
    if kind == "half":
        most = rows - rows // 2 if count > 1 else rows
        others, at = _shared_out(rows - most, count - 1, draw), draw.randrange(count)
        return [*others[:at], most, *others[at:]]
    found = _shared_out(rows, count, draw)
    return sorted(found) if kind == "last" else found


def _shared_out(rows: int, count: int, draw: Random) -> list[int]:
    """So many rows for groups whose shares are anything from nothing to twice the mean."""
    shares = [draw.random() for _ in range(count)]
    ends, before = [0], 0.0
    for share in shares:
        before += share
        ends.append(round(rows * before / sum(shares)))
    return [b - a for a, b in pairwise(ends)]


def padded(rows: Sequence[int], tile: int) -> float:
    """Rows of whole tiles for each of the groups'."""
    return sum(-(-n // tile) * tile for n in rows) / max(sum(rows), 1)


def groups(
    problems: str = typer.Option(
        ",".join(map(str, PROBLEMS)), help="Groups, rows of all, N and K: GxMxNxK,..."
    ),
    sizes: str = typer.Option(",".join(SIZES), help="Of " + ", ".join(SIZES)),
    seeds: str = typer.Option("0,1", help="Of sizes and operands, separated by commas."),
    rounds: int = typer.Option(10, min=1, help="Counted rounds."),
    burst_ms: float = typer.Option(10.0, min=0.1, help="Time of a way in a round."),
    json_path: Path | None = typer.Option(None, "--json", help="Write what was measured."),
) -> None:
    """Compare grouped matmuls of easy and hard sizes with torch's, and with the dense rate.

    The exit status is 1 if a result is wrong.
    """
    kinds, numbers = _words(sizes), [_number(w, "--seeds") for w in seeds.split(",")]
    wanted = [_problem(text) for text in problems.split(",")]
    if json_path is not None:
        check_path(json_path)
    require_gpu("wsched bench groups")
    import torch

    found, counter = list[Row](), CycleCounter()
    for problem in wanted:
        w = _weights(problem)
        for seed in numbers:
            for kind in kinds:
                found.append(_measured(problem, w, kind, seed, rounds, burst_ms, counter))
                Console().print(report(found[-1]), markup=False, highlight=False, soft_wrap=True)
        del w
        if json_path is not None:
            command = {"rounds": rounds, "burst_ms": burst_ms}
            gpu = {"name": torch.cuda.get_device_name()}
            data = {"environment": environment(gpu), "command": command}
            lines = [asdict(r) | {"ratio": r.ratio, "share": r.share} for r in found]
            save(json_path, data | {"rows": lines})
    if any(r.error > TOLERANCE for r in found):
        raise typer.Exit(1)


def _words(text: str) -> list[str]:
    words = [w.strip() for w in text.split(",") if w.strip()]
    if not words or any(w not in SIZES for w in words):
        raise UnsupportedError(f"--sizes {text}", "of " + ", ".join(SIZES))
    return words


def _number(text: str, option: str) -> int:
    found = natural(text := text.strip())
    if found is None:
        raise UnsupportedError(f"{option} {text}", "numbers, separated by commas")
    return found


def _problem(text: str) -> Problem:
    found = [natural(word) or 0 for word in text.strip().split("x")]
    if len(found) != 4 or not all(found):
        raise UnsupportedError(f"--problems {text}", "GxMxNxK of positive numbers")
    return Problem(*found)


def _weights(problem: Problem) -> Any:
    """Matrices such that products have about deviation 1, K contiguous in memory."""
    import torch

    generator = torch.Generator("cuda").manual_seed(0)
    shape = problem.groups, problem.n, problem.k
    t = torch.empty(shape, device="cuda", dtype=torch.bfloat16)
    return t.normal_(std=problem.k**-0.5, generator=generator).mT


def _measured(
    problem: Problem, w: Any, kind: str, seed: int, rounds: int, burst_ms: float,
    counter: CycleCounter | None = None,
) -> Row:  # fmt: skip
    import torch

    import wsched

    rows = sizes_of(kind, problem, seed)
    generator = torch.Generator(w.device).manual_seed(seed)
    shape = sum(rows), problem.k
    x = torch.randn(shape, generator=generator, device=w.device, dtype=w.dtype)
    ends = torch.tensor(rows, device=w.device).cumsum(0).to(torch.int32)
    one = w[0]
    ways = {
        TORCH: lambda: torch._grouped_mm(x, w, offs=ends),
        DENSE: lambda: torch.mm(x, one),
        WSCHED: lambda: wsched.grouped_mm(x, w, ends),
    }
    error = relative_error(ways[WSCHED](), ways[TORCH]().float())
    order = f"{problem} {kind} {seed}"
    us = times_of(ways, torch.cuda.synchronize, rounds, burst_ms * 1e3, order)
    flops = 2 * sum(rows) * problem.n * problem.k
    times = {way: t for way, (t, _) in us.items()}
    cycles = counted(ways, counter, flops, order)
    return Row(str(problem), kind, seed, rows, flops, times, error, cycles)


def report(row: Row) -> str:
    """A line for a problem with some sizes."""
    wrong = f"  WRONG: off by {row.error:.1e}" if row.error > TOLERANCE else ""
    rates = "  ".join(f"{w} {us:8.1f} us {row.flops / us / 1e6:4.0f}" for w, us in row.us.items())
    where = f"{row.problem} {row.sizes} {row.seed}, at most {max(row.rows)} of {sum(row.rows)} rows"
    share = f"{row.share:.3f} of the dense rate of rows padded to {WGMMA_ROWS}"
    ratio, cycles = f"{row.ratio:.3f} as fast as torch", told(row.cycles)
    return f"{where}: {rates} TFLOP/s, {ratio}, {share}{cycles}{wrong}"
