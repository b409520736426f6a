"""``copy.tile`` as CUDA C++: what every thread loads and stores, and its machine code."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lowering.cuda.emit import emit_cuda, emit_kernel
from lowering.cuda.nvrtc import compile_cubin
from lowering.cuda.resources import read_resources
from lowering.ground.errors import InternalError
from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel
from tests.lowering.cuda.tiles import tile_text

BASE, STRIDE = 1024, 1000

CASES = [
    ("bf16", 2, 128, 128, 8, 1, 128), ("bf16", 2, 64, 128, 7, 2, 64), ("u8", 1, 64, 64, 3, 1, 8),
    ("u8", 1, 256, 128, 5, 1, 128), ("f32", 4, 32, 0, 3, 1, 128), ("f16", 2, 64, 64, 2, 4, 24),
    ("f32", 4, 64, 128, 60, 8, 128), ("bf16", 2, 64, 128, 8, 16, 100), ("bf16", 2, 16, 32, 1, 1, 9),
    ("bf16", 2, 16, 32, 8, 16, 16),
]  # fmt: skip


def python(text: str) -> str:
    """The block of a copy, which is simple enough, as Python that notes what threads do."""
    out, depth = [], 0
    for line in map(str.strip, text.splitlines()):
        if not line or line.startswith("#") or line == "{":
            continue
        if line == "}":
            depth -= 1
            continue
        for old, new in (("&&", "and"), ("/", "//"), ("++turn", ""), ("++r", "")):
            line = line.replace(old, new)
        line = re.sub(r"(= )(.*) \? (.*) : (.*);", r"\1(\3) if (\2) else (\4);", line).rstrip(";")
        loop = re.match(r"for \(int (\w+) = 0; \w+ < (\d+); \) \{", line)
        only = re.match(r"if \((.*?)\) (store_piece.*)", line)
        if loop:
            out.append("  " * depth + f"for {loop[1]} in range({loop[2]}):")
            depth += 1
            continue
        if only:
            line = f"{only[2]} if {only[1]} else None"
        line = re.sub(r"^(?:const )?(?:\w+ ?)+(?:\* (?:const )?|(?<= ))(\w+) = ", r"\1 = ", line)
        line = re.sub(r"^(?:unsigned|uint2|uint4) (\w+)\[\d+\]$", r"\1 = {}", line)
        out.append("  " * depth + line)
    return "\n".join(out)


def moved(k: Kernel, env: dict[str, int]) -> dict[int, int | None]:
    """Of each shared address that is written, where it is from in the tensor; None of zeros."""
    text = emit_kernel(k).replace("(\n", "(")
    text = re.sub(r"\(\s+", "(", re.sub(r",\n\s+", ", ", text))
    block = text[text.index("const int down") : text.index("ptx::fence_proxy_async")]
    code = compile(python(block.rstrip().removesuffix("}")), "copy", "exec")
    found: dict[int, int | None] = {}

    def store(where: int, value: int | None) -> None:
        assert where not in found
        found[where] = value

    def load(at: int, inside: bool) -> int | None:
        return at if inside else None

    calls: dict[str, Any] = {f"{name}_piece_{n}": f for n in (1, 2, 4, 8, 16)
                             for name, f in (("load", load), ("store", store))}  # fmt: skip
    for thread in range(128):
        own = env | calls | {"lane": thread % 32, "warpgroup_warp": thread // 32, "S": BASE, "X": 0}
        exec(code, own)
    return found


@pytest.mark.parametrize(("dtype", "size", "cols", "span", "at", "align", "rows"), CASES)
def test_addresses(
    dtype: str, size: int, cols: int, span: int, at: int, align: int, rows: int
) -> None:
    """Each piece of the tile once, from its place, zero where the tensor has none."""
    k = parse_kernel(tile_text(dtype, size, cols, span, at, align, rows))
    high, step = 150, max(align, size) // size
    ends = at + -(-(cols // 2 + 1) // step) * step
    env = {"M": high, "N": ends, "X_stride": STRIDE, "X_stride0": 1000 * STRIDE}
    wanted: dict[int, int | None] = {}
    for row in range(rows):
        for col in range(0, cols, step):
            inside = 64 + row < high and at + col < ends
            place = 1000 * STRIDE + (64 + row) * STRIDE + at + col
            wanted[BASE + k.buffer("S").byte(1, row, col)] = place if inside else None
    assert moved(k, env) == wanted


@pytest.mark.sampled
@pytest.mark.parametrize(("dtype", "size", "cols", "span", "at", "align", "rows"), CASES)
def test_machine_code(
    dtype: str, size: int, cols: int, span: int, at: int, align: int, rows: int
) -> None:
    k = parse_kernel(tile_text(dtype, size, cols, span, at, align, rows))
    assert read_resources(compile_cubin(emit_cuda(k)), "copies").clean


def test_text(golden: object) -> None:
    assert emit_kernel(parse_kernel(tile_text("bf16", 2, 128, 128, 7, 1, 40))) == golden


def test_a_column_within_a_box() -> None:
    text = tile_text("bf16", 2, 64, 128, 8, 1, 64).replace("S[1, 0, 0], X", "S[1, 0, 8], X")
    with pytest.raises(InternalError) as e:
        emit_kernel(parse_kernel(text))
    assert e.value.why == "copy.tile to S starts within a box"


def test_rows_that_are_no_number_of_pieces() -> None:
    """Of columns that no swizzle divides: 48 elements to 128 threads."""
    with pytest.raises(InternalError) as e:
        emit_kernel(parse_kernel(tile_text("f32", 4, 48, 0, 0, 1, 64)))
    assert e.value.why == "copy.tile of pieces of 4 bytes into boxes of 192 bytes, S"
