from __future__ import annotations

import pytest

from passes.reduce_lanes_last import reduce_lanes_last
from tests.passes.texts import full, lowered, unchanged

BEFORE = """
global T: f32[64, 1]
x: frag<f32, 64x32> = frag.fill 1.0
none: frag<f32, 64x1> = frag.fill 0.0
for c in 0 .. 4 carry (so_far: frag<f32, 64x1> = none -> total) unroll {
  next: frag<f32, 64x1> = frag.reduce sum, so_far, x
  yield next
}
frag.store_global T[0, 0], total
"""

AFTER = """
global T: f32[64, 1]
x: frag<f32, 64x32> = frag.fill 1.0
none: frag<f32, 64x1> = frag.fill 0.0
start: frag<f32, 64x8> = frag.fill 0.0
for c in 0 .. 4 carry (so_far: frag<f32, 64x8> = start -> total_of_lanes) unroll {
  next: frag<f32, 64x8> = frag.reduce sum, so_far, x
  yield next
}
none2: frag<f32, 64x1> = frag.fill 0.0
total: frag<f32, 64x1> = frag.reduce sum, none2, total_of_lanes
frag.store_global T[0, 0], total
"""


def test_lanes_meet_behind_the_loop() -> None:
    assert lowered(reduce_lanes_last, BEFORE) == full(AFTER)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (" unroll", ""),
        ("frag.fill 0.0", "frag.fill 1.0"),
        ("x: frag<f32, 64x32>", "x: frag<f32, 64x8>"),
        ("  yield", "  twice: frag<f32, 64x1> = frag.pointwise add, next, next\n  yield"),
    ],
    ids=["no_chunks", "from_something", "no_groups", "read_twice"],
)
def test_what_stays(old: str, new: str) -> None:
    assert old in BEFORE
    assert unchanged(reduce_lanes_last, BEFORE.replace(old, new))
