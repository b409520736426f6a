"""Which expressions an operation of an epilogue becomes; the product is rounded before."""

from __future__ import annotations

import pytest

from tests.epilogues import epilogue
from tests.importer.test_epilogue import math


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            ["d = fd.ops.tanh(y)"],
            ["T5_l___bfloat = cast(T4)", "T6_l_float = cast(T5)", "T7_g_float = tanh(T6)"],
        ),
        (
            ["d = fd.ops.neg(y)"],
            ["T5_l___bfloat = cast(T4)", "T6_l_float = cast(T5)", "T7_g_float = -T6"],
        ),
        (
            ["d = fd.ops.mul(y, 2)"],
            ["T5_l___bfloat = cast(T4)", "T6_l_float = cast(T5)", "T7_g_float = T6 * double(2)"],
        ),
        (
            ["d = fd.ops.sub(1.5, y)"],
            ["T5_l___bfloat = cast(T4)", "T6_l_float = cast(T5)", "T7_g_float = double(1.5) - T6"],
        ),
        (
            ["d = fd.ops.truediv(y, 3.0)"],
            ["T5_l___bfloat = cast(T4)", "T6_l_float = cast(T5)", "T7_g_float = T6 / double(3)"],
        ),
        (
            ["d = fd.ops.relu(y)"],
            ["T5_l___bfloat = cast(T4)", "T6_g___bfloat = relu(T5)"],
        ),
        (
            ["d = fd.ops.clamp(y, 0.0, 1.0)"],
            [
                "T5_l___bfloat = cast(T4)",
                "T6_l_float = cast(T5)",
                "T7_l_float = maximum(T6, double(0))",
                "T8_l_float = minimum(T7, double(1))",
                "T9_g___bfloat = cast(T8)",
            ],
        ),
        (
            ["c = fd.ops.lt(y, 0.0)", "d = fd.ops.where(c, 0.0, y)"],
            [
                "T5_l___bfloat = cast(T4)",
                "T6_l_float = cast(T5)",
                "T7_l_bool = T6 < double(0)",
                "T8_g___bfloat = where(T7, double(0), T5)",
            ],
        ),
        (
            [
                "a = fd.ops.gt(y, 0.0)",
                "b = fd.ops.lt(y, 1.0)",
                "c = fd.ops.bitwise_and(a, b)",
                "d = fd.ops.cast(c, dtype=DataType.Float)",
            ],
            [
                "T5_l___bfloat = cast(T4)",
                "T6_l_float = cast(T5)",
                "T7_l_bool = T6 > double(0)",
                "T8_l_bool = T6 < double(1)",
                "T9_l_bool = T7 && T8",
                "T10_g_float = cast(T9)",
            ],
        ),
        (
            ["c = fd.ops.cast(y, dtype=DataType.Bool)", "d = fd.ops.mul(c, y)"],
            [
                "T5_l___bfloat = cast(T4)",
                "T6_l_float = cast(T5)",
                "T7_l_bool = T6 != double(0)",
                "T8_l_float = cast(T7)",
                "T9_g_float = T8 * T6",
            ],
        ),
        (
            ["d = fd.ops.threshold(y, 0.5, 0.25)"],
            [
                "T5_l___bfloat = cast(T4)",
                "T6_l_float = cast(T5)",
                "T7_l_bool = T6 <= double(0.5)",
                "T8_g___bfloat = where(T7, double(0.25), T5)",
            ],
        ),
        (
            ["d = fd.ops.sign(y)"],
            [
                "T5_l___bfloat = cast(T4)",
                "T6_l_float = cast(T5)",
                "T7_l_bool = T6 > double(0)",
                "T8_l_bool = T6 < double(0)",
                "T9_l_float = where(T8, double(-1), double(0))",
                "T10_l_float = where(T7, double(1), T9)",
                "T11_g___bfloat = cast(T10)",
            ],
        ),
        (
            ["d = fd.ops.lerp(y, 1.0, 0.75)"],
            [
                "T5_l___bfloat = cast(T4)",
                "T6_l_float = cast(T5)",
                "T7_l_float = double(1) - T6",
                "T8_l_float = T7 * double(0.25)",
                "T9_g_float = double(1) - T8",
            ],
        ),
        (
            ["d = fd.ops.lerp(y, 1.0, 0.5)"],  # which is no nearer to either
            [
                "T5_l___bfloat = cast(T4)",
                "T6_l_float = cast(T5)",
                "T7_l_float = double(1) - T6",
                "T8_l_float = T7 * double(0.5)",
                "T9_g_float = double(1) - T8",
            ],
        ),
        (
            ["p: [-1]", "d = fd.ops.pow(y, p)"],
            [
                "T7_l___bfloat = cast(T6)",
                "T8_l_float = cast(T7)",
                "T9_l_float = cast(T5)",
                "T10_g_float = pow(T8, T9)",
            ],
        ),
    ],
    ids=lambda v: v[-1].split("(")[0].split(".")[-1] if isinstance(v, list) and v else "",
)
def test_operation(lines: list[str], expected: list[str]) -> None:
    assert math(epilogue(*lines)) == expected
