"""Elements of 8 bits: where threads read them, and what they become."""

from __future__ import annotations

import re

import pytest

from lowering.cuda.emit import emit_kernel
from lowering.cuda.narrow import PAIRS
from lowering.ground.dtypes import NUMBERS_OF_8_BITS, DType
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
def test_addresses(swizzle: int, cols: int, rows: int) -> None:
    """Each thread reads two neighbours of a row, and of the row 8 below: one register."""
    tail = f" swizzle {swizzle}" if swizzle else ""
    k = kernel(
        f"  f: frag<s8, {rows}x{cols}> = ld.shared S[0, 0, 0]\n", f"s8[1][{rows}x{cols}]{tail}"
    )
    text = emit_kernel(k)
    base = evaluate(re.search(r"S = smem \+ (\d+)", text)[1]) + BASE  # type: ignore[index]
    line = re.search(r"const unsigned line = (.*);", text)
    byte = re.search(r"const unsigned byte = (.*);", text)
    loads = re.findall(r"(f\[.*?\]) = ld_shared_u16x2\((.*), (.*)\);", text)
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
    assert f"cvt_{natural.ptx}x2_{given.ptx}x2<1>(f[r])" in text
    assert (f"ptx::cvt_{to.ptx}x2(" in text) is (to is not natural and to is not DType.F32)


def test_from_another_cta() -> None:
    k = kernel("  f: frag<s8, 64x64> = ld.shared S[0, 0, 0], cta=0\n", "s8[1][64x64] swizzle 64")
    with pytest.raises(InternalError, match="<s8, 64x64> from another CTA"):
        emit_kernel(k)
