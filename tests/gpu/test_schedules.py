"""Every schedule, compiled by this machine's NVRTC and run on problems that are hard for it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gpu.cases import Case, check
from tests.schedules import SCHEDULES, definition, for_result

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("result", ["bf16", "f32"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_clean(name: str, result: str) -> None:
    import torch

    import wsched

    shapes = [torch.empty(8, 8, dtype=torch.bfloat16) for _ in range(2)]
    params = for_result(SCHEDULES[name], result)
    kernel = wsched.compile(definition("bf16", result), shapes, params=params)
    assert kernel.resources.clean, str(kernel.resources)


def sizes(name: str) -> list[tuple[int, int, int]]:
    """One tile; tails everywhere; more tiles than CTAs; K below a slice, of many rounds, empty."""
    t = SCHEDULES[name].output_tile
    return [
        (t.m, t.n, t.k),
        (8, 8, 8),
        (2 * t.m + 8, 3 * t.n - 8, 5 * t.k + 8),
        (t.m * 25 + 8, t.n * 11 + 8, 2 * t.k),
        (t.m + 8, t.n * 132, 8),
        (t.m, t.n, 4096),
        (t.m + 8, t.n, 0),
    ]


@pytest.mark.parametrize("result", ["bf16", "f32"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_hard_problems(name: str, result: str) -> None:
    for i, (m, n, k) in enumerate(sizes(name)):
        case = Case(m, n, k, "bf16", result, name, integer=True, padding=8 * (i % 2), seed=i)
        assert check(case) == "", case


@pytest.mark.parametrize("name", ["coop_128x256", "pingpong_64x256", "pingpong_128x128"])
def test_a_thousand_launches_agree(name: str) -> None:
    """A race that shows once in a thousand launches."""
    import torch

    import wsched

    generator = torch.Generator(device="cuda").manual_seed(0)
    x, w = (
        torch.randint(-2, 3, (rows, 328), generator=generator, device="cuda").bfloat16()
        for rows in (1032, 2056)
    )
    kernel = wsched.compile(definition(), [x, w], params=SCHEDULES[name])
    wanted = (x.double() @ w.double().T).bfloat16()
    d: Any = torch.empty_like(wanted)
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    for _ in range(1000):
        d.fill_(float("nan"))
        kernel(x, w, out=[d])
        wrong += (d != wanted).sum()
    assert int(wrong) == 0
