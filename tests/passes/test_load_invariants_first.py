"""Loads that are the same in every step of a loop, and those that are not."""

from __future__ import annotations

import pytest

from lowering.kernel.nodes import For, FragLoadGlobal
from lowering.kernel.text import parse_kernel
from passes.load_invariants_first import load_invariants_first
from passes.options import LoweringOptions

TEXT = """
kernel k threads 128 cluster 1 grid 1 {{
  param K: i32
  global v: f32[64, K]
  for k in 0 .. K{unroll} {{
    let row: i32 = {row}
    x: frag<f32, 64x1> = frag.load_global v[{at}, {column}]
    y: frag<f32, 64x1> = frag.pointwise neg, x
  }}
}}
"""


@pytest.mark.parametrize(
    ("row", "at", "column", "unroll", "stays"),
    [
        ("0", "0", "0", "", False),
        ("0", "0", "k", "", True),
        ("0", "row", "0", "", True),
        ("0", "0", "0", " unroll", True),
    ],
    ids=["same", "other column", "what the loop names", "unrolled"],
)
def test_loads(row: str, at: str, column: str, unroll: str, stays: bool) -> None:
    text = TEXT.format(row=row, at=at, column=column, unroll=unroll)
    text = text.replace("0 .. K", "0 .. 4") if unroll else text
    made = load_invariants_first(parse_kernel(text), LoweringOptions())
    first = made.body[0]
    assert isinstance(first, For if stays else FragLoadGlobal)
    (loop,) = (s for s in made.body if isinstance(s, For))
    assert any(isinstance(s, FragLoadGlobal) for s in loop.body) is stays
