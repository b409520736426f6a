"""Shapes drawn from models."""

from __future__ import annotations

import pytest

from lowering.ground.errors import UnsupportedError
from wsched.bench.schedules.layers import LAYERS, ROWS, drawn_shapes


def test_drawn() -> None:
    found = drawn_shapes(60, 0)
    assert len(set(found)) == 60
    assert [s.m for s in found[:12]] == [*ROWS, *ROWS[:2]]
    sizes = {size for layers in LAYERS.values() for size in layers}
    assert {(s.n, s.k) for s in found} <= sizes
    assert drawn_shapes(7, 0) == found[:7]
    assert drawn_shapes(7, 1) != found[:7]


def test_all_of_them() -> None:
    sizes = {size for layers in LAYERS.values() for size in layers}
    assert len(set(drawn_shapes(10 * len(sizes), 0))) == 10 * len(sizes)
    with pytest.raises(UnsupportedError) as error:
        drawn_shapes(10 * len(sizes) + 1, 0)
    assert str(error.value) == (
        "--count 301 is not supported; supported: at most 300, the shapes of all layers"
    )
