"""Largest and least elements are reduced in front of a rounding that they are behind."""

from __future__ import annotations

import pytest

from tests.epilogues import epilogue
from wsched.front.known import import_fusion
from wsched.fusion import Fusion

FP32, BF16, FP16 = (f"dtype=DataType.{name}" for name in ("Float", "BFloat16", "Half"))
WIDE = f"f = fd.ops.cast(y, {FP32})"


def math(*lines: str, dtype: str = "BFloat16") -> list[str]:
    """What is computed of the product, T4, for ``y`` and the reduction ``s``."""
    return expressions(import_fusion(epilogue(*lines, outputs="y s", dtype=dtype)))


def expressions(fusion: Fusion) -> list[str]:
    found = [f"{e.output} = {e}" for e in fusion.exprs]
    return found[next(n for n, text in enumerate(found) if "mma(" in text) + 1 :]


@pytest.mark.parametrize("op", ["max", "min"])
def test_of_what_is_rounded(op: str) -> None:
    assert math(WIDE, f"s = fd.ops.{op}(f, dims=[0])") == [
        "T5 = cast(T4)",
        f"T6 = reduction(T4, op = {op}, rounded = BFloat16)",
    ]
    assert math(WIDE, f"s = fd.ops.{op}(f, dims=[0])", dtype="Half")[1:] == [
        f"T6 = reduction(T4, op = {op}, rounded = Half)"
    ]


def test_with_its_sign_changed() -> None:
    lines = "a = fd.ops.abs(f)", "n = fd.ops.neg(a)", "s = fd.ops.max(n, dims=[0, 1])"
    assert math(WIDE, *lines) == [
        "T5 = cast(T4)", "T6 = abs(T4)", "T7 = -T6",
        "T8 = reduction(T7, op = max, rounded = BFloat16)",
    ]  # fmt: skip


def test_behind_a_function() -> None:
    lines = "e = fd.ops.exp(y)", f"r = fd.ops.cast(e, {FP16})", f"g = fd.ops.cast(r, {FP32})"
    assert math(*lines, "s = fd.ops.max(g, dims=[1])") == [
        "T5 = cast(T4)", "T6 = cast(T5)", "T7 = exp(T6)",
        "T8 = reduction(T7, op = max, rounded = Half)", "T9 = cast(T4)",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "lines",
    [
        ("a = fd.ops.abs(y)", "s = fd.ops.max(a, dims=[0], dtype=DataType.Float)"),
        (WIDE, f"b = fd.ops.cast(f, {BF16})", f"g = fd.ops.cast(b, {FP32})",
         "a = fd.ops.abs(g)", "s = fd.ops.max(a, dims=[0])"),
    ],
)  # fmt: skip
def test_however_casts_are_written(lines: tuple[str, ...]) -> None:
    assert math(*lines) == math(WIDE, "a = fd.ops.abs(f)", "s = fd.ops.max(a, dims=[0])")


@pytest.mark.parametrize(
    "lines",
    [
        (WIDE, "a = fd.ops.abs(f)", "t = fd.ops.add(a, 1.0)", "s = fd.ops.max(t, dims=[0])"),
        (WIDE, "q = fd.ops.neg(f)", "t = fd.ops.mul(q, f)", "s = fd.ops.min(t, dims=[0])"),
        (WIDE, "t = fd.ops.mul(f, 3.0)", "s = fd.ops.max(t, dims=[0])"),
        (f"y = fd.ops.linear(x, w, {FP32})", "s = fd.ops.max(y, dims=[0])"),
        (WIDE, "a = fd.ops.abs(f)", "s = fd.ops.sum(a, dims=[0])"),
    ],
)  # fmt: skip
def test_what_is_rounded_first(lines: tuple[str, ...]) -> None:
    """Another operation behind the rounding, none at all, or a sum."""
    assert "rounded" not in math(*lines)[-1] + math(*lines)[-2]


def test_rounded_twice() -> None:
    """The last rounding alone: that to bf16 stays in front of that to fp16."""
    lines = f"h = fd.ops.cast(f, {FP16})", f"g = fd.ops.cast(h, {FP32})"
    assert math(WIDE, *lines, "s = fd.ops.max(g, dims=[0])") == [
        "T5 = cast(T4)", "T6 = cast(T5)", "T7 = reduction(T6, op = max, rounded = Half)",
        "T8 = cast(T4)",
    ]  # fmt: skip
