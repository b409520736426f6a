"""``frag.red_global add`` of 16 bits on the machine: each sum is rounded once, none is flushed."""

from __future__ import annotations

import pytest
import torch

from lowering.kernel.text import parse_kernel
from lowering.kernel.verify import verify
from lowering.machine import run_kernel
from wsched.run.cpu import array_of

TYPES = {"bf16": torch.bfloat16, "f16": torch.float16}

TEXT = """
kernel k threads 128 cluster 1 grid 1 {
  global x: KIND[64, 8] align 4
  global order: s32[64, 1]
  global d: KIND[70, 8] align 4
  near: frag<s32, 64x1> = frag.load_global order[0, 0]
  t: frag<KIND, 64x8> = frag.load_global x[0, 0]
  frag.red_global add, d[0, 0], t, limit=60, index=near, any_order=true
}
"""


def added(kind: str, d: torch.Tensor, order: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """What rows of ``d`` are behind a launch."""
    kernel = parse_kernel(TEXT.replace("KIND", kind))
    assert verify(kernel) == []
    result = d.clone()
    tensors = {"x": x, "order": order.int().reshape(64, 1), "d": result}
    run_kernel(kernel, {name: array_of(t) for name, t in tensors.items()}, {}, 1)
    return result


def bits(tensor: torch.Tensor) -> list[int]:
    return tensor.view(torch.int16).flatten().tolist()


@pytest.mark.parametrize("kind", TYPES)
def test_rows_by_their_numbers(kind: str) -> None:
    """A row more than once, one that there is not, and those behind the limit; all bits."""
    torch.manual_seed(0)
    x, d = (torch.randn(rows, 8).to(TYPES[kind]) for rows in (64, 70))
    order = torch.randperm(64)
    order[7], order[9], order[11] = -1, 70, 1 << 30
    wanted = d.clone()
    for row, to in enumerate(order[:60].tolist()):
        if 0 <= to < 70:
            wanted[to] += x[row]
    assert bits(added(kind, d, order, x)) == bits(wanted)
    small = torch.randint(-2, 3, (64, 8)).to(TYPES[kind])
    onto = torch.zeros(70, 8).to(TYPES[kind])
    found = added(kind, onto, torch.arange(64) % 3, small)
    assert torch.equal(found[:3], torch.stack([small[:60][i::3].sum(0) for i in range(3)]))
    assert not found[3:].any()


@pytest.mark.parametrize(("kind", "least"), [("bf16", 2.0**-133), ("f16", 2.0**-24)])
def test_subnormal_numbers_are_added(kind: str, least: float) -> None:
    """As they are, where fp32 takes zeros."""
    x, d = (torch.full((rows, 8), least, dtype=TYPES[kind]) for rows in (64, 70))
    found = added(kind, d, torch.arange(64), x)
    assert found[:60].double().eq(2 * least).all() and torch.equal(found[60:], d[60:])
