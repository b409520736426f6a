"""Masks in cuts: who makes them, and that the matmul's kernel reads them or knows them."""

from __future__ import annotations

import pytest
import torch

import wsched
from tests.epilogues import epilogue, tensor
from tests.front.cut.test_segments import shown
from tests.masks import INDICES, KEPT, K, M, N, W, X, Y, integers
from wsched.front.cut.epilogues import Take
from wsched.front.cut.segments import Cutter
from wsched.importer import record_text

BELOW = torch.arange(M)[:, None] >= torch.arange(N)
SCORES = ("y = fd.ops.linear(x, w)", "m = fd.ops.ge(r, c)", "z = fd.ops.where(m, y, 0.0)")


def cut(text: str) -> str:
    return shown(Cutter(record_text(text)).all(Take.ALL).segments)


@pytest.mark.slow
def test_indices_are_compared_in_the_kernel() -> None:
    text = epilogue(f"v: [32, {N}]", *INDICES, *SCORES, "d = fd.ops.linear(z, v)")
    assert cut(text) == (
        "wsched: x, w -> z: iota broadcast_in_dim iota broadcast_in_dim linear ge where\n"
        "wsched: v, z -> d: linear"
    )
    v = integers(32, N, seed=7)
    (d,) = wsched.execute(text, [X, W, v])
    wanted = (Y * BELOW).to(torch.bfloat16).float() @ v.float().T
    assert torch.equal(d, wanted.to(torch.bfloat16))


def test_a_mask_that_two_matmuls_read_is_an_input_of_both() -> None:
    """Others make it once."""
    text = epilogue(
        f"v: [{N}, {K}]", *INDICES, *SCORES, "u = fd.ops.linear(x, v)",
        "d = fd.ops.where(m, u, 0.0)", "e = fd.ops.sum(z, dims=[0])", outputs="e d",
    )  # fmt: skip
    made, *kernels = cut(text).splitlines()
    assert made == "nvFuser:  -> m: iota broadcast_in_dim iota broadcast_in_dim ge"
    assert all("m" in line.split(" -> ")[0] and "where" in line for line in kernels)


@pytest.mark.slow
def test_a_mask_of_what_no_epilogue_has_is_an_input() -> None:
    """Numbers of 64 bits, say: others compare them."""
    body = [
        f"x = {tensor()}", f"w = {tensor()}", f"p = {tensor('[-1, -1]', 'Int')}",
        "y = fd.ops.linear(x, w)", "m = fd.ops.ge(p, 3)", *KEPT, "fd.add_output(d)",
    ]  # fmt: skip
    text = "def nvfuser_fusion(fd: FusionDefinition):\n" + "".join(f"    {s}\n" for s in body)
    assert cut(text) == "nvFuser: p -> m: ge\nwsched: x, w, m -> d: linear where cast"
    p = torch.arange(M * N).reshape(M, N) % 7
    (d,) = wsched.execute(text, [X, W, p])
    assert torch.equal(d, (Y * (p >= 3)).to(torch.bfloat16))


def test_explain_tells_of_them() -> None:
    text = epilogue(f"v: [32, {N}]", *INDICES, *SCORES, "d = fd.ops.linear(z, v)")
    said = str(wsched.explain(text, [X, W, integers(32, N)]))
    assert "x, w -> z: 2 iota, 2 broadcast_in_dim, linear, ge, where" in said, said
