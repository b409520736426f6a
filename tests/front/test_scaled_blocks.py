"""Scales of blocks of 128 along K: results, layouts, and what is refused."""

from __future__ import annotations

import re
from typing import Any

import pytest

import wsched
from lowering.ground.errors import UnsupportedError
from wsched.cli.check import check, sized_inputs
from wsched.front.scaled import BLOCK, scaled_mm_call
from wsched.front.sizes import Extents
from wsched.importer.input_error import InputError

torch = pytest.importorskip("torch", reason="torch is not installed")

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
PAIRS = [(1, 128), (1, 1), (128, 1), (128, 128)]


def drawn(rows: int, k: int, of: int, dtype: Any = E4M3, seed: int = 0) -> tuple[Any, Any]:
    """An operand [rows, K] and the scales of its blocks, which differ by orders of magnitude."""
    generator = torch.Generator().manual_seed(seed)
    blocks = -(-rows // of), -(-k // BLOCK)
    x = torch.randn(rows, k, generator=generator).to(dtype)
    return x, torch.exp2(torch.randint(-6, 7, blocks, generator=generator).float()) * 1.25


def wide(x: Any, scale: Any, of: int) -> Any:
    rows, k = x.shape
    spread = scale.repeat_interleave(of, 0)[:rows].repeat_interleave(BLOCK, 1)[:, :k]
    return x.double() * spread.double()


def error(found: Any, wanted: Any) -> float:
    return float(torch.linalg.norm(found.double() - wanted) / torch.linalg.norm(wanted))


@pytest.mark.sampled
@pytest.mark.parametrize(("m", "n", "k"), [(200, 264, 400), (64, 128, 128), (1, 136, 640)])
@pytest.mark.parametrize(("rows", "columns"), PAIRS)
def test_right(rows: int, columns: int, m: int, n: int, k: int) -> None:
    """Also where the last blocks are not whole."""
    (a, p), (b, q) = drawn(m, k, rows), drawn(n, k, columns, E5M2, seed=1)
    wanted = wide(a, p, rows) @ wide(b, q, columns).t()
    found = wsched.scaled_mm(a, b.t(), p, q.t(), out_dtype=torch.float32)
    assert error(found, wanted) < 3e-4
    bias = torch.randn(n, dtype=torch.bfloat16)
    half = wsched.scaled_mm(a, b.t(), p, q.t(), bias)
    assert half.dtype is torch.bfloat16 and error(half, wanted + bias.double()) < 4e-3


def test_scales_are_read_as_they_lie() -> None:
    """Single rows side by side, or K: others are copied, and count the same."""
    (a, p), (b, q) = drawn(72, 384, 1), drawn(200, 384, 128, seed=1)
    results = [
        wsched.scaled_mm(a, b.t(), left, right)
        for left in (p, p.t().contiguous().t())
        for right in (q.t(), q.t().contiguous(), torch.nn.functional.pad(q, (0, 1))[:, :3].t())
    ]
    assert all(torch.equal(r, results[0]) for r in results)


def test_one_block_is_a_number_or_a_row_of_them() -> None:
    """What shapes say of K up to 128 is what they say without blocks."""
    (a, p), (b, q) = drawn(40, 100, 1), drawn(24, 100, 1, seed=1)
    text, _ = scaled_mm_call(a, b.t(), p, q.t())
    assert "scale_blocks" not in text
    text, _ = scaled_mm_call(a, b.t(), p, drawn(200, 100, 128)[1].t()[:, :1])
    assert "scale_blocks" not in text
    b, q = drawn(200, 100, 128, seed=1)
    text, _ = scaled_mm_call(a, b.t(), p, q.t())
    assert "scale_blocks=[1, 128]" in text
    wanted = wide(a, p, 1) @ wide(b, q, 128).t()
    assert error(wsched.scaled_mm(a, b.t(), p, q.t(), out_dtype=torch.float32), wanted) < 3e-4


def test_each_block_counts_times_its_own() -> None:
    """All scales but one are zero, and what is left is that block's product, exactly."""
    a, b = (torch.full((n, 384), 1.0).to(E4M3) for n in (130, 136))
    for i in range(3):
        p, q = torch.zeros(130, 3), torch.ones(2, 3)
        p[:, i], q[1, i] = torch.arange(130.0), 2.0
        found = wsched.scaled_mm(a, b.t(), p, q.t(), out_dtype=torch.float32)
        columns = torch.ones(136)
        columns[128:] = 2.0
        assert torch.equal(found, 128 * torch.arange(130.0)[:, None] * columns)


def test_explain_check_and_names() -> None:
    (a, p), (b, q) = drawn(200, 400, 1), drawn(264, 400, 128, seed=1)
    call = scaled_mm_call(a, b.t(), p, q.t())
    text = str(wsched.explain(*call))
    assert text.startswith("200x264x400 on ")
    made = wsched.compile(*call)
    assert "global T2: f32[ceildiv(K, 128), M]" in made.dump("kernel")
    assert check(made, sized_inputs(made, Extents(200, 264, 400), 0, "cpu")).passed
    assert "mma(T8, T9, promotion = 128, scales = {T2 of 1, T3 of 128})" in made.dump("loops")


@pytest.mark.parametrize(
    ("left", "right", "what"),
    [
        ((200, 3), (4, 3), "scale_a of shape [200, 3]"),
        ((200, 4), (4, 4), "scale_a of shape [200, 4]"),
        ((100, 4), (4, 3), "scale_a of shape [100, 4]"),
        ((200, 1), (4, 3), "scale_b of shape [4, 3]"),
        ((), (4, 3), "scale_b of shape [4, 3]"),
    ],
)
def test_other_blocks(left: tuple[int, ...], right: tuple[int, ...], what: str) -> None:
    a, b = torch.zeros(200, 512).to(E4M3), torch.zeros(264, 512).to(E4M3)
    with pytest.raises(UnsupportedError, match=f"^{re.escape(what)} is not supported"):
        wsched.scaled_mm(a, b.t(), torch.zeros(left), torch.zeros(right))


def test_integers_and_sums_in_the_tensor_core() -> None:
    """Sums that nobody promotes have no steps to scale."""
    (a, p), (b, q) = drawn(64, 256, 1), drawn(64, 256, 1, seed=1)
    with pytest.raises(UnsupportedError) as caught:
        wsched.scaled_mm(a, b.t(), p, q.t(), use_fast_accum=True)
    assert str(caught.value) == (
        "scales of blocks [1, 1] of a product whose sums stay in the tensor core is not supported; "
        "supported: those of floats of 8 bits, whose sums are promoted"
    )
    a, b = a.to(torch.int8), b.to(torch.int8)
    with pytest.raises(UnsupportedError) as caught:
        wsched.scaled_mm(a, b.t(), p, q.t())
    assert str(caught.value).startswith(
        "scales of blocks [1, 1] of a product of s8 or u8 by s8 or u8 into s32 is not supported"
    )


def test_another_number_of_blocks_than_there_are() -> None:
    """The definition says what they are of, so a call with other shapes is a mistake."""
    (a, p), (b, q) = drawn(64, 256, 1), drawn(64, 256, 1, seed=1)
    kernel = wsched.compile(*scaled_mm_call(a, b.t(), p, q.t()))
    with pytest.raises(InputError) as caught:
        kernel(a, b.t(), torch.ones(64, 3), torch.ones(3, 64))
    assert str(caught.value) == "3 blocks of 128 along K, which is 256: 2"
