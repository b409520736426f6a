from __future__ import annotations

import pytest

from passes.reshape_pointwise import reshape_pointwise
from tests.passes.texts import full, lowered, unchanged

HEAD = """
shared F_s: f32[1][64x64]
"""
LOAD = """
u: frag<f32, 64x64> = ld.shared F_s[0, 0, 0]
"""


@pytest.mark.parametrize("args", ["t, 1.0", "1.0, t"])
def test_one_plus_tanh(args: str) -> None:
    before = f"""
t: frag<f32, 64x64> = frag.pointwise tanh, u
y: frag<f32, 64x64> = frag.pointwise add, {args}
st.shared F_s[0, 0, 0], y
"""
    after = """
t: frag<f32, 64x64> = frag.pointwise tanh, u
twice: frag<f32, 64x64> = frag.pointwise mul, u, 2.0
half: frag<f32, 64x64> = frag.pointwise sigmoid, twice
y: frag<f32, 64x64> = frag.pointwise mul, half, 2.0
st.shared F_s[0, 0, 0], y
"""
    assert lowered(reshape_pointwise, HEAD + LOAD + before) == full(HEAD + LOAD + after)


def test_inside_loops() -> None:
    inner = """
for c in 0 .. 2 unroll {
  t: frag<f32, 64x64> = frag.pointwise tanh, u
  y: frag<f32, 64x64> = frag.pointwise add, t, 1.0
  st.shared F_s[0, 0, 0], y
}
"""
    assert "sigmoid" in lowered(reshape_pointwise, HEAD + LOAD + inner)


@pytest.mark.parametrize(
    "chain",
    [
        # tanh is used twice, another number is added, something else is added to one
        "t: frag<f32, 64x64> = frag.pointwise tanh, u\n"
        "y: frag<f32, 64x64> = frag.pointwise add, t, 1.0\n"
        "z: frag<f32, 64x64> = frag.pointwise mul, t, y\n"
        "st.shared F_s[0, 0, 0], z",
        "t: frag<f32, 64x64> = frag.pointwise tanh, u\n"
        "y: frag<f32, 64x64> = frag.pointwise add, t, 2.0\n"
        "st.shared F_s[0, 0, 0], y",
        "t: frag<f32, 64x64> = frag.pointwise erf, u\n"
        "y: frag<f32, 64x64> = frag.pointwise add, t, 1.0\n"
        "st.shared F_s[0, 0, 0], y",
    ],
)
def test_what_is_something_else(chain: str) -> None:
    assert unchanged(reshape_pointwise, HEAD + LOAD + chain)
