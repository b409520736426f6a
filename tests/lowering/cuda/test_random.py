"""Random numbers as CUDA C++: the text, the number of each element, and machine code."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from lowering.cuda.emit import emit_cuda, emit_kernel
from lowering.cuda.nvrtc import compile_cubin
from lowering.cuda.resources import read_resources
from lowering.cuda.sass import disassemble
from lowering.ground.dtypes import DType
from lowering.ground.layouts import RegisterLayout
from lowering.ground.types import FragmentType
from lowering.kernel.text import parse_kernel
from lowering.machine.fragment import element_index
from tests.lowering.machine.test_random import KERNEL


def test_text(golden: object) -> None:
    assert emit_kernel(parse_kernel(KERNEL)) == golden


@pytest.mark.parametrize("shape", [(128, 32), (64, 1), (1, 16), (1, 1)])
@pytest.mark.parametrize("span", [1, 2, 4])
def test_numbers(shape: tuple[int, int], span: int) -> None:
    """By register, of some threads: an element's place in the tensor."""
    kind = FragmentType(DType.F32, *shape, layout=RegisterLayout(span))
    text = emit_kernel(
        parse_kernel(
            f"kernel k threads 128 cluster 1 grid 1 {{ param S: i64 param N: i32 "
            f"t: {kind} = frag.random S, S, N * 2 + 1, N }}"
        )
    )
    text = re.sub(r"\(\n\s+|,\n\s+", lambda m: m[0][0] + " ", text)
    (first,) = re.findall(r"const long long first = (.*);", text)
    loops = re.findall(r"r < (\d+); \+\+r\) \{\n(.*?)\n    \}", text, re.S)
    for warp, lane in ((0, 0), (1, 7), (3, 30)):
        env: dict[str, Any] = {"N": 1000, "stride": 1000, "lane": lane, "warpgroup_warp": warp}
        env["first"] = eval(first, {}, env)
        found = {}
        for count, body in loops:
            for env["r"] in range(int(count)):
                for number, out in re.findall(r"random_\d\( ?seed, offset, (.*?), (t.*)\);", body):
                    for i, register in enumerate(re.findall(r"t\[(.*?)\]", out)):
                        found[eval(register, {}, env)] = eval(number, {}, env) + i
        rows, cols = (np.broadcast_to(x, (32, *kind.held))[lane] for x in element_index(kind, warp))
        assert [found[i] for i in range(kind.registers)] == (
            2001 + rows * 1000 + cols
        ).ravel().tolist()


def test_numbers_of_64_bits() -> None:
    """What is counted in i64 is not narrowed."""
    text = """kernel k threads 128 cluster 1 grid 1 { param S: i64 global d: f32[64, 8]
      t: frag<f32, 64x8> = frag.random S, S, S * 3:i64, S frag.store_global d[0, 0], t }"""
    emitted = emit_kernel(parse_kernel(text))
    assert "const long long stride = S;" in emitted
    assert "(lane >> 2)) * stride + S * 3ll + (lane & 3) * 2;" in emitted, emitted
    assert compile_cubin(emit_cuda(parse_kernel(text))).cubin


@pytest.mark.slow
def test_machine_code() -> None:
    """The words of a counter are chosen in registers."""
    compiled = compile_cubin(emit_cuda(parse_kernel(KERNEL)))
    assert read_resources(compiled, "noise").clean
    assert "LDL" not in disassemble(compiled.cubin)
