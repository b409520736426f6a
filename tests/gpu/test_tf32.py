"""Operands of TF32 on the GPU: rounded as the machine rounds them."""

from __future__ import annotations

import numpy as np
import pytest

import wsched
from lowering.machine.fragment import rounded_to_tf32
from tests.schedules import definition

pytestmark = pytest.mark.gpu

N = 1024


def test_each_bit_of_a_product_with_the_identity() -> None:
    """Ties, numbers beside one, subnormal ones; finite also when rounded, so that zeros count."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 32, (N, N), np.uint32)
    near = rng.choice(np.array([0, 1, 0xFFF, 0x1000, 0x1001, 0x1FFF], np.uint32), (N // 2, N))
    bits[: N // 2] = bits[: N // 2] & 0xFFFFE000 | near
    bits[(bits >> 23 & 0xFF) >= 0xFE] &= 0xBFFFFFFF
    x = torch.from_numpy(bits.view(np.float32)).cuda()
    text = wsched.with_tf32(definition("f32", "f32"))
    (out,) = wsched.execute(text, [x, torch.eye(N, device="cuda")])
    found, want = (a.view(np.float32) for a in (out.cpu().numpy(), rounded_to_tf32(bits)))
    assert np.array_equal(found, want)


def test_what_is_not_finite() -> None:
    """Infinity stays one, and a NaN: each makes NaN of its row but for what meets it alone."""
    torch = pytest.importorskip("torch")
    x = torch.zeros(64, 64, device="cuda")
    x[3, 5], x[7, 9], x[11, 0] = torch.inf, torch.nan, -torch.inf
    w = torch.ones(8, 64, device="cuda")
    text = wsched.with_tf32(definition("f32", "f32"))
    (out,) = wsched.execute(text, [x, w])
    assert out[3].isposinf().all() and out[7].isnan().all() and out[11].isneginf().all()
    assert not out[:3].any()
