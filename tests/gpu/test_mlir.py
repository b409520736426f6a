"""Kernels by way of MLIR give the bits of the CUDA way."""

from __future__ import annotations

import pytest

from tests.epilogues import GELU, SILU
from tests.schedules import SCHEDULES, definition
from wsched import through_mlir
from wsched.cli.check import sized_inputs
from wsched.front.sizes import Extents
from wsched.importer import build_fusion, record_text
from wsched.run.compiled import compile_fusion

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
