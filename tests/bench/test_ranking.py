"""The ranking is that of the call."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import wsched
from wsched.bench.fused.epilogue import EPILOGUES
from wsched.bench.fused.systems import FusedOperands
from wsched.bench.problem import LAYOUTS, Problem, Shape
from wsched.bench.schedules import worker
from wsched.bench.schedules.ranking import problem_for, ranking
from wsched.front.known import import_fusion
from wsched.front.problems import problem_of
from wsched.run.cpu import MULTIPROCESSORS
from wsched.run.layout import laid_out

torch = pytest.importorskip("torch")


@pytest.mark.sampled
@pytest.mark.parametrize("shape", [Shape(16, 512, 512), Shape(512, 768, 64)], ids=str)
@pytest.mark.parametrize("epilogue", ["bare", "residual"])
def test_the_first_is_what_compile_takes(shape: Shape, epilogue: str) -> None:
    text = EPILOGUES[epilogue].definition("bf16")
    found = ranking(text, shape, MULTIPROCESSORS)
    sizes = [(shape.m, shape.k), (shape.n, shape.k)]
    sizes += [(shape.m, shape.n)] if epilogue == "residual" else []
    kernel = wsched.compile(text, [torch.zeros(size).bfloat16() for size in sizes])
    assert replace(kernel.params, num_registers="auto") == found[0].params
    assert [r.us for r in found] == sorted(r.us for r in found)
    assert len({r.name for r in found}) == len(found) == len({r.params for r in found})


def test_names_and_the_cache() -> None:
    text = EPILOGUES["silu"].definition("bf16")
    found = ranking(text, Shape(2048, 8192, 512), 132)
    assert all(r.name[0].isdigit() for r in found)
    smaller = ranking(text, Shape(2048, 8192, 512), 132, 2**20)
    assert {r.name: r.us for r in found} != {r.name: r.us for r in smaller}


@pytest.mark.parametrize("sizes", [(72, 136, 64), (72, 130, 64), (17, 131, 40), (9, 8, 8)], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("epilogue", EPILOGUES)
def test_the_problem_is_that_of_a_call(
    epilogue: str, layout: str, sizes: tuple[int, int, int]
) -> None:
    """It is the key of tuned tables, so it has to be the same field by field."""
    problem = Problem(Shape(*sizes), "bf16", layout)
    text = EPILOGUES[epilogue].definition("bf16", layout)
    x, others, _ = FusedOperands(epilogue, problem, 1, 0, "cpu").sets[0]
    fusion = laid_out(import_fusion(text), [x, *others])
    planned = problem_for(text, problem.shape, MULTIPROCESSORS)
    assert problem_of(fusion, [x, *others]) == planned


def test_how_many_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is taken and the best others, so many of them in all; 0 is all of them."""
    monkeypatch.setattr(worker, "taken_first", lambda definition, planned: [*"abcde"])
    planned: Any = None
    assert [len(worker.of_all("", planned, top)) for top in (0, 1, 3, 9)] == [5, 1, 3, 5]
    assert worker.of_all("", planned, 2) == ["a", "b"]
