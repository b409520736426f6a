"""Random problems for a real GPU: how they are drawn, run and judged."""

from __future__ import annotations

import random
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import exp, log
from typing import Any

import wsched
from tests.schedules import SCHEDULES, definition, error_limit, for_result
from wsched.choose.heuristics import choose_params
from wsched.choose.problem import Problem
from wsched.fusion import DataType
from wsched.run.compiled import CompiledFusion
from wsched.run.cpu import MULTIPROCESSORS
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["HEURISTIC", "Case", "check", "difference", "draw", "matrix", "operands_of", "prepare"]

HEURISTIC = "heuristic"
LARGEST = 4096
TYPES = [
    ("bf16", "bf16"), ("f16", "f16"), ("bf16", "f32"), ("f16", "f32"), ("bf16", "f16"),
    ("f16", "bf16"),
]  # fmt: skip
TORCH = {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}
FUSION = {"bf16": DataType.BFloat16, "f16": DataType.Half, "f32": DataType.Float}
SIGNIFICANT_BITS = {"bf16": 8, "f16": 11, "f32": 24}
SMALLEST = {"bf16": 2.0**-133, "f16": 2.0**-24, "f32": 2.0**-149}
"""The smallest positive number of each type: below its normal range the steps are this large."""


@dataclass(frozen=True, slots=True)
class Case:
    """One problem on one schedule.

    Args:
        m, n, k: sizes, multiples of 8.
        operand, result: types, as in ``tests.schedules``.
        schedule: a name in ``SCHEDULES``, or ``HEURISTIC``.
        integer: operands from -2 to 2, where every partial sum is exact.
        padding: elements after each row of all three matrices, a multiple of 8.
        seed: of the operands.
    """

    m: int
    n: int
    k: int
    operand: str
    result: str
    schedule: str
    integer: bool
    padding: int
    seed: int

    def params(self, sms: int) -> MatmulParams:
        """The schedule's parameters on a device with ``sms`` multiprocessors."""
        if self.schedule == HEURISTIC:
            operand, result = FUSION[self.operand], FUSION[self.result]
            return choose_params(Problem(self.m, self.n, self.k, operand, (result,), sms))
        return for_result(SCHEDULES[self.schedule], self.result, self.operand)


def draw(seed: int) -> Case:
    """Sizes log-uniform from 8 to 4096, a third of them just beside a multiple of 64."""
    rng = random.Random(seed)

    def size() -> int:
        found = 8 * round(exp(rng.uniform(0, log(LARGEST // 8))))
        if rng.random() < 1 / 3:
            found = 64 * max(1, round(found / 64)) + rng.choice((-8, 0, 8))
        return min(max(found, 8), LARGEST)

    operand, result = rng.choice(TYPES)
    schedule = HEURISTIC if rng.random() < 0.5 else rng.choice(sorted(SCHEDULES))
    padding = rng.choice((0, 0, 0, 8, 64))
    return Case(
        size(), size(), size(), operand, result, schedule, seed % 3 == 0, padding, seed
    )  # fmt: skip


def prepare(cases: Iterable[Case], threads: int = 8) -> dict[tuple[str, str, MatmulParams], Any]:
    """Compile the kernels of all cases, several at once; by operand, result and parameters."""
    import torch

    sms = _multiprocessors("cuda")
    kernels: dict[tuple[str, str, MatmulParams], CompiledFusion] = {}
    for case in cases:
        key = case.operand, case.result, case.params(sms)
        if key not in kernels:
            text = definition(case.operand, case.result)
            shapes = [
                torch.empty(8, 8, dtype=getattr(torch, TORCH[case.operand])) for _ in range(2)
            ]
            kernels[key] = wsched.compile(text, shapes, params=key[2])
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda kernel: kernel.compiled, kernels.values()))
    return kernels


def _multiprocessors(device: str) -> int:
    import torch

    if device == "cpu":
        return MULTIPROCESSORS
    return int(torch.cuda.get_device_properties(0).multi_processor_count)


def matrix(rows: int, cols: int, dtype: str, padding: int, device: str = "cuda") -> Any:
    """A matrix of NaN with ``padding`` elements, NaN too, after each row."""
    import torch

    whole = torch.full(
        (rows, cols + padding), float("nan"), dtype=getattr(torch, TORCH[dtype]), device=device
    )
    return whole[:, :cols]


def operands_of(case: Case, device: str = "cuda") -> list[Any]:
    """Both operands of a case."""
    import torch

    generator = torch.Generator(device).manual_seed(case.seed)
    operands = []
    for rows in (case.m, case.n):
        shape, tensor = (rows, case.k), matrix(rows, case.k, case.operand, case.padding, device)
        operands.append(tensor)
        if case.integer:
            tensor.copy_(torch.randint(-2, 3, shape, generator=generator, device=device))
        else:
            tensor.copy_(torch.randn(shape, generator=generator, device=device))
    return operands


def check(case: Case, device: str = "cuda") -> str:
    """Run a case; empty if the result is right, else what is wrong. ``cpu`` is the machine."""
    operands = operands_of(case, device)
    d = matrix(case.m, case.n, case.result, case.padding, device)
    params = case.params(_multiprocessors(device))
    kernel = wsched.compile(definition(case.operand, case.result), operands, params=params)
    kernel(*operands, out=[d])
    if case.padding:
        behind = d.as_strided((case.m, case.padding), d.stride(), d.storage_offset() + case.n)
        if not behind.isnan().all():
            return "wrote behind the end of a row"
    return difference(case, *operands, d)


def difference(case: Case, a: Any, b: Any, d: Any) -> str:
    """Compare ``d`` with ``a · bᵀ`` in double precision; empty if it is right."""
    import torch

    exact = a.double() @ b.double().T
    rounded = exact
    for dtype in _roundings(case):
        rounded = rounded.to(getattr(torch, TORCH[dtype]))
    if d.isnan().any():
        return f"{int(d.isnan().sum())} elements are not written, or NaN"
    if case.integer:
        wrong = int((d != rounded).sum())
        return f"{wrong} of {d.numel()} elements differ" if wrong else ""
    error = (d.double() - exact).abs()
    relative = float(error.norm() / exact.norm())
    limit = error_limit(case.operand, case.result)
    if not relative < limit:
        return f"relative Frobenius error {relative:.1e}, limit {limit:.0e}"
    over = error > _bound(case, a, b, exact)
    if over.any():
        i, j = map(int, over.nonzero()[0])
        return f"{int(over.sum())} elements beyond the bound, first [{i}, {j}]: {d[i, j]:.6g}"
    return ""


def _roundings(case: Case) -> tuple[str, ...]:
    """Types that the accumulator is rounded to: the operands' first, unless the result is fp32."""
    if case.result in (case.operand, "f32"):
        return (case.result,)
    return case.operand, case.result


def _bound(case: Case, a: Any, b: Any, exact: Any) -> Any:
    """Largest error that each element may have.

    Products of two 16-bit numbers are exact in fp32. The tensor core adds 16 of them and the
    accumulator at a time: it aligns them to the largest and cuts off below its last place, which
    loses less than 2**-23 of the largest for each of 17 terms. No term exceeds S = sum |a| |b|, so
    the k / 16 steps (rounded up) lose at most 17 * ceil(k / 16) * 2**-23 * S. Then each rounding to
    p significant bits adds 2**-p of the value, or half a step of the subnormal numbers.
    """
    size = a.double().abs() @ b.double().abs().T
    bound = 17 * -(-case.k // 16) * 2.0**-23 * size
    for dtype in _roundings(case):
        value = exact.abs() + bound
        bound = bound + (2.0 ** -SIGNIFICANT_BITS[dtype] * value).clamp(min=SMALLEST[dtype] / 2)
    return bound
