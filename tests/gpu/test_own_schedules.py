"""Schedules by hand and drawn at random on a GPU: what the proof accepts runs right there, too."""

from __future__ import annotations

from random import Random

import pytest

from lowering.ground.errors import ScheduleError, UnsupportedError
from tests.front.test_parts import wanted
from tests.legality.by_hand.parts import PARTS
from tests.legality.draws import draw
from tests.legality.test_by_hand import MADE, RUN
from wsched.fusion import Fusion
from wsched.importer.input_error import InputError
from wsched.run.compiled import compile_plan
from wsched.run.kernel_name import schedule_name
from wsched.schedule.options import KernelOptions
from wsched.schedule.plan import Plan, make_plan

pytestmark = pytest.mark.gpu

SIZES = ((200, 136, 264), (72, 520, 64), (1000, 88, 40), (65, 264, 1032), (64, 64, 0))
"""M, N and K: few and many tiles, odd numbers of them, K of none to many slices."""

BATCH = 3
"""Matrices of a batch."""

DRAWS = 24
"""Schedules that are drawn from each seed."""


def require_right(made: Plan, name: str = "") -> None:
    """Small integers, whose sums are exact in any order, against torch; ``name`` of parts."""
    import torch

    fusion, options = made.fusion, KernelOptions()
    kernel = compile_plan(made, options, schedule_name(fusion, options))
    for seed, (m, n, k) in enumerate(SIZES):
        size = {"B": BATCH, "M": m, "N": n, "K": k}
        random = torch.Generator("cuda").manual_seed(seed)
        inputs = []
        for b in fusion.inputs:
            order = fusion.order(b)
            whole = torch.randint(
                -2, 3, [size[a] for a in order], generator=random, device="cuda"
            ).to(getattr(torch, b.dtype.element.torch))
            inputs.append(whole.permute(*(order.index(a) for a in b.axes)))
        if name:
            expected = wanted(name, inputs)
        else:
            right = inputs[1].mT if fusion.inputs[1].axes[-1] == "K" else inputs[1]
            total = sum((x.float() for x in inputs[2:]), inputs[0].float() @ right.float())
            expected = [total.to(getattr(torch, b.dtype.element.torch)) for b in fusion.outputs]
        for result, wished in zip(kernel(*inputs), expected, strict=True):
            assert torch.equal(result, wished), (m, n, k)


@pytest.mark.parametrize("name", [n for n in RUN if MADE[n] not in PARTS])
def test_by_hand(name: str) -> None:
    require_right(make_plan(MADE[name]()))


@pytest.mark.parametrize("name", [make.__name__ for make in PARTS])
def test_parts(name: str) -> None:
    """Several parts that compute, in one kernel."""
    require_right(make_plan(MADE[name]()), name)


@pytest.mark.parametrize("seed", range(12))
def test_drawn(seed: int) -> None:
    ran = 0
    for n in range(DRAWS):
        fusion: Fusion = draw(Random(10_000 + DRAWS * seed + n))
        try:
            made = make_plan(fusion)
            require_right(made)
            ran += 1
        except (ScheduleError, UnsupportedError, InputError):
            continue
    assert ran >= DRAWS // 12
