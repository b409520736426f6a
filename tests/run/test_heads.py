"""Heads of several sequences: batches of two dimensions with a stride each, in one kernel."""

from __future__ import annotations

from typing import Any

import pytest

import wsched
from tests.importer.test_build import X, build
from tests.run.test_lists import EVERY
from wsched.fusion import Fusion
from wsched.run.compiled import compile_fusion
from wsched.run.copies import copied, in_front, unreadable
from wsched.run.layout import laid_out

torch = pytest.importorskip("torch")

HEADS = X.replace("-1, -1", "-1, -1, -1, -1").replace("True, True", "True, True, True, True")
MASK = HEADS.replace("-1, -1, -1, -1", "-1, 1, -1, -1").replace("True, True", "True, None", 1)
SCORES = (f"q = {HEADS}", f"k = {HEADS}", "s = fd.ops.matmul(q, k)")


def drawn(b: int, s: int, h: int, d: int) -> Any:
    """[B, H, S, D], a view of [B, S, H, D]; integers whose products sum up exactly."""
    return torch.randint(-2, 3, (b, s, h, d)).to(torch.bfloat16).permute(0, 2, 1, 3)


def ran(fusion: Fusion, name: str, *inputs: Any) -> Any:
    """The result of a schedule, for operands as they lie."""
    (found,) = compile_fusion(laid_out(fusion, inputs), EVERY[name])(*inputs)
    return found


@pytest.mark.sampled
@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("m_major", [False, True])
def test_scores(name: str, m_major: bool) -> None:
    q, k = drawn(2, 70, 3, 24), drawn(2, 40, 3, 24).mT
    if m_major:
        q = torch.randint(-2, 3, (2, 24, 3, 72)).to(torch.bfloat16).permute(0, 2, 3, 1)
    found = ran(build(*SCORES), name, q, k)
    assert torch.equal(found, (q.float() @ k.float()).bfloat16())
    assert found.is_contiguous()


def test_one_operand_lacks_a_batch_dimension() -> None:
    q, k = drawn(2, 70, 3, 24), torch.randint(-2, 3, (3, 24, 40)).to(torch.bfloat16)
    other = X.replace("-1, -1", "-1, -1, -1").replace("True, True", "True, True, True")
    found = ran(build(SCORES[0], f"k = {other}", SCORES[2]), "ping_pong", q, k)
    assert torch.equal(found, (q.float() @ k.float()).bfloat16())


def test_a_mask_of_each_sequence() -> None:
    lines = (*SCORES[:2], f"m = {MASK}", SCORES[2], "p = fd.ops.add(s, m)")
    q, k, mask = drawn(2, 70, 3, 24), drawn(2, 40, 3, 24).mT, drawn(2, 70, 1, 40)
    found = ran(build(*lines), "cooperative", q, k, mask)
    wanted = (q.float() @ k.float()).bfloat16() + mask
    assert torch.equal(found, wanted)


ATTENTION = """\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    q = fd.define_tensor(shape=[2, 40, 48], contiguity=[True, True, True], dtype=DataType.BFloat16)
    k = fd.define_tensor(shape=[2, 40, 48], contiguity=[True, True, True], dtype=DataType.BFloat16)
    a = fd.ops.reshape(q, new_shape=[2, 40, 3, 16])
    b = fd.ops.reshape(k, new_shape=[2, 40, 3, 16])
    c = fd.ops.permute(a, dims=[0, 2, 1, 3])
    d = fd.ops.permute(b, dims=[0, 2, 3, 1])
    s = fd.ops.matmul(c, d)
    fd.add_output(s)
"""


def test_no_copy_of_views() -> None:
    """One kernel reads both where they lie."""
    q, k = (torch.randint(-2, 3, (2, 40, 48)).to(torch.bfloat16) for _ in range(2))
    found = wsched.explain(ATTENTION, [q, k])
    (part,) = found.parts
    assert (part.runs, part.copied) == ("wsched", "")
    assert len(part.views) == 2
    (s,) = wsched.execute(ATTENTION, [q, k])
    heads = (x.view(2, 40, 3, 16).permute(0, 2, 1, 3).float() for x in (q, k))
    left, right = heads
    assert torch.equal(s, (left @ right.mT).bfloat16())


def test_heads_that_no_tensor_map_has_are_copied() -> None:
    """Rows of 74 bytes: each batch is as many matrices in whole lines of the L2 as there are heads,
    by the operand's own order."""
    q = torch.randint(-2, 3, (2, 3, 24, 37)).bfloat16()
    k = torch.randint(-2, 3, (2, 3, 16, 37)).bfloat16().mT
    fusion = laid_out(build(*SCORES), [q, k])
    assert unreadable(fusion, [q, k]) == (0, 1)
    kernel = compile_fusion(fusion, EVERY["cooperative"])
    first, second = copied(in_front(kernel.plan, "matmul", (0, 1)), [q, k])
    assert first.stride() == (3 * 24 * 64, 24 * 64, 64, 1) and torch.equal(first, q)
    assert second.stride() == (3 * 16 * 64, 16 * 64, 1, 64) and torch.equal(second, k)
    assert torch.equal(kernel(q, k)[0], (q.float() @ k.float()).bfloat16())
