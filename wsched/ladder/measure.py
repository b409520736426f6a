"""Kernels of one matmul on a GPU: right, and how fast, in turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

from lowering.ground.errors import InternalError
from lowering.ground.expr import ONE
from lowering.ground.progress import doing
from wsched.bench.method.gpu import elapsed_us
from wsched.run.compiled import CompiledFusion
from wsched.trace.timeline import Trace

__all__ = ["measure", "timeline"]

LONG_US = 50_000.0
"""A kernel that takes longer is launched once: no clock is steadier for more."""

ROUND_US = 20_000.0
"""Of a round, for each of the others."""

TRACED = (2048, 2048, 1024)
"""M, N and K of a time line: two tiles for most CTAs of an H200; the first CTA is looked at."""

TRACED_ALONE = (128, 128, 1024)
"""The same of a grid of one CTA, which has a record for each tile."""

TOLERANCE = 4e-3
"""Relative Frobenius error against fp32 that rounding to bf16 may cause."""


def measure(
    kernels: Mapping[str, CompiledFusion], m: int, n: int, k: int, rounds: int = 5
) -> tuple[float, ...]:
    """Microseconds of each kernel, the median of rounds in which they run in turn.

    Args:
        kernels: what to run, by a name for each.
        m: rows.
        n: columns.
        k: what is summed over.
        rounds: how often each is measured.

    Raises:
        InternalError: a result is wrong.
    """
    import torch

    a, b = (torch.randn(rows, k, device="cuda", dtype=torch.bfloat16) for rows in (m, n))
    expected = a.float() @ b.float().T
    launches: list[Callable[[], Any]] = []
    for name, kernel in kernels.items():
        with doing(f"{name} is checked"):
            (out,) = kernel(a, b)
        error = float((out.float() - expected).norm() / expected.norm())
        if not error < TOLERANCE:
            raise InternalError("ladder", f"{name} is off by {error:.1e}")
        launches.append(kernel.bind(a, b))
    del expected
    first = [elapsed_us(launch) for launch in launches]
    times = [[us] for us in first]
    for _ in range(rounds):
        for found, launch, us in zip(times, launches, first, strict=True):
            if us < LONG_US:
                found.append(elapsed_us(launch, max(1, round(ROUND_US / us))))
    return tuple(median(found[1:] or found) for found in times)


def timeline(kernel: CompiledFusion) -> Trace:
    """The time line of a run of :data:`TRACED`, or :data:`TRACED_ALONE`, on the GPU."""
    import torch

    m, n, k = TRACED_ALONE if kernel.kernel.grid == ONE else TRACED
    return kernel.trace(*(torch.randn(s, k, device="cuda", dtype=torch.bfloat16) for s in (m, n)))
