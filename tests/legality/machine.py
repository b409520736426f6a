"""A schedule compiled and run on the machine: results against NumPy, to the bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from lowering.ground.expr import evaluate
from lowering.kernel.kernel import Kernel
from lowering.machine import run_kernel
from lowering.machine.adversary import Adversary
from lowering.nest.lower import lower
from passes.options import LoweringOptions
from passes.pipeline import run_passes
from wsched.fusion import DataType, Fusion, MmaOp, PointwiseOp, inputs_of
from wsched.run.finish import finished
from wsched.schedule.plan import Plan, make_plan

__all__ = ["NUMPY", "Problem", "compiled", "problems", "run_wrong"]

NUMPY: dict[DataType, Any] = {
    DataType.BFloat16: ml_dtypes.bfloat16,
    DataType.Half: np.float16,
    DataType.Float: np.float32,
}


@dataclass(frozen=True)
class Problem:
    """Extents, and SMs to run on: no fewer than a cluster has CTAs, as the kernel would not start
    elsewhere.
    """

    m: int
    n: int
    k: int
    sms: int
    batch: int = 1


def problems(tile: tuple[int, int, int]) -> tuple[Problem, ...]:
    """Odd extents with fewer and with more CTAs than tiles; K of no, one and many slices."""
    m, n, k = tile
    return (
        Problem(2 * m + 9, n + 8, 2 * k + 8, 2, 2),
        Problem(m - 7, 2 * n + 8, 4 * k, 5, 3),
        Problem(4 * m + 1, n, k + 8, 3),
        Problem(m + 1, n + 8, 0, 2, 2),
    )


def compiled(scheduled: Plan | Fusion, vector: int = 2, copied: int | None = None) -> Kernel:
    """The kernel of a schedule.

    Args:
        scheduled: the schedule, or what was proved of it.
        vector: columns that a thread accesses at once.
        copied: bytes that it copies at once of what threads load into shared memory; None for
            ``vector`` elements.

    Raises:
        ScheduleError: it is illegal.
        UnsupportedError: there is no lowering for it.
    """
    made = make_plan(scheduled) if isinstance(scheduled, Fusion) else scheduled
    of = {made.fusion.source(name).name for name in made.fusion.loaded_by_threads if copied}
    lowered = lower(made, "drawn", vector, dict.fromkeys(of, copied or 0))
    return run_passes(lowered, LoweringOptions(epilogue_stages=1))


def run_wrong(
    fusion: Fusion, kernel: Kernel, p: Problem, seed: int = 0, adversary: Adversary = "random"
) -> str | None:
    """What is wrong with a run of a kernel, None if nothing is.

    Operands are small integers, so that sums are exact in any order. The results are NaN before.

    Raises:
        WschedError: the machine stops, in a deadlock for instance.
    """
    rng = np.random.default_rng(seed)
    size = {"B": p.batch, "M": p.m, "N": p.n, "K": p.k}
    arrays = {
        b.tensor: rng.integers(-2, 3, _shape(fusion, b.tensor, size)).astype(NUMPY[b.dtype])
        for b in fusion.inputs
    }
    wanted = _evaluated(fusion, arrays)
    for b in fusion.outputs:
        shape = _shape(fusion, b.tensor, size)
        arrays[b.tensor] = np.full(shape, np.nan, NUMPY[fusion.tensor(b.tensor).dtype])
    grid = evaluate(kernel.grid, size | {"sms": max(p.sms, kernel.cluster)})
    run_kernel(kernel, arrays, size, grid, seed=seed, adversary=adversary)
    for b in fusion.outputs:
        got, right = finished(fusion, b, arrays[b.tensor]), wanted[b.tensor]
        if not np.array_equal(got, right):
            return (
                f"{int(np.sum(got != right))} of {got.size} elements of {b.tensor} are wrong in {p}"
            )
    return None


def _shape(fusion: Fusion, tensor: str, size: dict[str, int]) -> list[int]:
    """Of what is stored of a tensor, rows of A and of B."""
    return [evaluate(d.extent, size) for d in fusion.tensor(tensor).stored]


def _evaluated(fusion: Fusion, inputs: dict[str, Any]) -> dict[str, Any]:
    """All tensors of a fusion of products, sums and casts, as matrices."""
    known = dict(inputs)
    for e in fusion.exprs:
        read = [known[x] for x in inputs_of(e)]
        value = read[0]
        if isinstance(e, MmaOp):
            a, b = (known[x].astype(np.float32) for x in (e.a, e.b))
            value = a @ b.swapaxes(-1, -2)
        elif isinstance(e, PointwiseOp):
            combine = {"add": np.add, "mul": np.multiply, "neg": np.negative}[e.op]
            value = combine(*(np.float32(known.get(x, x)) for x in e.inputs))
        known[e.output] = value.astype(NUMPY[fusion.tensor(e.output).dtype])
    return known
