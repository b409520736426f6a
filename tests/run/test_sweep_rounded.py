"""Sweeps with results of 8 bits: any sizes, bit by bit what the parts that torch runs have."""

from __future__ import annotations

from typing import Any

import pytest

from lowering.cuda.emit import emit_cuda
from lowering.cuda.nvrtc import compile_cubin
from lowering.cuda.resources import read_resources
from wsched.doors.fallback import interpret
from wsched.importer import record_text
from wsched.importer.sweep import import_sweep
from wsched.run.sweep import CompiledSweep, compiled_sweep

torch = pytest.importorskip("torch", reason="torch is not installed")

SHAPES = ((40, 264), (7, 33), (130, 1), (1, 50), (3, 17, 24), (64, 100))


def text(rank: int, source: str, to: str) -> str:
    """``x * s`` rounded, and ``s`` likewise, which is the same for all rows."""
    dims, one = [-1] * rank, [1] * (rank - 1) + [-1]
    dense, flags = [True] * rank, [None] * (rank - 1) + [True]
    return f"""\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape={dims}, contiguity={dense}, dtype=DataType.{source})
    s = fd.define_tensor(shape={one}, contiguity={flags}, dtype=DataType.Float)
    f = fd.ops.cast(x, dtype=DataType.Float)
    m = fd.ops.mul(f, s)
    d = fd.ops.cast(m, dtype=DataType.{to})
    fd.add_output(d)
"""


def made(shape: tuple[int, ...], source: str, to: str) -> tuple[CompiledSweep, Any, list[Any]]:
    definition = record_text(text(len(shape), source, to))
    generator = torch.Generator().manual_seed(len(shape))
    x = torch.randn(shape, generator=generator) * 200
    x.view(-1)[0] = torch.nan
    one = (1,) * (len(shape) - 1)
    scale = torch.rand((*one, shape[-1]), generator=generator) * 4
    kinds = {"BFloat16": torch.bfloat16, "Float": torch.float32}
    return compiled_sweep(import_sweep(definition)), definition, [x.to(kinds[source]), scale]


@pytest.mark.sampled
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("source", ["BFloat16", "Float"])
@pytest.mark.parametrize("to", ["Float8_e4m3fn", "Float8_e5m2"])
def test_bit_by_bit(shape: tuple[int, ...], source: str, to: str) -> None:
    sweep, definition, inputs = made(shape, source, to)
    (found,), (wanted,) = sweep(*inputs), interpret(definition, inputs)
    assert found.dtype is wanted.dtype
    assert torch.equal(found.float().nan_to_num(1e6), wanted.float().nan_to_num(1e6))


@pytest.mark.sampled
@pytest.mark.parametrize("shape", [*SHAPES, (1024, 4096)])
@pytest.mark.parametrize("to", ["Float8_e4m3fn", "Float8_e5m2"])
def test_machine_code(shape: tuple[int, ...], to: str) -> None:
    sweep, _, inputs = made(shape, "BFloat16", to)
    kernel = sweep.kernel(sweep.walk(inputs))
    found = read_resources(compile_cubin(emit_cuda(kernel), "sweep.cu"), kernel.name)
    assert found.spill_stores == found.spill_loads == found.stack == 0


def test_words_are_stored() -> None:
    """Eight neighbours of a thread are two words."""
    sweep, _, inputs = made((64, 256), "BFloat16", "Float8_e4m3fn")
    source = emit_cuda(sweep.kernel(sweep.walk(inputs)))
    assert "st_global_v2_b32(" in source and "st.global.u8" not in source


def test_a_row_alone() -> None:
    """What is the same for all rows has registers that are not full."""
    definition = record_text(
        """\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[-1], contiguity=[True], dtype=DataType.Float)
    d = fd.ops.cast(x, dtype=DataType.Float8_e5m2)
    fd.add_output(d)
"""
    )
    x = torch.linspace(-1e5, 1e5, 37)
    (found,) = compiled_sweep(import_sweep(definition))(x)
    assert torch.equal(found.float(), interpret(definition, [x])[0].float())
