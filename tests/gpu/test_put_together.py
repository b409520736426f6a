"""Weights, rows and results that are put together, on a real GPU: no copies, exact results."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest

import wsched
from tests.front.cut.features import Feature
from tests.front.cut.test_together import MIXED, RUNS, feature, parts
from tests.gpu.test_stores import integers

pytestmark = pytest.mark.gpu


def given(definition: Feature) -> list[Any]:
    """Inputs of small integers."""
    shapes = enumerate(definition.shapes)
    return [integers(1, prod(shape), seed=seed).view(shape) for seed, shape in shapes]


def check(definition: Feature) -> None:
    """Exactly as torch has it, in the first call and by the launches that are kept."""
    from wsched.doors.fallback import interpret
    from wsched.importer import record_text

    inputs = given(definition)
    wanted = interpret(record_text(definition.text), [t.double() for t in inputs])
    for _ in range(3):
        for found, exact in zip(wsched.execute(definition.text, inputs), wanted, strict=True):
            assert (found.double() == exact.to(found.dtype).double()).all()
            assert found.shape == exact.shape


@pytest.mark.parametrize("name", [n for n in RUNS if n != "into_an_input"])
def test_small(name: str) -> None:
    check(RUNS[name])


def test_what_no_kernel_makes() -> None:
    check(MIXED)


WIDTHS = [(4096, 1024, 1024), (1024, 1000), (333, 264), (130, 6), (72, 40, 8, 16, 24)]


@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.parametrize("rows", [1, 200, 1031])
def test_weights(widths: tuple[int, ...], rows: int) -> None:
    """One kernel where a list has them, its results side by side at places of any alignment."""
    names = ", ".join(f"t{at}" for at in range(1, len(widths) + 1))
    lines = f"c = fd.ops.cat([{names}], dim=0)", "y = fd.ops.linear(t0, c)"
    drawn = feature(*lines, shapes=((rows, 256), *((n, 256) for n in widths)))
    check(drawn)
    assert "nothing is put together" in parts(str(wsched.explain(drawn.text, given(drawn))))


@pytest.mark.parametrize("widths", WIDTHS)
def test_results_of_several_kernels(widths: tuple[int, ...]) -> None:
    """What has an epilogue of its own has a kernel of its own."""
    made = [f"p{at} = fd.ops.linear(t0, t{at + 1})" for at in range(len(widths))]
    made += [
        "r = fd.ops.relu(p0)", "q = fd.ops.cast(r, dtype=DataType.BFloat16)",
        f"y = fd.ops.cat([q, {', '.join(f'p{at}' for at in range(1, len(widths)))}], dim=1)",
    ]  # fmt: skip
    check(feature(*made, shapes=((200, 256), *((n, 256) for n in widths))))


@pytest.mark.parametrize("rows", [(1000, 31), (128, 4096), (1, 1)])
def test_rows(rows: tuple[int, int]) -> None:
    lines = "c = fd.ops.cat([t0, t1], dim=0)", "y = fd.ops.linear(c, t2)"
    check(feature(*lines, shapes=(*((n, 256) for n in rows), (520, 256))))


@pytest.mark.parametrize("columns", [(256, 64), (264, 1000), (40, 24)])
def test_pairs_along_k(columns: tuple[int, int]) -> None:
    lines = "c = fd.ops.cat([t0, t1], dim=1)", "y = fd.ops.linear(c, t2)"
    check(feature(*lines, shapes=(*((200, n) for n in columns), (520, sum(columns)))))
