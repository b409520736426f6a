"""Partial results as CUDA C++: the text, and where each thread's registers go."""

from __future__ import annotations

import re

import pytest

from lowering.cuda.emit import emit_cuda, emit_kernel
from lowering.cuda.nvrtc import compile_cubin
from lowering.cuda.resources import read_resources
from lowering.cuda.sass import disassemble
from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel


def kernel(rows: int, cols: int = 16) -> Kernel:
    """Two splits that each store a fragment and add one."""
    frag = f"frag<f32, {rows}x{cols}>"
    return parse_kernel(
        f"""kernel k threads 128 cluster 1 splits 2 grid 1 {{
          param n: i32
          workspace parts: f32[ctas * 2][{rows}x{cols}]
          mine: {frag} = frag.fill 1.0
          frag.store_partial parts[%ctaid.z], mine
          sum: {frag} = frag.add_partial mine, parts[n]
          frag.store_partial parts[n + 1], sum
        }}"""
    )


@pytest.mark.parametrize("rows", [64, 128])
def test_text(rows: int, golden: object) -> None:
    """A block of 64 rows follows the other; the same registers are stored and added to."""
    assert emit_kernel(kernel(rows)) == golden


@pytest.mark.parametrize(("rows", "cols"), [(64, 8), (64, 16), (128, 24), (192, 8)])
def test_every_word_of_a_slot_is_written_once(rows: int, cols: int) -> None:
    text = re.sub(r"\s+", " ", emit_kernel(kernel(rows, cols)))
    text = text[: text.index("at_2")]
    (base,) = re.findall(r"float\* const at\w* = (.*?);", text)
    calls = re.findall(r"r < (\d+)(?:(?!r <).)*?st_global_v4_f32\(\s*(.*?), (\w+\[.*?)\);", text)
    words: list[int] = []
    registers: set[int] = set()
    for thread in range(128):
        for count, where, values in calls:
            for r in range(int(count)):
                names = {"parts": 0, "ctaid_z": 1, "r": r, "thread": thread}
                start = base.replace("threadIdx.x", "thread").replace("(long long)", "")
                at = eval(start, {}, names)
                at = eval(re.sub(r"\bat\w*", str(at), where), {}, names)
                words += range(at, at + 4)
                held = re.findall(r"\[(.*?)\]", values)
                registers |= {eval(i, {}, names) for i in held}
    size = rows * cols
    assert sorted(words) == list(range(size, 2 * size)), "slot 1"
    assert registers == set(range(size // 128))


def test_machine_code() -> None:
    compiled = compile_cubin(emit_cuda(kernel(64)))
    assert read_resources(compiled, "k").clean
    sass = disassemble(compiled.cubin)
    assert sass.count("STG.E.128") == 4
    assert sass.count("LDG.E.128") == 2
