"""Kernels by way of MLIR give the bits of the CUDA way."""

from __future__ import annotations

import pytest

from lowering.cuda.launch import LoadedKernel
from lowering.mlir.emit import emit_mlir
from lowering.mlir.toolchain import compile_mlir
from tests.epilogues import GELU, SILU
from tests.gpu.families import loaded, ran
from tests.mutants.subjects import HOPPER, subject
from tests.schedules import SCHEDULES, definition
from wsched import through_mlir
from wsched.cli.check import sized_inputs
from wsched.front.sizes import Extents
from wsched.importer import build_fusion, record_text
from wsched.run.compiled import compile_fusion
from wsched.run.workspace import Workspace

pytestmark = pytest.mark.gpu

CASES = [(name, definition()) for name in SCHEDULES] + [
    (name, text) for name in ("coop_128x128", "pingpong_128x128") for text in (GELU, SILU)
]


@pytest.mark.parametrize(("name", "text"), CASES)
@pytest.mark.parametrize("shape", ["512x384x512", "1000x520x328"])
def test_bits(name: str, text: str, shape: str) -> None:
    torch, _ = (pytest.importorskip(name) for name in ("torch", "triton"))
    kernel = compile_fusion(build_fusion(record_text(text)), SCHEDULES[name])
    inputs = sized_inputs(kernel, Extents.parse(shape), 0, "cuda")
    expected, found = kernel(*inputs), through_mlir(kernel)(*inputs)
    for one, other in zip(expected, found, strict=True):
        assert torch.equal(one.view(torch.uint8), other.view(torch.uint8))


@pytest.mark.parametrize("name", HOPPER)
def test_bits_of_families(name: str) -> None:
    """All that a launch may write, of each family's kernels, on what its mutants are judged on."""
    torch, _ = (pytest.importorskip(name) for name in ("torch", "triton"))
    right = subject(name)
    k = right.kernel
    cubin = compile_mlir(emit_mlir(k), k.name, k.target.arch).cubin
    ways = loaded(right), LoadedKernel(k, cubin, Workspace.of)
    for launch in right.launches:
        expected, found = (ran(way, launch) for way in ways)
        for tensor, one in expected.items():
            assert torch.equal(*(t.view(torch.uint8) for t in (one, found[tensor]))), tensor
