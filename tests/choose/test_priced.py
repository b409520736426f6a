"""What the model says of problems of every kind, and of schedules of each: a table.

Its constants are measured elsewhere; here nothing may change them, or a bound, unseen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import pytest

from lowering.ground.errors import UnsupportedError
from wsched.choose.cost_model import cost
from wsched.choose.gpus import GPUS
from wsched.choose.heuristics import choose_params, ranked
from wsched.choose.memory import bytes_per_us, least_bytes, result_bytes
from wsched.choose.nvfuser_cost import cublas_us
from wsched.choose.problem import Problem
from wsched.choose.step import steps_of
from wsched.fusion import DataType
from wsched.schedule.matmul.params import MatmulParams

BF16, F32, E4M3 = DataType.BFloat16, DataType.Float, DataType.Float8_e4m3fn
PLAIN = Problem(4096, 4096, 4096, BF16, (BF16,), 132)

PROBLEMS: dict[str, Problem] = {
    "plain": PLAIN,
    "ragged": replace(PLAIN, m=1000, n=1160, k=520),
    "few rows": replace(PLAIN, m=16, n=8192, k=8192),
    "few columns": replace(PLAIN, m=8192, n=24, k=8192),
    "long k": replace(PLAIN, m=128, n=256, k=65536),
    "batch": replace(PLAIN, m=512, n=512, k=128, batch=24),
    "gated": replace(PLAIN, b_count=2),
    "residual": replace(PLAIN, inputs=(BF16,), matrices=(BF16,), work=2),
    "read by threads": replace(PLAIN, inputs=None, matrices=(F32,), work=2, pairs=False),
    "gelu": replace(PLAIN, work=24),
    "two results": replace(PLAIN, results=(BF16, F32)),
    "from registers": replace(PLAIN, results=(F32,), smem_epilogue=False),
    "reductions": replace(PLAIN, over_rows=1, over_columns=1),
    "f8": replace(PLAIN, operand=E4M3, promotion=4),
    "tf32": replace(PLAIN, operand=DataType.TF32, results=(F32,)),
    "batch invariant": replace(PLAIN, m=64, batch_invariant=True),
    "m-major": replace(PLAIN, m_major=True, n_major=True),
    "unaligned": replace(PLAIN, m=4095, k=4098, align_a=4, align_b=4, thread_a=4, thread_b=4),
    "side by side": replace(PLAIN, n=6144, n_entries=(4096, 1024, 1024)),
    "groups": replace(PLAIN, m=300, batch=16, grouped="m"),
    "another GPU": PLAIN.on(next(g for g in GPUS.values() if g.name != PLAIN.gpu)),
}


def rounded(values: dict[str, Any]) -> Iterator[str]:
    """Names with what is a number, to four digits."""
    for name, value in values.items():
        yield f"{name} {float(value):.4g}" if hasattr(value, "__float__") else f"{name} {value}"


def short(params: MatmulParams) -> str:
    """What is not as in all parameters."""
    plain, own = MatmulParams().to_dict(), params.to_dict()
    return ", ".join(f"{name} {own[name]}" for name in own if own[name] != plain[name])


def told(problem: Problem) -> Iterator[str]:
    yield f"choice {short(choose_params(problem))}"
    moved = least_bytes(problem), result_bytes(problem)
    yield f"bytes {moved[0]} {moved[1]} at {bytes_per_us(problem):.4g} a us"
    try:
        yield f"cuBLAS {cublas_us(problem):.4g} us"
    except UnsupportedError as refusal:
        yield str(refusal)
    found = ranked(problem)
    for us, params in found[:: max(len(found) // 4, 1)]:
        yield f"{us:.4g} us: {short(params)}"
        step = steps_of(problem, params)[params.programmatic_dependent_launch]
        for part in (cost(problem, params), step):
            yield f"    {', '.join(rounded(asdict(part)))}"


@pytest.mark.parametrize("name", PROBLEMS)
def test_prices(name: str, golden: object) -> None:
    assert "\n".join(told(PROBLEMS[name])) == golden
