from __future__ import annotations

import pytest

from passes.sum_products import sum_products
from tests.passes.texts import full, lowered, unchanged

HEAD = """
x: frag<f32, 64x32> = frag.fill 1.0
v: frag<f32, 1x32> = frag.fill 2.0
one: frag<f32, 1x1> = frag.fill 2.0
none: frag<f32, 64x1> = frag.fill 0.0
row: frag<f32, 1x32> = frag.fill 0.0
in_cols: frag<pred, 1x32> = frag.below 30
"""
SQUARE = "y: frag<f32, 64x32> = frag.pointwise mul, x, x\n"
SUM = "total: frag<f32, 64x1> = frag.reduce sum, none, y, below=in_cols"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (SQUARE + SUM, f"{SUM.replace('y,', 'x,')}, factor=x"),
        (SQUARE.replace("x, x", "v, x") + SUM, f"{SUM.replace('y,', 'x,')}, factor=v"),
        (SQUARE + "total: frag<f32, 1x32> = frag.reduce_rows sum, row, y",
         "total: frag<f32, 1x32> = frag.reduce_rows sum, row, x, factor=x"),
        ("for c in 0 .. 2 {\n  " + SQUARE + "  none2: frag<f32, 64x1> = frag.fill 0.0\n  "
         + SUM.replace("none", "none2") + "\n}",
         "for c in 0 .. 2 {\n  none2: frag<f32, 64x1> = frag.fill 0.0\n  "
         + SUM.replace("none", "none2").replace("y,", "x,") + ", factor=x\n}"),
    ],
    ids=["square", "times a vector", "of rows", "in a loop"],
)  # fmt: skip
def test_factors(before: str, after: str) -> None:
    assert lowered(sum_products, HEAD + before) == full(HEAD + after)


@pytest.mark.parametrize(
    "before",
    [
        SQUARE.replace("mul", "add") + SUM,
        SQUARE.replace("x, x", "x, 3.0") + SUM,
        SQUARE.replace("x, x", "x, one") + SUM,
        SQUARE + SUM.replace("sum", "max"),
        SQUARE + SUM + "\nz: frag<f32, 64x32> = frag.pointwise abs, y",
        SQUARE + SUM.replace("y,", "x,") + ", factor=y",
    ],
    ids=["a sum", "a number", "one value", "the largest", "read twice", "has one"],
)
def test_what_stays(before: str) -> None:
    assert unchanged(sum_products, HEAD + before)
