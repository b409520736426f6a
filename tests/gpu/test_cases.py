"""The judge of the random problems, and what is drawn; on the machine, without a GPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import wsched.run.on_device
from tests.gpu.cases import HEURISTIC, Case, check, difference, draw
from tests.gpu.random_splits import summary
from tests.schedules import SCHEDULES

torch = pytest.importorskip("torch", reason="torch is not installed")

CASE = Case(72, 136, 104, "bf16", "bf16", HEURISTIC, integer=False, padding=8, seed=5)


def test_what_is_drawn() -> None:
    cases = [draw(seed) for seed in range(800)]
    sizes = [n for c in cases for n in (c.m, c.n, c.k)]
    assert all(n % 8 == 0 and 8 <= n <= 4096 for n in sizes)
    assert min(sizes) == 8
    assert max(sizes) > 3500
    assert {c.schedule for c in cases} == {HEURISTIC, *SCHEDULES}
    assert sum(c.integer for c in cases) >= len(cases) // 3
    assert {c.padding for c in cases} == {0, 8, 64}
    assert len({(c.operand, c.result) for c in cases}) == 6
    assert draw(7) == draw(7)


@pytest.mark.sampled
@pytest.mark.parametrize("integer", [False, True])
@pytest.mark.parametrize(
    ("operand", "result"), [("bf16", "bf16"), ("f16", "f32"), ("bf16", "f16"), ("f16", "f16")]
)
def test_the_machine_passes(operand: str, result: str, integer: bool) -> None:
    case = replace(CASE, operand=operand, result=result, integer=integer)
    assert check(case, "cpu") == ""


def operands(integer: bool) -> tuple[Any, Any, Any]:
    """A, B and their product in bf16."""
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(n, 104, generator=generator) for n in (72, 136))
    if integer:
        a, b = a.round(), b.round()
    a, b = a.bfloat16(), b.bfloat16()
    return a, b, (a.double() @ b.double().T).bfloat16()


def test_right_results_are_right() -> None:
    for integer in (False, True):
        assert difference(replace(CASE, integer=integer), *operands(integer)) == ""


def test_one_wrong_element_is_found() -> None:
    a, b, d = operands(integer=True)
    d[3, 4] += 1
    assert difference(replace(CASE, integer=True), a, b, d) == "1 of 9792 elements differ"
    a, b, d = operands(integer=False)
    d[3, 4] += 0.25
    assert difference(CASE, a, b, d) == (
        f"1 elements beyond the bound, first [3, 4]: {float(d[3, 4]):.6g}"
    )


def test_many_slightly_wrong_elements_are_found() -> None:
    a, b, d = operands(integer=False)
    assert difference(CASE, a, b, d * 1.01) == "relative Frobenius error 1.0e-02, limit 4e-03"


def test_an_element_that_was_not_written_is_found() -> None:
    a, b, d = operands(integer=False)
    d[3, 4] = float("nan")
    assert difference(CASE, a, b, d) == "1 elements are not written, or NaN"


def test_a_store_behind_a_row_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(kernel: Any, arguments: Any) -> None:
        d = arguments.matrices[max(arguments.matrices)]
        d.as_strided((72, 144), d.stride(), d.storage_offset()).zero_()

    monkeypatch.setattr(wsched.run.on_device, "run_on_cpu", run)
    assert check(CASE, "cpu") == "wrote behind the end of a row"


def test_the_summary_is_one_line() -> None:
    from collections import Counter

    done = Counter({"a": 5, "b": 3})
    assert summary(8, 9, 1.6, done, Counter()) == "8 of 9 launches in 2 s, none wrong: a 5, b 3"
    assert summary(8, 8, 1.6, done, Counter({"b": 1})) == (
        "8 of 8 launches in 2 s, 1 WRONG: b 3 (1 WRONG), a 5"
    )
