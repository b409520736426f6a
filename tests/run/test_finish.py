"""Summaries of several stages: each hands on what it has left to the next one."""

from __future__ import annotations

import pytest

from lowering.ground.dtypes import DType
from lowering.ground.expr import Const
from tests.lowering.summary.summaries import deviation
from wsched.program.program import Buffer
from wsched.run.finish import summary_steps
from wsched.run.summary import compiled_summary

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("over", "left"),
    [((2,), []), ((1, 2), []), ((0, 2), [(6, 10)]), ((0, 1, 2), [(6, 10)])],
)
def test_what_a_stage_writes_has_the_sizes_that_are_told(
    over: tuple[int, ...], left: list[tuple[int, ...]]
) -> None:
    """Memory is taken for what a buffer says; the last one writes the results."""
    x = torch.randint(-4, 5, (6, 10, 14)).float()
    kept = tuple(Const(size) for d, size in enumerate(x.shape) if d not in over)
    ones = tuple(Const(1 if d in over else size) for d, size in enumerate(x.shape))
    read = Buffer("x", DType.F32, tuple(map(Const, x.shape)))
    made = [Buffer("mean", DType.F32, kept), Buffer("var", DType.F32, ones)]
    steps = summary_steps(deviation(3, over), [read], made)
    handed = [tuple(b.shape) for step in steps[:-1] for b in step.writes]
    assert handed == [tuple(map(Const, shape)) for shape in left for _ in range(2)]
    known = {"x": x}
    for step in steps:
        results = compiled_summary(step.summary)(*(known[b.name] for b in step.reads))
        for buffer, result in zip(step.writes, results, strict=True):
            assert tuple(map(Const, result.shape)) == buffer.shape
            known[buffer.name] = result
    mean, square = x.sum(over) / 2, (x * x).sum(over, keepdim=True) / 2
    torch.testing.assert_close(known["mean"], mean)
    torch.testing.assert_close(known["var"], square - (x.sum(over, keepdim=True) / 2) ** 2)
