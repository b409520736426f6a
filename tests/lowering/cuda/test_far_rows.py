"""Addresses of threads' accesses beyond 2**31 elements: the emitted text, evaluated as C does."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from lowering.cuda.emit import emit_kernel
from lowering.kernel.text import parse_kernel

COORDINATE, STRIDE = 3 << 19, (1 << 29) + 8

KERNEL = """kernel far threads 128 cluster 1 grid 1 {
  param n: i32
  global x: f32[n, n, n] align 8
  global y: f32[n, n]
  global words: s32[n, n]
  shared s: f32[1][64x32] swizzle 128 at 0
  t: frag<f32, 64x32> = frag.load_global x[n - 7, n - 64, n - 32]
  order: frag<s32, 64x1> = frag.load_global words[n - 64, 0]
  frag.store_global y[n - 64, n - 32], t, index=order
  frag.store_global y[n - 64, n - 32], t
  frag.red_global add, y[n - 64, n - 32], t, any_order=true
  cp.async s[0, 0, 0], y[n - 64, n - 32], 64, 32
  word: i32 = ld.global.scalar words[n - 2, n - 3]
}"""


@dataclass(frozen=True)
class C:
    """An integer of C: a result has the wider type of its operands, and wraps."""

    value: int
    bits: int = 32

    def _with(self, other: C | int, value: int) -> C:
        bits = max(self.bits, other.bits if isinstance(other, C) else 32)
        return C((value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1), bits)

    def __add__(self, other: C | int) -> C:
        return self._with(other, self.value + _value(other))

    def __mul__(self, other: C | int) -> C:
        return self._with(other, self.value * _value(other))

    def __sub__(self, other: C | int) -> C:
        return self._with(other, self.value - _value(other))

    def __radd__(self, other: int) -> C:
        return self + other

    def __rmul__(self, other: int) -> C:
        return self * other


def _value(x: C | int) -> int:
    return x.value if isinstance(x, C) else x


PLACES = re.compile(r"\* at\w* = ([^;]*);|[ (](?=(?:at(?:_\d+)?|words) \+)(?=([^;]*))")
"""Definitions of addresses, and calls that take one."""


def addresses(text: str) -> list[str]:
    text = re.sub(r"\[\d\]", "", re.sub(r"\s+", " ", text))
    found = [a or _argument(b) for a, b in PLACES.findall(text)]
    return [e for e in found if "stride" in e]


def _argument(call: str) -> str:
    """The first argument of a call."""
    depth = 0
    for at, c in enumerate(call):
        depth += {"(": 1, ")": -1}.get(c, 0)
        if depth < 0 or (c == "," and not depth):
            return call[:at]
    raise AssertionError(call)


def names_of(text: str, stride_bits: int) -> dict[str, tuple[C, C]]:
    """For each name what it is in C, and what it would be without an end."""
    found = {}
    for e in addresses(text):
        for name in re.findall(r"[A-Za-z_]\w*", e):
            wide = "stride" in name
            value = STRIDE if wide else COORDINATE
            if wide:
                assert f"long long {name}" in text
            pointer = bool(re.search(rf"(float|int)\* (__restrict__ )?{name}\b", text))
            bits = stride_bits if wide else 64 if pointer else 32
            found[name] = C(value, bits), C(value, 128)
    return found


@pytest.mark.parametrize("stride_bits", [64, 32])
def test_no_address_wraps(stride_bits: int) -> None:
    """With strides of 32 bits, they would."""
    text = emit_kernel(parse_kernel(KERNEL))
    names = names_of(text, stride_bits)
    assert {n for n in names if "stride" in n} == {
        "x_stride0", "x_stride", "y_stride", "words_stride",
    }  # fmt: skip
    right = []
    for e in addresses(text):
        values = [eval(e, {n: v[i] for n, v in names.items()}).value for i in (0, 1)]
        assert values[1] > 2**31
        right.append(values[0] == values[1])
    assert len(right) >= 12
    assert all(right) if stride_bits == 64 else not any(right)
