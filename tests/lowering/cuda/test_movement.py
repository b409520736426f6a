"""Addresses of stmatrix, st.shared and their inverses: the text, evaluated for every thread."""

from __future__ import annotations

import re
from itertools import product

import pytest

from lowering.cuda.emit import emit_cuda, emit_kernel
from lowering.ground.errors import InternalError
from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel

BASE = 1024


def kernel(statement: str, dtype: str, frag: str, shared: str) -> Kernel:
    return parse_kernel(
        f"""
        kernel k threads 128 cluster 1 grid 1 {{
          shared S: {dtype}{shared}
          {"" if statement.startswith("f:") else f"f: frag<{dtype}, {frag}> = frag.fill 0.0"}
          {statement.replace("FRAG", f"frag<{dtype}, {frag}>")}
        }}
        """
    )


def evaluate(text: str, **env: int) -> int:
    """A C++ integer expression over non-negative values, in Python."""
    return int(eval(text.replace("/", "//"), {}, env))


def stores(k: Kernel) -> list[tuple[int, int, int, str, list[int]]]:
    """(warp, lane, address, function, registers) of every access that the text makes."""
    text = emit_kernel(k)
    base = evaluate(re.search(r"S = smem \+ (\d+)", text)[1]) + BASE  # type: ignore[index]
    found = []
    line = byte = ""
    steps = 0
    for row in re.sub(r"\(\n\s+|,\n\s+", lambda m: m[0][0] + " ", text).splitlines():
        if match := re.search(r"const unsigned line = (.*);", row):
            line = match[1]
        elif match := re.search(r"const unsigned byte = (.*);", row):
            byte = match[1]
        elif match := re.search(r"for \(int r = 0; r < (\d+)", row):
            steps = int(match[1])
        elif match := re.search(r"(?:ptx::)?((?:st|ld)\w+)\( ?(.*?), (f\[.*\])\);", row):
            indices = re.findall(r"f\[(.*?)\]", match[3])
            for warp in range(4):
                for lane in range(32):
                    env = {"S": base, "warpgroup_warp": warp, "lane": lane, "group": 1}
                    env["line"] = evaluate(line, **env)
                    env["byte"] = evaluate(byte, **env)
                    for r in range(steps):
                        at = evaluate(match[2], **env, r=r)
                        numbers = [evaluate(i, r=r) for i in indices]
                        found.append((warp, lane, at, match[1], numbers))
    return found


@pytest.mark.sampled(1)
@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize("frag", ["64x64", "64x128", "128x64"])
@pytest.mark.parametrize("statement", ["st.shared S[1, 0, 0], f", "f: FRAG = ld.shared S[1, 0, 0]"])
def test_st_shared_addresses(statement: str, swizzle: int, frag: str) -> None:
    rows, cols = map(int, frag.split("x"))
    tail = f"[2][{rows}x{cols}]" + (f" swizzle {swizzle}" if swizzle else "") + " at 4096"
    k = kernel(statement, "f32", frag, tail)
    seen = set()
    for warp, lane, at, _, registers in stores(k):
        for i, register in enumerate(registers):
            block, rest = divmod(register, cols // 8 * 4)
            row = 64 * block + 16 * warp + lane // 4 + 8 * (rest % 4 // 2)
            col = rest // 4 * 8 + 2 * (lane % 4) + rest % 2
            assert at + 4 * i == BASE + 4096 + k.buffer("S").byte(1, row, col)
            seen.add((row, col))
    assert len(seen) == rows * cols


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("frag", "swizzle"),
    [
        *product(["64x64", "64x128", "128x64"], [0, 32, 64, 128]),
        ("64x8", 0),  # narrower than any span, and too narrow for x4
        ("64x24", 0),
    ],
)
@pytest.mark.parametrize("statement", ["stmatrix S[0, 0, 0], f", "f: FRAG = ldmatrix S[0, 0, 0]"])
def test_stmatrix_addresses(statement: str, frag: str, swizzle: int) -> None:
    """Lane l gives the address of row l % 8 of matrix l / 8; register m holds matrix m."""
    rows, cols = map(int, frag.split("x"))
    tail = f"[1][{rows}x{cols}]" + (f" swizzle {swizzle}" if swizzle else "") + " at 0"
    k = kernel(statement, "bf16", frag, tail)
    seen = set()
    for warp, lane, at, function, registers in stores(k):
        matrices = int(function[-1])
        assert len(registers) == matrices
        if lane >= 8 * matrices:
            continue
        block, rest = divmod(registers[lane // 8], cols // 8 * 2)
        row = 64 * block + 16 * warp + 8 * (rest % 2) + lane % 8
        col = rest // 2 * 8
        assert at == BASE + k.buffer("S").byte(0, row, col)
        seen.add((row, col))
    assert len(seen) == rows * cols // 8


@pytest.mark.parametrize("frag", ["64x64", "64x24", "64x8", "128x32"])
def test_transposed_stmatrix_addresses(frag: str) -> None:
    """Register m holds matrix m, of which lane l gives the address of column l % 8."""
    rows, cols = map(int, frag.split("x"))
    shared = f"[2][{cols + 8}x{rows + 64}] swizzle 128 at 2048"
    k = kernel("stmatrix S[1, 8, 64], f, trans=true", "bf16", frag, shared)
    seen = set()
    for warp, lane, at, function, registers in stores(k):
        matrices = len(registers)
        assert function == f"stmatrix_x{matrices}_trans"
        if lane >= 8 * matrices:
            continue
        block, rest = divmod(registers[lane // 8], cols // 8 * 2)
        row = 64 * block + 16 * warp + 8 * (rest % 2)
        col = rest // 2 * 8 + lane % 8
        assert at == BASE + 2048 + k.buffer("S").byte(1, 8 + col, 64 + row)
        seen.add((row, col))
    assert len(seen) == rows * cols // 8


def test_a_loop_over_registers_is_unrolled() -> None:
    """They have no addresses: an index that is no constant would put a fragment into memory."""
    shared = "[2][72x128] swizzle 128 at 2048"
    k = kernel("stmatrix S[1, 8, 64], f, trans=true", "bf16", "64x64", shared)
    lines = [line.strip() for line in emit_cuda(k).splitlines()]
    heads = [at for at, line in enumerate(lines) if line.startswith("for (int r = 0;")]
    assert heads and {lines[at - 1] for at in heads} == {"#pragma unroll"}


def test_store_into_a_part_of_a_tile() -> None:
    k = kernel("stmatrix S[0, 64, 96], f", "bf16", "64x32", "[1][128x128] swizzle 128 at 0")
    at = {(w, lane, a) for w, lane, a, _, r in stores(k) if r[0] == 0 and lane < 8}
    expected = {
        (w, lane, BASE + k.buffer("S").byte(0, 64 + 16 * w + lane, 96))
        for w in range(4)
        for lane in range(8)
    }
    assert at == expected


@pytest.mark.parametrize(
    ("statement", "dtype", "shared", "why"),
    [
        ("stmatrix S[0, 0, 0], f", "f32", "[1][64x64] at 0", "stmatrix of a 32-bit fragment"),
        ("st.shared S[0, 0, 0], f", "bf16", "[1][64x64] at 0", "st.shared of a 16-bit fragment"),
        (
            "f: FRAG = ldmatrix S[0, 0, 0]",
            "f32",
            "[1][64x64] at 0",
            "ldmatrix of a 32-bit fragment",
        ),
        (
            "f: FRAG = ld.shared S[0, 0, 0]",
            "bf16",
            "[1][64x64] at 0",
            "ld.shared of a 16-bit fragment",
        ),
        (
            "f: FRAG = ldmatrix S[0, 0, 32]",
            "bf16",
            "[1][64x128] swizzle 128 at 0",
            "ldmatrix: 64 columns straddle boxes of S",
        ),
        (
            "stmatrix S[0, 0, 32], f, trans=true",
            "bf16",
            "[1][64x128] swizzle 128 at 0",
            "stmatrix: frag<bf16, 64x64> straddles boxes of S",
        ),
        (
            "stmatrix S[0, 0, 0], f, trans=true",
            "bf16",
            "[1][64x64] swizzle 64 at 0",
            "stmatrix of frag<bf16, 64x64>, transposed, to bf16 in boxes of 32 columns",
        ),
        (
            "stmatrix S[0, 0, 32], f",
            "bf16",
            "[1][64x128] swizzle 128 at 0",
            "stmatrix: 64 columns straddle boxes of S",
        ),
    ],
)
def test_rejected(statement: str, dtype: str, shared: str, why: str) -> None:
    with pytest.raises(InternalError) as e:
        emit_kernel(kernel(statement, dtype, "64x64", shared))
    assert e.value.why == why


def test_dtype_of_fragment_and_buffer_must_agree() -> None:
    k = parse_kernel(
        """
        kernel k threads 128 cluster 1 grid 1 {
          shared S: f16[1][64x64] swizzle 128 at 0
          f: frag<bf16, 64x64> = frag.fill 0.0
          stmatrix S[0, 0, 0], f
        }
        """
    )
    with pytest.raises(InternalError) as e:
        emit_kernel(k)
    assert e.value.why == "stmatrix of frag<bf16, 64x64> to f16 memory"


def test_columns_from_a_place_that_is_divided() -> None:
    """A place that is a shift or mask stays one beside what is added to it."""
    text = emit_kernel(
        parse_kernel(
            """
            kernel k threads 128 cluster 1 grid 1 {
              total: frag<f32, 64x256> = frag.fill 0.0
              for chunk in 0 .. 4 unroll {
                let half: i32 = chunk * 64 // 128
                part: frag<f32, 64x64> = frag.columns total, half * 128 + chunk * 64 % 128
                t: frag<bf16, 64x64> = frag.cast part
              }
            }
            """
        )
    )
    found = re.search(r"cvt_bf16x2\(total\[(.*?)\], total\[(.*?)\]\)", text)
    assert found is not None
    for chunk, r in product(range(4), range(16)):
        low, high = (evaluate(i, chunk=chunk, half=chunk * 64 // 128, r=r) for i in found.groups())
        assert (low, high) == (chunk * 32 + 2 * r, chunk * 32 + 2 * r + 1)
