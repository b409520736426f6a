"""A row's bits do not depend on M: fp32 results of a large problem, and of its first rows alone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.epilogues import GELU
from tests.schedules import definition

pytestmark = pytest.mark.gpu

ROWS = (1, 17, 64, 128, 300)
SIZES = [(4096, 4096), (576, 7168), (1000, 320), (256, 72), (6144, 200), (28672, 136)]
"""N and K; K with a tail of every kind: none, less than a slice of 64, one more than 128s."""


def operands(m: int, n: int, k: int) -> tuple[Any, Any]:
    """Normal numbers; the first rows have what is hard to sum: zeros of both signs, huge, tiny."""
    import torch

    generator = torch.Generator("cuda").manual_seed(n + k)
    a, b = (torch.randn(s, k, generator=generator, device="cuda") for s in (m, n))
    a[2], a[3], a[4] = 0.0, -0.0, a[4] * 1e30
    a[5] = a[5] * 1e-38
    b[1] = -b[1].abs()
    return a.bfloat16(), b.bfloat16()


@pytest.mark.parametrize(("n", "k"), SIZES)
@pytest.mark.parametrize("result", ["f32", "bf16"])
def test_rows_alone_and_together(n: int, k: int, result: str) -> None:
    import torch

    import wsched

    text = definition("bf16", result)
    a, b = operands(4096, n, k)
    (together,) = wsched.execute(text, [a, b], batch_invariant=True)
    kind = torch.int32 if result == "f32" else torch.int16
    for rows in ROWS:
        (alone,) = wsched.execute(text, [a[:rows], b], batch_invariant=True)
        assert torch.equal(alone.view(kind), together[:rows].contiguous().view(kind)), rows


@pytest.mark.parametrize(("n", "k"), SIZES[:3])
def test_rows_with_an_epilogue(n: int, k: int) -> None:
    import torch

    import wsched

    a, b = operands(4096, n, k)
    inputs = [b * k**-0.5, torch.randn(n, device="cuda").bfloat16()]
    (together,) = wsched.execute(GELU, [a, *inputs], batch_invariant=True)
    for rows in ROWS:
        (alone,) = wsched.execute(GELU, [a[:rows], *inputs], batch_invariant=True)
        assert torch.equal(alone.view(torch.int16), together[:rows].view(torch.int16)), rows


def test_any_two_candidates_agree() -> None:
    """Of several hundred every few: a kernel takes a second to compile."""
    import torch

    import wsched
    from wsched.choose.heuristics import candidates
    from wsched.choose.problem import Problem
    from wsched.fusion import DataType

    text, sizes = definition("bf16", "f32"), (300, 520, 328)
    a, b = operands(*sizes)
    types = DataType.BFloat16, (DataType.Float,)
    every = candidates(Problem(*sizes, *types, 132, batch_invariant=True))
    found = every[:: len(every) // 24]
    bits = [wsched.execute(text, [a, b], params=c.params)[0].view(torch.int32) for c in found]
    names = [str(c.params.output_tile) for c, r in zip(found, bits, strict=True)
             if not torch.equal(r, bits[0])]  # fmt: skip
    assert not names and len(bits) >= 24
