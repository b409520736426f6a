"""Definitions of the user's: what is drawn for them, and the check of their results; on the CPU."""

from __future__ import annotations

from typing import Any

import pytest

from lowering.ground.errors import UnsupportedError
from tests.epilogues import GELU, RESIDUAL, TWO_OUTPUTS, WHERE, epilogue
from tests.schedules import LAYOUTS, SCHEDULES, definition
from wsched.bench.fused.definition import DefinitionOperands, prepare_definition, problem_of
from wsched.bench.problem import Problem, Shape
from wsched.front.known import import_fusion
from wsched.run.layout import laid_out

torch = pytest.importorskip("torch")
SHAPE = Shape(72, 136, 64)
TEXTS = {
    "gelu": GELU, "residual": RESIDUAL, "where": WHERE, "f32": definition("f16", "f32"),
    "matmul": definition("bf16", "bf16", "matmul"), "relu": epilogue("d = fd.ops.relu(y)"),
    "columns": epilogue("d = fd.ops.permute(y, dims=[1, 0])"),
    **{layout: definition(layout=layout) for layout in LAYOUTS},
}  # fmt: skip


def operands(text: str) -> DefinitionOperands:
    return DefinitionOperands(text, problem_of(text, SHAPE), 2, 0, "cpu")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (definition(), Problem(SHAPE, "bf16", "tn")),
        (definition("f16", layout="nt"), Problem(SHAPE, "fp16", "nt")),
        (definition(layout="tt"), Problem(SHAPE, "bf16", "tt")),
        (definition(layout="nn"), Problem(SHAPE, "bf16", "nn")),
        (definition("bf16", "bf16", "matmul"), Problem(SHAPE, "bf16", "tn")),
    ],
)
def test_problem(text: str, problem: Problem) -> None:
    assert problem_of(text, SHAPE) == problem


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TWO_OUTPUTS, "measuring 2 results is not supported; supported: one result"),
        (
            epilogue("s = fd.ops.add(y, c)").replace(
                "    y = ", "    c = fd.define_scalar(None, dtype=DataType.Double)\n    y = "
            ),
            "measuring with inputs that are scalars is not supported; supported: tensors",
        ),
    ],
)
def test_refused(text: str, said: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        problem_of(text, SHAPE)
    assert str(error.value) == said


def test_what_is_drawn() -> None:
    """By the seed alone, a set like no other; columns of the product have deviation 1."""
    text, problem = RESIDUAL, problem_of(RESIDUAL, SHAPE)
    one, again, other = (DefinitionOperands(text, problem, 2, seed, "cpu") for seed in (0, 0, 1))
    every = [t for made in (one, other) for x, others, _ in made.sets for t in (x, others[0])]
    assert all(
        torch.equal(a, b)
        for mine, same in zip(one.sets, again.sets, strict=True)
        for a, b in zip((mine[0], *mine[1]), (same[0], *same[1]), strict=True)
    )
    assert not any(
        torch.equal(a, b) for i, a in enumerate(every) for b in every[:i] if a.shape == b.shape
    )
    x, (w, c), d = one.sets[0]
    assert [float(t.float().std()) for t in (x, w, c)] == pytest.approx([1, 1 / 8, 1], rel=0.1)
    assert float((x.float() @ w.float().T).std()) == pytest.approx(1, rel=0.1)
    assert d.shape == (72, 136) and d.isnan().all()


def test_a_wrong_result_is_found() -> None:
    made = operands(RESIDUAL)

    def launch(x: Any, others: Any, d: Any) -> Any:
        return d.copy_(x @ others[0].t())

    assert "wrong result" in made.launched(launch).complaint(problem_of(RESIDUAL, SHAPE).tolerance)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", TEXTS)
def test_kernels_are_right(name: str) -> None:
    text, problem = TEXTS[name], problem_of(TEXTS[name], SHAPE)
    made = operands(text)
    first, others, d = made.sets[0]
    fusion = import_fusion(text)
    assert laid_out(fusion, [first, *others]) is fusion
    assert list(d.shape) == [72, 136] if name != "columns" else [136, 72]
    for params in (None, SCHEDULES["coop_in_flight_0"].to_dict()):
        launch = prepare_definition(text, params, [first, *others]).launch
        found = made.launched(launch)
        assert found.complaint(problem.tolerance) == "", (name, found)
