"""``cp.async`` as CUDA C++: its addresses, evaluated for every thread, and its machine code."""

from __future__ import annotations

import re

import pytest

from lowering.cuda.emit import emit_cuda, emit_kernel
from lowering.cuda.nvrtc import compile_cubin
from lowering.cuda.resources import read_resources
from lowering.cuda.sass import disassemble
from lowering.ground.errors import InternalError
from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel
from tests.lowering.cuda.opcodes import count_opcodes
from tests.lowering.cuda.rings import FILLS, copy_text, ring_text

BASE, STRIDE = 1024, 1000


def evaluate(text: str, env: dict[str, int]) -> int:
    """A C++ integer expression over non-negative values, in Python."""
    text = text.replace("/", "//").replace("&&", "and")
    if "?" in text:
        condition, _, values = text.partition("?")
        then, _, other = values.partition(":")
        text = then if evaluate(condition, env) else other
    return int(eval(text.strip(), {}, env))


def copies(k: Kernel, env: dict[str, int]) -> list[tuple[int, int, int]]:
    """(shared address, place in the tensor, bytes) of every copy that the threads make."""
    text = re.sub(r"\(\n\s+|,\n\s+", lambda m: m[0][0] + " ", emit_kernel(k))
    body = text[text.index("const int dim0" if "dim0" in text else "const int row") :].splitlines()
    found = []
    for thread in range(128):
        own = env | {"lane": thread % 32, "warpgroup_warp": thread // 32, "S": BASE, "X": 0}
        for line in body:
            if match := re.search(r"const (?:int|unsigned) (\w+) = (.*);", line):
                own[match[1]] = evaluate(match[2], own)
            elif match := re.search(r"\* at = (.*);", line):
                own["at"] = evaluate(match[1], own)
            elif match := re.search(r"r < (\d+)", line):
                steps = int(match[1])
            elif match := re.search(r"cp_async_16\( ?(.*), (.*), (.*)\);", line):
                for own["r"] in range(steps):
                    values = [evaluate(e, own) for e in match.groups()]
                    found.append((values[0], values[1], max(0, min(16, values[2]))))
    return found


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("dtype", "size", "cols", "span", "at"),
    [("bf16", 2, 128, 128, 8), ("u8", 1, 64, 64, 16), ("u8", 1, 256, 128, 0),
     ("f32", 4, 32, 0, 4), ("f16", 2, 64, 64, 0), ("f32", 4, 64, 128, 60)],
)  # fmt: skip
def test_addresses(dtype: str, size: int, cols: int, span: int, at: int) -> None:
    """Each 16 bytes of the tile once, from their place, as many of them as the tensor has."""
    k = parse_kernel(copy_text(dtype, size, cols, span, at))
    rows, ends, step = 150, at + cols // 2 + 1, 16 // size
    env = {"M": rows, "N": ends, "X_stride": STRIDE, "X_stride0": 1000 * STRIDE}
    wanted = set()
    for row in range(128):
        for col in range(0, cols, step):
            address = BASE + k.buffer("S").byte(1, row, col)
            place = 1000 * STRIDE + (64 + row) * STRIDE + at + col
            inside = max(0, min(step, ends - at - col)) if 64 + row < rows else 0
            wanted.add((address, place, inside * size))
    found = copies(k, env)
    assert len(found) == len(wanted)
    assert set(found) == wanted


def test_text(golden: object) -> None:
    assert emit_kernel(parse_kernel(ring_text("gather"))) == golden


@pytest.mark.sampled(1)
@pytest.mark.parametrize("fill", FILLS)
def test_machine_code(fill: str) -> None:
    compiled = compile_cubin(emit_cuda(parse_kernel(ring_text(fill))))
    assert read_resources(compiled, "ring").clean
    sass = disassemble(compiled.cubin)
    counts = count_opcodes(sass)
    assert counts["HGMMA"] == 4 and counts["UTMALDG"] == 1
    # Two halves of two steps for each thread; the arrival is a form of its own.
    assert counts["LDGSTS"] == (0 if fill == "registers" else 4)
    assert ("ARRIVES.LDGSTSBAR" in sass) == (fill != "registers")


def test_a_column_within_a_box() -> None:
    text = ring_text("rows").replace("cp.async a_s[stage, 0, 0]", "cp.async a_s[stage, 0, 8]")
    with pytest.raises(InternalError) as e:
        emit_kernel(parse_kernel(text))
    assert e.value.why == "cp.async to a_s starts within a box"
