"""Lines through tiles: the emitted text, and that 32 bits are enough of each element."""

from __future__ import annotations

import pytest

from lowering.cuda.emit import emit_cuda, emit_kernel
from lowering.cuda.nvrtc import compile_cubin
from lowering.kernel.text import parse_kernel

KERNEL = """
kernel k threads 128 cluster 1 grid 1 {
  param far: TYPE
  global y: bool[64, 16]
  below: frag<pred, 64x16> = frag.below far, down=-3, right=2
  frag.store_global y[0, 0], below
}
"""


def emitted(type_: str) -> list[str]:
    """The lines of the comparison."""
    text = emit_kernel(parse_kernel(KERNEL.replace("TYPE", type_)))
    lines = [line.strip() for line in text.splitlines()]
    begin = next(i for i, line in enumerate(lines) if line.startswith("const int left"))
    return lines[begin : begin + 8]


def test_an_element_is_one_comparison() -> None:
    """A thread has columns c and c + 1 of rows r and r + 8, of each group of 8 columns."""
    first, *_ = emitted("i32")
    assert emitted("i32")[1:] == [
        "#pragma unroll",
        "for (int r = 0; r < 2; ++r) {",
        "below[4 * r] = 16 * r < left;",
        "below[4 * r + 1] = 16 * r + 2 < left;",
        "below[4 * r + 2] = -24 + 16 * r < left;",
        "below[4 * r + 3] = -24 + 16 * r + 2 < left;",
        "}",
    ]
    assert "min" not in first


def test_a_limit_of_64_bits_is_brought_into_32() -> None:
    first, *rest = emitted("i64")
    assert first.startswith("const int left = int(min(max(far - (")
    assert first.endswith(", -1073741824ll), 1073741824ll));")
    assert rest == emitted("i32")[1:]


@pytest.mark.parametrize("type_", ["i32", "i64"])
def test_it_compiles(type_: str) -> None:
    assert compile_cubin(emit_cuda(parse_kernel(KERNEL.replace("TYPE", type_)))).cubin
