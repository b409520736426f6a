"""Integers of 4 and 8 bits as a 64th of them: what the instructions make of each byte."""

from __future__ import annotations

import re

import numpy as np
import pytest

from lowering.cuda.emit import emit_kernel
from lowering.cuda.narrow import SMALLER_PAIRS
from lowering.ground.dtypes import DType
from lowering.ground.pairs import SMALLER
from lowering.kernel.text import parse_kernel
from lowering.machine.fragment import to_float32

TEXT = """kernel k threads 128 cluster 1 grid 1 {
  shared S: u4[1][64x128] swizzle 64 at 1024
  f: frag<u4, 64x32> = ld.shared S[0, 0, 0]
  g: frag<bf16, 64x32> = frag.cast f, exponent=-6
}
"""


def test_tables_have_the_same_types() -> None:
    assert {(given, SMALLER[given, to]): to for given, to in SMALLER} == {
        key: pairs.dtype for key, pairs in SMALLER_PAIRS.items()
    }


def pair_of(register: int) -> np.ndarray:
    """Its two numbers of bf16."""
    halves = np.array([register >> 16 * n & 0xFFFF for n in (0, 1)], np.uint16)
    return to_float32(halves, DType.BF16).astype(np.float64)


def test_halves() -> None:
    """The selector takes a lane's byte twice, the mask and the factors are those of the text."""
    text = emit_kernel(parse_kernel(TEXT))
    (factors,) = re.findall(r"add.u32 %0, zero, (0x\w+);", text)
    (mask,) = re.findall(r"both & (0x\w+)u;", text)
    each, zeros = (int(x, 16) for x in re.findall(r"\(lane & 3\) \* (0x\w+) \+ (0x\w+)", text)[0])
    assert text.count("mul.bf16x2") == 1
    word = np.uint32(0x9A_E5_3F_08)
    for lane in range(4):
        selector = lane * each + zeros
        source = [int(word >> 8 * n & 0xFF) for n in range(4)] + [0] * 4
        both = sum(source[selector >> 4 * n & 7] << 8 * n for n in range(4))
        pair = both & int(mask, 16)
        numbers, powers = pair_of(pair), pair_of(int(factors, 16))
        byte = int(word >> 8 * lane & 0xFF)
        assert (numbers * powers).tolist() == [(byte & 15) / 64, (byte >> 4) / 64]


@pytest.mark.parametrize("dtype", ["s8", "u8"])
def test_bytes(dtype: str) -> None:
    """All of them: those of a half of a register, with zeros above; without a sign as they are."""
    text = TEXT.replace("u4", dtype).replace("64x128", "64x64")
    text = emit_kernel(parse_kernel(text))
    (factors,) = re.findall(r"add.u32 %0, zero, (0x\w+);", text)
    (selector,) = re.findall(r"half \? four.y : four.x, 0, (0x\w+)\)", text)
    signs, more = 0, np.zeros(2)
    if dtype == "s8":
        ((flipped, addend),) = re.findall(r'"r"\(both \^ (0x\w+)u\).*"r"\((0x\w+)u\)', text)
        signs, more = int(flipped, 16), pair_of(int(addend, 16))
    operation = {"s8": "fma.rn.bf16x2 %0, %1, %2, %3", "u8": "mul.bf16x2 %0, %1, %2"}[dtype]
    assert text.count(operation) == 1
    powers = pair_of(int(factors, 16))
    for first in range(256):
        second = first * 7 % 256
        source = [first, second, 0, 0] + [0] * 4
        both = sum(source[int(selector, 16) >> 4 * n & 7] << 8 * n for n in range(4))
        found = pair_of(both ^ signs) * powers + more
        values = np.array([first, second], np.uint8).view({"s8": np.int8, "u8": np.uint8}[dtype])
        assert (found * 64).tolist() == values.tolist()
