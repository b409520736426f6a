"""What the cost model remembers of schedules that differ in their launch, or in parts of K."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from wsched.choose.cost_model import _whole, cost
from wsched.choose.heuristics import ranked
from wsched.choose.problem import Problem
from wsched.choose.tiled import LAUNCH, Tiled
from wsched.fusion import DataType
from wsched.schedule.matmul.params import MatmulParams, SplitKMode, TileRasterizationOrder

BF16 = DataType.BFloat16
PROBLEM = Problem(600, 264, 4000, BF16, (BF16,), 132)


def others(params: MatmulParams) -> list[MatmulParams]:
    """The same launched otherwise, with as many parts or, of several, another number."""
    parts = (1,) if params.splitk_factor == 1 else (2, 5)
    values = product((True, False), (0, 3), parts)
    return [replace(params, **dict(zip(LAUNCH, x, strict=True))) for x in values]


@pytest.mark.parametrize("mode", SplitKMode)
@pytest.mark.parametrize("parts", [1, 3])
def test_nothing_depends_on_how_it_is_launched(mode: SplitKMode, parts: int) -> None:
    for _, params in ranked(PROBLEM)[::97]:
        params = replace(params, splitk_factor=parts, splitk_mode=mode)
        of = Tiled.of(params)
        assert {Tiled.of(other) for other in others(params)} == {of}
        found = [_whole.__wrapped__(PROBLEM, Tiled.of(other)) for other in others(params)]
        assert all(x == found[0] for x in found)
    assert of != Tiled.of(replace(params, cta_order=TileRasterizationOrder.ColumnMajor))
    assert of != Tiled.of(replace(params, splitk_factor=4 - parts))


def test_what_is_remembered_is_what_it_would_be() -> None:
    """Whatever schedule of a tile was asked for first."""
    tried = [other for _, params in ranked(PROBLEM)[::197] for other in others(params)]
    _whole.cache_clear()
    first = [cost(PROBLEM, p) for p in tried]
    _whole.cache_clear()
    assert [cost(PROBLEM, p) for p in reversed(tried)] == first[::-1]
