"""Arithmetic that is rounded once and arithmetic in fp32 that is rounded behind: the same bits."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from lowering.ground.dtypes import NUMBERS_OF_8_BITS, DType
from lowering.ground.pairs import OPERATIONS, PAIRED, bits_of, has_all
from lowering.machine.fragment import convert, held_type, to_float32
from lowering.machine.pointwise import FUNCTIONS

EXACT: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y
}  # fmt: skip


def nearest(exact: Fraction, dtype: DType) -> set[float]:
    """The numbers of a type that are closest to another one."""
    first = np.array([float(exact)]).astype(getattr(ml_dtypes, dtype.numpy, dtype.numpy))
    bits = int(first.view(np.uint16)[0])
    near = np.array([bits + n & 0xFFFF for n in (-1, 0, 1)], np.uint16).view(first.dtype)
    near = [float(x) for x in near if np.isfinite(x)]
    least = min(abs(Fraction(x) - exact) for x in near)
    return {x for x in near if abs(Fraction(x) - exact) == least}


@pytest.mark.parametrize("op", OPERATIONS)
@pytest.mark.parametrize("dtype", PAIRED)
def test_rounded_twice(dtype: DType, op: str) -> None:
    """Numbers that differ little and much, ties and what is just beside them; of two that are as
    near, the even one.
    """
    rng = np.random.default_rng(0)
    limit = 0x7F00 if dtype is DType.BF16 else 0x7700
    first = rng.integers(0, limit, 2000).astype(np.uint16)
    away = rng.integers(-(20 << 7), 20 << 7, 2000) if dtype is DType.BF16 else limit
    second = ((first + away) % limit).astype(np.uint16) | rng.integers(0, 2, 2000) << 15
    x, y = (to_float32(v.astype(np.uint16), dtype) for v in (first, second))
    found = to_float32(convert(FUNCTIONS[op](x, y), DType.F32, dtype), dtype)
    for a, b, made in zip(x, y, found, strict=True):
        exact = EXACT[op](Fraction(float(a)), Fraction(float(b)))
        best = nearest(exact, dtype)
        assert float(made) in best
        assert len(best) == 1 or bits_of(dtype, float(made)) % 2 == 0  # type: ignore[operator]


@pytest.mark.parametrize("dtype", PAIRED)
@pytest.mark.parametrize("narrow", [*NUMBERS_OF_8_BITS, DType.U4])
def test_all_values_of_a_narrow_type(dtype: DType, narrow: DType) -> None:
    every = np.arange(16 if narrow is DType.U4 else 256).astype(held_type(narrow))
    assert has_all(dtype, narrow) and has_all(dtype, dtype)
    wide = to_float32(every, narrow)
    np.testing.assert_array_equal(to_float32(convert(wide, DType.F32, dtype), dtype), wide)


@pytest.mark.parametrize("dtype", PAIRED)
def test_what_types_have_not(dtype: DType) -> None:
    (other,) = set(PAIRED) - {dtype}
    assert not any(has_all(dtype, x) for x in (DType.F32, DType.S32, DType.TF32, other))


@pytest.mark.parametrize(
    ("number", "bf16", "f16"),
    [
        (8.0, 0x4100, 0x4800), (-0.0, 0x8000, 0x8000), (257.0, None, 0x5C04),
        (65536.0, 0x4780, None), (0.1, None, None), (1e300, None, None),
        (float("inf"), 0x7F80, 0x7C00), (float("nan"), None, None), (1 + 2**-30, None, None),
    ],
)  # fmt: skip
def test_bits_of_a_number(number: float, bf16: int | None, f16: int | None) -> None:
    assert (bits_of(DType.BF16, number), bits_of(DType.F16, number)) == (bf16, f16)
