"""Results where inputs are: refused, but for a residual that is written over in place."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

import wsched
from tests.epilogues import RESIDUAL
from tests.reductions import Reduced
from tests.reductions import definition as reducing
from tests.schedules import SCHEDULES, definition
from wsched.front.known import import_fusion
from wsched.importer import Definition, record_text
from wsched.importer.input_error import InputError
from wsched.importer.sweep import import_sweep
from wsched.run import overlap
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.run.overlap import never, require_disjoint
from wsched.run.sweep import compiled_sweep

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


@pytest.fixture(scope="module")
def residual() -> CompiledFusion:
    return compile_fusion(import_fusion(RESIDUAL), replace(PARAMS, epilogue_input_stages=0))


def test_a_traced_residual_is_not_written_over(residual: CompiledFusion) -> None:
    """On a GPU a trace runs twice: the second run would read what the first one wrote."""
    a, b = (torch.randn(72, 64).bfloat16() for _ in range(2))
    c = torch.randn(72, 72).bfloat16()
    with pytest.raises(InputError, match=r"^out\[0\] shares memory with input 2"):
        residual.trace(a, b, c, out=c)


def test_a_sum_is_not_written_over_a_row() -> None:
    """The row has the sums' shape and type, but other CTAs read it when one has stored."""
    x, w = (torch.randint(-2, 3, (72, 64)).bfloat16() for _ in range(2))
    bias = torch.randint(-2, 3, (72,)).bfloat16()
    kernel = wsched.compile(reducing((Reduced("sum", (0,), dtype="BFloat16"),)), [x, w, bias])
    d = torch.empty(72, 72, dtype=torch.bfloat16)
    _refused(kernel, x, w, bias, out=[d, bias], what="out[1] shares memory with input 2")


def test_rows_that_lie_between_each_other(residual: CompiledFusion) -> None:
    """Ranges of bytes that meet say nothing yet; elements do."""
    a, b = (torch.randn(72, 64).bfloat16() for _ in range(2))
    both = torch.randn(72, 2, 72).bfloat16()
    c, d = both[:, 0], both[:, 1]
    (wanted,) = residual(a, b, c)
    residual(a, b, c, out=d)
    assert torch.equal(d, wanted)
    _refused(residual, a, b, c, out=both.flatten()[8:].as_strided((72, 72), (144, 1)),
             what="out[0] shares memory with input 2")  # fmt: skip


def test_windows_of_one_row(linear: CompiledFusion) -> None:
    """No stride is 0, but each row begins within the one before."""
    a, b = (torch.randn(64, 64).bfloat16() for _ in range(2))
    out = torch.empty(64 * 64, dtype=torch.bfloat16).as_strided((64, 64), (8, 1))
    _refused(linear, a, b, out=out, what="out[0] has several elements at one address")


def test_strides_of_dimensions_of_one_element_do_not_count() -> None:
    """Nothing is at another place by those; by all others each step leads to another one."""
    memory = torch.empty(4096)
    for shape, strides in (((64, 1), (2, 0)), ((1, 64), (1, 2)), ((1, 8, 4, 1), (0, 1, 8, 3))):
        require_disjoint([], [memory.as_strided(shape, strides)], never)
    for shape, strides in (((64, 2), (2, 0)), ((2, 64), (1, 1)), ((8, 4), (1, 7))):
        with pytest.raises(InputError, match=r"^out\[0\] has several elements at one address"):
            require_disjoint([], [memory.as_strided(shape, strides)], never)


def test_tensors_apart_are_told_by_a_comparison(
    linear: CompiledFusion, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overlap, "_addresses", None)
    a, b = (torch.randn(64, 64).bfloat16() for _ in range(2))
    linear(a, b, out=torch.empty_like(a))


SWEEP = """
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Float)
    y = fd.ops.permute(x, dims=[1, 0])
    z = fd.ops.relu(y)
    fd.add_output(z)
"""


def test_a_sweep_does_not_write_over_what_it_reads() -> None:
    recorded = record_text(SWEEP)
    assert isinstance(recorded, Definition)
    sweep = compiled_sweep(import_sweep(recorded))
    x = torch.randn(40, 40)
    with pytest.raises(InputError, match=r"^out\[0\] shares memory with input 0"):
        sweep(x, out=x)
    with pytest.raises(InputError, match=r"^out\[0\] is torch.float32 \[40, 39\] on cpu, the res"):
        sweep(x, out=torch.empty(40, 39))
    (d,) = sweep(x, out=torch.empty(40, 40))
    assert torch.equal(d, x.T.relu())


def test_a_sweep_that_reads_each_element_where_it_writes_it() -> None:
    recorded = record_text(SWEEP.replace("fd.ops.permute(x, dims=[1, 0])", "fd.ops.neg(x)"))
    assert isinstance(recorded, Definition)
    sweep = compiled_sweep(import_sweep(recorded))
    x = torch.randn(40, 40)
    wanted = x.neg().relu()
    sweep(x, out=x)
    assert torch.equal(x, wanted)
    with pytest.raises(InputError, match=r"^out\[0\] shares memory with input 0"):
        whole = torch.randn(41, 40)
        sweep(whole[:40], out=whole[1:])
