from __future__ import annotations

import pytest

from passes.pair_arithmetic import pair_arithmetic
from tests.passes.texts import full, lowered, unchanged

HEAD = """
global z: bf16[1, 64] align 2
global v: f32[1, 64] align 4
shared Q_s: u4[1][64x64]
shared A_s: bf16[1][64x64]
q: frag<u4, 64x64> = ld.shared Q_s[0, 0, 0]
a: frag<bf16, 64x64> = ldmatrix A_s[0, 0, 0]
zero: frag<bf16, 64x1> = frag.load_global z[0, 0], trans=true
scale: frag<f32, 64x1> = frag.load_global v[0, 0], trans=true
"""
WIDE = "wide: frag<f32, 64x64> = frag.cast q\n"
ZEROS = "zeros: frag<f32, 64x1> = frag.cast zero\n"
ROUNDED = "w: frag<bf16, 64x64> = frag.cast less\n"
STORED = "stmatrix A_s[0, 0, 0], w\n"
SHORT = "short: frag<bf16, 64x64> = frag.cast q\n"


def made(args: str, op: str = "sub") -> str:
    return f"less: frag<f32, 64x64> = frag.pointwise {op}, {args}\n"


def paired(args: str, op: str = "sub") -> str:
    return f"w: frag<bf16, 64x64> = frag.pointwise {op}, {args}\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (WIDE + ZEROS + made("wide, zeros"), SHORT + paired("short, zero")),
        (WIDE + made("wide, zero"), SHORT + paired("short, zero")),
        (WIDE + made("wide, 8.0"), SHORT + paired("short, 8.0")),
        (WIDE + made("8.0, wide", "add"), SHORT + paired("8.0, short", "add")),
        (made("q, a"), SHORT + paired("short, a")),
        (made("a, zero"), paired("a, zero")),
    ],
    ids=["both widened", "one", "a number", "a sum", "as they are", "nothing is narrow"],
)
def test_what_is_rounded(before: str, after: str) -> None:
    found = lowered(pair_arithmetic, HEAD + before + ROUNDED + STORED, 128)
    assert found == full(HEAD + after + STORED, 128)


def test_what_others_read_stays() -> None:
    """Widened arguments, but not what is no argument."""
    more = "other: frag<f32, 64x64> = frag.pointwise neg, wide\n"
    found = lowered(
        pair_arithmetic, HEAD + WIDE + more + made("wide, zero") + ROUNDED + STORED, 128
    )
    assert found == full(HEAD + WIDE + more + SHORT + paired("short, zero") + STORED, 128)


def test_inside_loops() -> None:
    """What is made in front of the loop is read as it is."""
    inner = f"for c in 0 .. 2 {{\n{made('a, zeros')}{ROUNDED}{STORED}}}\n"
    found = lowered(pair_arithmetic, HEAD + inner.replace("zeros", "zero"), 128)
    assert found.count(paired("a, zero").strip()) == 1 and "f32, 64x64" not in found
    assert unchanged(pair_arithmetic, HEAD + ZEROS + inner)


@pytest.mark.parametrize(
    "text",
    [
        WIDE + made("wide, scale") + ROUNDED + STORED,
        WIDE + made("wide, 0.1") + ROUNDED + STORED,
        WIDE + made("wide, zero", "mul") + ROUNDED + STORED,
        made("a, zero") + ROUNDED + STORED + "other: frag<f32, 64x64> = frag.pointwise neg, less",
        made("a, zero") + ROUNDED.replace("bf16", "f16"),
        made("zero, zero").replace("64x64", "64x1") + ROUNDED.replace("64x64", "64x1"),
    ],
    ids=["fp32", "no such number", "a product", "read in fp32", "another type", "one column"],
)
def test_what_is_something_else(text: str) -> None:
    assert unchanged(pair_arithmetic, HEAD + text)
