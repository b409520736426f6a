"""The rungs of the ladder on a GPU: right at odd sizes, measured, wrong ones named."""

from __future__ import annotations

import pytest

import wsched
from lowering.ground.errors import InternalError
from wsched.ladder.choice import to_choice
from wsched.ladder.climb import climb
from wsched.ladder.measure import measure, timeline
from wsched.ladder.picture import lanes_of_trace
from wsched.ladder.rungs import DEFINITION

pytestmark = pytest.mark.gpu

STEPS = climb()


@pytest.mark.parametrize("sizes", [(520, 264, 200), (40, 24, 72), (1000, 1544, 640)])
def test_all_rungs_are_right(sizes: tuple[int, int, int]) -> None:
    """What is off is no time, but an error."""
    found = measure({s.rung.name: s.kernel for s in STEPS}, *sizes, rounds=1)
    assert len(found) == len(STEPS) and min(found) > 0


def test_the_way_to_the_choice_is_right() -> None:
    """Of a large and of a small problem, whose choices are not alike, at odd sizes."""
    for sizes in ((4096, 4096, 4096), (300, 72, 1000)):
        kernels = {str(n): turn.kernel for n, turn in enumerate(to_choice(*sizes))}
        assert min(measure(kernels, 520, 264, 200, rounds=1)) > 0


def test_time_lines() -> None:
    """Of all rungs, in the same unit: the first CTA's warpgroups with their main loops."""
    for step in STEPS:
        trace = timeline(step.kernel)
        names = {p.activity for lane in lanes_of_trace(trace) for p in lane.parts}
        assert trace.unit == "ns" and "multiply" in names, step.rung.name


def test_a_wrong_result_is_no_time() -> None:
    import torch

    twice = DEFINITION.replace(
        "    fd.add_output(d)",
        "    e = fd.ops.mul(d, 2.0)\n"
        "    c = fd.ops.cast(e, dtype=DataType.BFloat16)\n"
        "    fd.add_output(c)",
    )
    inputs = [torch.zeros(128, 64, device="cuda", dtype=torch.bfloat16) for _ in range(2)]
    with pytest.raises(InternalError, match="twice is off by"):
        measure({"twice": wsched.compile(twice, inputs)}, 128, 128, 64)
