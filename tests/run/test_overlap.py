"""Results where inputs are: refused, but for a residual that is written over in place."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.epilogues import RESIDUAL
from tests.schedules import SCHEDULES, definition
from wsched.front.known import import_fusion
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.run.input_error import InputError

torch = pytest.importorskip("torch")

PARAMS = SCHEDULES["coop_128x128"]


@pytest.fixture(scope="module")
def linear() -> CompiledFusion:
    return compile_fusion(import_fusion(definition()), PARAMS)


def _refused(kernel: CompiledFusion, *inputs: object, out: object, what: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(what)}"):
        kernel(*inputs, out=out)
    with pytest.raises(InputError, match=f"^{re.escape(what)}"):
        kernel.bind(*inputs, out=out)


def test_an_operand_is_not_written_over(linear: CompiledFusion) -> None:
    a, b = (torch.randn(64, 64).bfloat16() for _ in range(2))
    for position, out in enumerate((a, b)):
        text = (
            f"out[0] shares memory with input {position}; only an input of the epilogue that has "
            "the shape, type and strides of the result and begins where it begins may be written "
            "over"
        )
        _refused(linear, a, b, out=out, what=text)


def test_columns_of_one_buffer_do_not_overlap(linear: CompiledFusion) -> None:
    wide = torch.randn(64, 256).bfloat16()
    a, out, b = wide[:, :64], wide[:, 64:128], torch.randn(64, 64).bfloat16()
    wanted = a.float() @ b.float().T
    (d,) = linear(a, b, out=out)
    assert d.data_ptr() == out.data_ptr()
    torch.testing.assert_close(out.float(), wanted, rtol=2e-2, atol=1e-1)
    _refused(linear, a, b, out=wide[:, 56:120], what="out[0] shares memory with input 0")


def test_elements_at_one_address(linear: CompiledFusion) -> None:
    a, b = (torch.randn(64, 64).bfloat16() for _ in range(2))
    out = torch.empty(1, 64, dtype=torch.bfloat16).expand(64, 64)
    _refused(linear, a, b, out=out, what="out[0] has several elements at one address")


@pytest.mark.parametrize("stages", [0, 2], ids=["by threads", "by TMA"])
def test_a_residual_in_place(stages: int) -> None:
    options = replace(PARAMS.circular_buffer_options, smem_circular_buffer_stage=4)
    params = replace(PARAMS, circular_buffer_options=options, epilogue_input_stages=stages)
    kernel = compile_fusion(import_fusion(RESIDUAL), params)
    a, b = (torch.randn(72, 64).bfloat16() for _ in range(2))
    c = torch.randn(72, 72).bfloat16()
    wanted = kernel(a, b, c)[0].clone()
    (d,) = kernel(a, b, c, out=c)
    assert d.data_ptr() == c.data_ptr()
    assert torch.equal(c, wanted)
    rows = torch.randn(80, 72).bfloat16()
    text = "out[0] shares memory with input 2"
    _refused(kernel, a, b, rows[:72], out=rows[8:], what=text)
