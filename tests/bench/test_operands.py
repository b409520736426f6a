"""What is compared with fp32, and how a result that was not written is found; on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from wsched.bench.method.measure import Accuracy
from wsched.bench.method.operands import Operands, _worst, distance
from wsched.bench.problem import Problem, Shape

torch = pytest.importorskip("torch")
PROBLEM = Problem(Shape(64, 96, 32))


def reference() -> Any:
    draw = torch.Generator().manual_seed(1)
    return torch.randn(256, 256, generator=draw) * 50


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.bfloat16, 4e-3), (torch.float16, 6e-4), (torch.float32, 1e-9)]
)
def test_rounding_passes(dtype: Any, tolerance: float) -> None:
    ref = reference()
    assert distance(ref.to(dtype), ref, tolerance).complaint(tolerance) == ""


def test_one_wrong_element_is_found() -> None:
    ref = reference()
    result = ref.to(torch.bfloat16)
    result[3, 5] += 2
    found = distance(result, ref, 4e-3)
    assert found.error < 4e-3
    assert found.outliers == 1


def test_an_element_that_was_not_written_is_found() -> None:
    ref = reference()
    result = ref.to(torch.bfloat16)
    result[0, 0] = float("nan")
    found = distance(result, ref, 4e-3)
    assert found.outliers == 1
    assert found.complaint(4e-3) == (
        "wrong result: relative error nan (limit 4e-03), 1 elements off"
    )


def operands(sets: int = 3, seed: int = 0) -> Operands:
    return Operands(PROBLEM, sets, seed, "cpu")


def into_d(a: Any, b: Any, d: Any) -> Any:
    return torch.matmul(a, b.t(), out=d)


class Allocating:
    """A system with a result of its own, in the same memory each time, as a caching allocator
    gives it; ``writes`` tells which launches write to it.
    """

    def __init__(self, writes: Callable[[int], bool] = lambda launch: True) -> None:
        self.memory = torch.zeros(64, 96, dtype=torch.bfloat16)
        self.launches, self.writes = 0, writes

    def __call__(self, a: Any, b: Any, d: Any) -> Any:
        if self.writes(self.launches):
            torch.matmul(a, b.t(), out=self.memory)
        self.launches += 1
        return self.memory.view(64, 96)


def complaint(launch: Any, made: Operands | None = None) -> str:
    return (made or operands()).launched(launch).complaint(PROBLEM.tolerance)


def test_right_results_pass() -> None:
    assert complaint(into_d) == ""
    assert complaint(Allocating()) == ""
    assert complaint(into_d, operands(sets=1)) == ""


NAN = float("nan")


@pytest.mark.parametrize(
    "errors", [(0.1, 0.3, 0.2), (0.3, 0.1), (0.1, 0.3), (0.2, NAN), (NAN, 0.2)]
)
def test_the_worst_of_several(errors: tuple[float, ...]) -> None:
    """The largest error wherever it stands, NaN above all; elements of all that are off."""
    found = _worst([Accuracy(error, 2) for error in errors])
    assert str(found.error) == ("0.3" if 0.3 in errors else "nan")
    assert found.outliers == 2 * len(errors)


def test_own_result_that_is_not_written_again_is_found() -> None:
    # Launch 0 left the right result in the memory that later ones get and do not write to.
    found = complaint(Allocating(lambda launch: launch == 0), operands(sets=1))
    assert found.endswith(f"{64 * 96} elements off")


def test_d_that_is_not_written_is_found() -> None:
    assert complaint(lambda a, b, d: d).endswith(f"{2 * 64 * 96} elements off")


def test_results_that_lie_elsewhere_each_time_cannot_be_checked() -> None:
    kept = []

    def launch(a: Any, b: Any, d: Any) -> Any:
        kept.append(a @ b.t())
        return kept[-1]

    with pytest.raises(RuntimeError) as error:
        complaint(launch)
    assert str(error.value) == (
        "its results never lie where poison was left, so they cannot be checked"
    )


@pytest.mark.parametrize("right", [0, 2])
def test_first_and_last_set_are_compared(right: int) -> None:
    made = operands()
    a, b, _ = made.sets[right]
    found = made.launched(lambda _a, _b, d: into_d(a, b, d))
    assert found.complaint(PROBLEM.tolerance).startswith("wrong result: relative error 1.")


def test_nan_of_one_set_is_the_worst() -> None:
    made = operands()
    first = made.sets[0][0]
    found = made.launched(lambda a, b, d: d if a is first else into_d(a, b, d))
    assert found.to_dict() == {"error": None, "outliers": 64 * 96}


@pytest.mark.parametrize("missing", [None, 0, 1, 2])
def test_a_replay_is_compared_where_it_writes(missing: int | None) -> None:
    made = operands()
    results = [Allocating().memory for _ in made.sets]

    def replay() -> None:
        for i, (a, b, _) in enumerate(made.sets):
            if i != missing:
                torch.matmul(a, b.t(), out=results[i])

    for i, (a, b, _) in enumerate(made.sets):
        torch.matmul(a, b.t(), out=results[i])
    found = made.replayed(results, replay)
    assert (found.complaint(PROBLEM.tolerance) == "") is (missing in (None, 1))


@pytest.mark.parametrize(
    ("launch", "found"),
    [
        (lambda a, b, d: d.t(), "(96, 64) torch.bfloat16"),
        (lambda a, b, d: d.view(torch.float16), "(64, 96) torch.float16"),
    ],
)
def test_another_shape_or_type(launch: Any, found: str) -> None:
    with pytest.raises(RuntimeError) as error:
        complaint(launch)
    assert str(error.value) == f"the result is {found}, not (64, 96) torch.bfloat16"


def test_operands_differ_by_seed_and_set() -> None:
    drawn = [a for seed in (0, 1) for a, _, _ in operands(sets=2, seed=seed).sets]
    assert all(not torch.equal(x, y) for i, x in enumerate(drawn) for y in drawn[:i])
    assert torch.equal(drawn[0], operands(sets=2).sets[0][0])
