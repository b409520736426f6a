"""Elements of 8 bits: where threads read and write them, and what they become."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from lowering.cuda.emit import emit_kernel
from lowering.cuda.narrow import PAIRS
from lowering.ground.dtypes import FLOATS_OF_8_BITS, NUMBERS_OF_8_BITS, DType
from lowering.ground.errors import InternalError
from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel
from tests.lowering.cuda.test_movement import BASE, evaluate


def kernel(statements: str, shared: str) -> Kernel:
    return parse_kernel(
        f"kernel k threads 128 cluster 1 grid 1 {{\n  shared S: {shared} at 1024\n{statements}}}\n"
    )


@pytest.mark.sampled
@pytest.mark.parametrize(("swizzle", "cols"), [(64, 64), (128, 128), (32, 32), (0, 64)])
@pytest.mark.parametrize("rows", [64, 128])
@pytest.mark.parametrize("store", [False, True])
def test_addresses(swizzle: int, cols: int, rows: int, store: bool) -> None:
    """Each thread has two neighbours of a row, and of the row 8 below: one register."""
    tail = f" swizzle {swizzle}" if swizzle else ""
    kind = f"frag<e4m3, {rows}x{cols}>"
    lines = f"  f: {kind} = ld.shared S[0, 0, 0]\n"
    if store:
        wide = kind.replace("e4m3", "f32")
        lines = (
            f"  g: {wide} = frag.fill 0.0\n  f: {kind} = frag.cast g\n  st.shared S[0, 0, 0], f\n"
        )
    k = kernel(lines, f"e4m3[1][{rows}x{cols}]{tail}")
    text = emit_kernel(k)
    base = evaluate(re.search(r"S = smem \+ (\d+)", text)[1]) + BASE  # type: ignore[index]
    line = re.search(r"const unsigned line = (.*);", text)
    byte = re.search(r"const unsigned byte = (.*);", text)
    loads = re.findall(r"(f\[.*?\]) = ld_shared_u16x2\((.*), (.*)\);", text)
    if store:
        stores = re.findall(r" st_shared_u16x2\(\s+(.*),\s+(.*),\s+(f\[.*?\])\);", text)
        loads = [(register, *pair) for *pair, register in stores]
    assert line and byte and len(loads) == rows // 64
    seen = set()
    for warp in range(4):
        for lane in range(32):
            env = {"S": base, "warpgroup_warp": warp, "lane": lane}
            env["line"] = evaluate(line[1], **env)
            env["byte"] = evaluate(byte[1], **env)
            for block, (register, *pair) in enumerate(loads):
                for r in range(cols // 8):
                    at = evaluate(register[2:-1], r=r)
                    assert at == block * cols // 8 + r
                    for half, address in enumerate(pair):
                        row = 64 * block + 16 * warp + lane // 4 + 8 * half
                        col = 8 * r + 2 * (lane % 4)
                        found = evaluate(address, **env, r=r)
                        assert found == BASE + 1024 + k.buffer("S").byte(0, row, col)
                        seen.add((row, col))
    assert len(seen) == rows * cols // 2


@pytest.mark.parametrize("given", NUMBERS_OF_8_BITS)
@pytest.mark.parametrize("to", [DType.BF16, DType.F16, DType.F32])
def test_every_register_is_made(given: DType, to: DType) -> None:
    text = emit_kernel(
        kernel(
            f"  f: frag<{given.value}, 64x16> = ld.shared S[0, 0, 0]\n"
            f"  g: frag<{to.value}, 64x16> = frag.cast f\n",
            f"{given.value}[1][64x64] swizzle 64",
        )
    )
    registers = re.findall(r"g\[(.*?)\] = ", text)
    made = sorted(evaluate(at, r=r) for at in registers for r in range(2))
    assert made == list(range(8 if to is DType.F32 else 4))
    natural = PAIRS[given].dtype
    lines = re.findall(r"(?:g\[.*\]|const unsigned \w+) = (?:ptx::)?cvt.*;", text)
    assert lines == list(_widened(given, natural, to))
    assert f"cvt_{natural.ptx}x2_{given.ptx}x2<1>(f[r])" in text
    assert (f"ptx::cvt_{to.ptx}x2(" in text) is (to is not natural and to is not DType.F32)


def _widened(given: DType, natural: DType, to: DType) -> Iterator[str]:
    """Two neighbours of a row, then those of the row 8 below; each element from its half."""
    for half, pair in enumerate(("pair", "pair_2")):
        made = f"cvt_{natural.ptx}x2_{given.ptx}x2<{half}>(f[r])"
        if to is natural:
            yield f"g[2 * r + {half}] = {made};"
            continue
        yield f"const unsigned {pair} = {made};"
        both = [f"ptx::cvt_f32_{natural.ptx}<{part}>({pair})" for part in (0, 1)]
        if to is DType.F32:
            yield from (f"g[4 * r + {2 * half + n}] = {both[n]};" for n in (0, 1))
        else:
            yield f"g[2 * r + {half}] = ptx::cvt_{to.ptx}x2({both[0]}, {both[1]});"


@pytest.mark.parametrize("given", [DType.BF16, DType.F16, DType.F32])
@pytest.mark.parametrize("to", FLOATS_OF_8_BITS)
def test_four_elements_are_rounded_to_a_register(given: DType, to: DType) -> None:
    """Two of a row, then two of the row 8 below."""
    lines = (
        f"  f: frag<{given.value}, 128x16> = frag.fill 0.0\n"
        f"  g: frag<{to.value}, 128x16> = frag.cast f\n"
    )
    text = emit_kernel(kernel(lines, "f32[1][64x32] swizzle 128"))
    found = re.findall(rf"g\[(.*?)\] = cvt_{to.ptx}x4\((.*)\);", text)
    made = sorted(evaluate(at, r=r) for at, _ in found for r in range(2))
    assert made == list(range(4)) and f"cvt.rn.satfinite.{to.ptx}x2.f32" in text
    for block, (_, four) in enumerate(found):
        read = [(evaluate(at, r=1), half) for half, at in _read(four)]
        if given is DType.F32:
            assert read == [(8 * block + 4 + n, 0) for n in range(4)]
        else:
            assert read == [(4 * block + 2 + n // 2, n % 2) for n in range(4)]


def _read(four: str) -> list[tuple[int, str]]:
    """Half and register of each operand."""
    return [(int(half or 0), at) for half, at in re.findall(r"(?:<(\d)>\()?f\[(.*?)\]", four)]


def test_registers_that_are_not_full() -> None:
    """A row has two elements of a group, a single value one; zeros are the others."""
    for shape, wanted in (("1x16", "f[2 * r], f[2 * r + 1], 0.0f, 0.0f"), ("1x1", "f[0], 0.0f")):
        lines = f"  f: frag<f32, {shape}> = frag.fill 0.0\n  g: frag<e4m3, {shape}> = frag.cast f\n"
        text = emit_kernel(kernel(lines, "f32[1][64x32] swizzle 128"))
        assert f"cvt_e4m3x4({wanted}" in text


@pytest.mark.parametrize("store", [False, True])
def test_in_another_cta(store: bool) -> None:
    lines = "  f: frag<s8, 64x64> = ld.shared S[0, 0, 0]" + ("\n" if store else ", cta=0\n")
    lines += "  st.shared S[0, 0, 0], f, cta=0\n" * store
    with pytest.raises(InternalError, match="<s8, 64x64> in another CTA"):
        emit_kernel(kernel(lines, "s8[1][64x64] swizzle 64"))
