"""Matmuls on the machine with NumPy arrays: inputs, the exact answer, one run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np

from lowering.ground.expr import evaluate
from lowering.machine import run_kernel
from lowering.machine.adversary import Adversary
from tests.schedules import definition, for_result
from wsched.front.known import import_fusion
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.schedule.matmul.params import MatmulParams

NUMPY: dict[str, Any] = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32}


@dataclass(frozen=True, slots=True)
class Problem:
    """``D[m, n] = A[m, k] · B[n, k]ᵀ`` on ``sms`` multiprocessors."""

    m: int
    n: int
    k: int
    sms: int

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}@{self.sms}"


@lru_cache(maxsize=256)
def kernel(
    params: MatmulParams, operand: str = "bf16", result: str = "bf16", layout: str = "tn"
) -> CompiledFusion:
    """The kernel of a linear with these parameters, with the stages that fit; made once."""
    fusion = import_fusion(definition(operand, result, layout=layout))
    return compile_fusion(fusion, for_result(params, result, operand))


def operands(p: Problem, operand: str, seed: int, integer: bool) -> tuple[Any, Any]:
    """A and B: integers in [-2, 2], or standard normal numbers rounded to the type."""
    rng = np.random.default_rng(seed)
    shapes = (p.m, p.k), (p.n, p.k)
    a, b = (rng.integers(-2, 3, s) if integer else rng.standard_normal(s) for s in shapes)
    return a.astype(NUMPY[operand]), b.astype(NUMPY[operand])


def run(
    compiled: CompiledFusion,
    p: Problem,
    a: Any,
    b: Any,
    result: str,
    *,
    seed: int = 0,
    adversary: Adversary = "random",
    races: bool = False,
) -> Any:
    """D, poisoned with NaN before the run."""
    extents = {"M": p.m, "N": p.n, "K": p.k}
    d = np.full((p.m, p.n), np.nan, NUMPY[result])
    in_memory = [
        x.T.copy() if compiled.fusion.tensor(binding.tensor).allocation else x
        for binding, x in zip(compiled.fusion.inputs, (a, b), strict=True)
    ]
    arrays = (*in_memory, d)
    bindings = (*compiled.fusion.inputs, *compiled.fusion.outputs)
    grid = evaluate(compiled.kernel.grid, extents | {"sms": p.sms})
    run_kernel(
        compiled.kernel,
        {binding.tensor: array for binding, array in zip(bindings, arrays, strict=True)},
        extents,
        grid,
        seed=seed,
        adversary=adversary,
        races=races,
    )
    return d


def exact(a: Any, b: Any) -> Any:
    """The product in fp32, exact for small integers."""
    return a.astype(np.float32) @ b.astype(np.float32).T
