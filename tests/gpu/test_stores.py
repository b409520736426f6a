"""Results and inputs that TMA cannot address, on a real GPU."""

from __future__ import annotations

from typing import Any

import pytest

import wsched
from tests.epilogues import GELU, RESIDUAL, TWO_OUTPUTS
from tests.frames import FAMILIES, Frame, direct
from tests.schedules import SCHEDULES, definition, for_result

pytestmark = pytest.mark.gpu

PROBLEMS = [(1, 1, 8), (73, 3, 40), (200, 1001, 72), (1000, 333, 264), (1031, 2049, 512)]
EVEN = [(1, 2, 8), (200, 1002, 72), (1031, 2046, 512)]


def integers(rows: int, cols: int, dtype: str = "bfloat16", seed: int = 0) -> Any:
    """Integers in [-2, 2]: every partial sum is exact."""
    import torch

    torch.manual_seed(seed)
    return torch.randint(-2, 3, (rows, cols), device="cuda").to(getattr(torch, dtype))


def product(x: Any, w: Any) -> Any:
    return x.double() @ w.double().T


@pytest.mark.parametrize("result", ["bf16", "f32"])
@pytest.mark.parametrize("name", FAMILIES)
def test_odd_rows_at_an_odd_place(name: str, result: str) -> None:
    """Exact, and nothing is written beside the result."""
    params = direct(for_result(SCHEDULES[name], result))
    for m, n, k in PROBLEMS:
        x, w = integers(m, k), integers(n, k, seed=1)
        kernel = wsched.compile(definition(result=result), [x, w], params=params)
        wanted = product(x, w).to(x.dtype if result == "bf16" else x.float().dtype)
        frame = Frame(m, n, wanted.dtype, n + 2, 5, "cuda")
        kernel(x, w, out=frame.out)
        frame.check(wanted)


@pytest.mark.parametrize("result", ["bf16", "f32"])
@pytest.mark.parametrize("name", FAMILIES)
def test_pairs(name: str, result: str) -> None:
    params = direct(for_result(SCHEDULES[name], result), 2)
    for m, n, k in EVEN:
        x, w = integers(m, k), integers(n, k, seed=1)
        kernel = wsched.compile(definition(result=result), [x, w], params=params)
        wanted = product(x, w).to(x.dtype if result == "bf16" else x.float().dtype)
        frame = Frame(m, n, wanted.dtype, n + 4, 2, "cuda")
        kernel(x, w, out=frame.out)
        frame.check(wanted)


@pytest.mark.parametrize(("m", "n", "k"), [*PROBLEMS, *EVEN])
@pytest.mark.parametrize("result", ["bf16", "f16", "f32"])
def test_what_the_heuristic_chooses(result: str, m: int, n: int, k: int) -> None:
    operand = "f16" if result == "f16" else "bf16"
    dtype = "float16" if result == "f16" else "bfloat16"
    x, w = integers(m, k, dtype), integers(n, k, dtype, seed=1)
    kernel = wsched.compile(definition(operand, result), [x, w])
    for _ in range(2):  # the second call is planned by the first
        (d,) = kernel(x, w)
        assert d.is_contiguous()
        assert d.equal(product(x, w).to(d.dtype))


@pytest.mark.parametrize("n", [33, 1001, 1002])
def test_epilogues_of_such_rows(n: int) -> None:
    """A residual and a bias are read where they lie."""
    import torch

    m, k = 1031, 264
    x, w = integers(m, k), integers(n, k, seed=1)
    row, full = integers(1, n + 1, seed=2)[0, 1:], integers(m, n, seed=3)
    y = product(x, w)
    kernel = wsched.compile(RESIDUAL, [x, w, full])
    (d,) = kernel(x, w, full)
    assert d.equal((y + full.double()).to(d.dtype))
    (g,) = wsched.compile(GELU, [x, w, row])(x, w, row)
    wanted = torch.nn.functional.gelu(y + row.double(), approximate="tanh")
    assert (g.double() - wanted).norm() / wanted.norm() < 4e-3
    first, second = wsched.compile(TWO_OUTPUTS, [x, w, row])(x, w, row)
    assert first.equal(y.to(first.dtype))
    rounded = (y.to(first.dtype).double() + row.double()).float()
    assert second.float().equal(torch.relu(rounded).to(second.dtype).float())
