"""Types of weights that a definition takes apart: what they hold, and integers with numbers."""

from __future__ import annotations

import pytest

from lowering.ground.errors import UnsupportedError
from tests.importer.test_weights import (
    ARITHMETIC,
    CAST,
    CASTS,
    LINEAR,
    TO,
    WIDE,
    built,
    of_type,
    shifted,
    with_zeros,
    words,
)
from tests.int4 import IOTA, K, N, definition, scaled, scales
from wsched.fusion import DataType


def test_what_is_scaled_has_to_fit_its_type() -> None:
    """fp16 has the weights without their scales where they are small integers."""
    text = definition(*IOTA, *scaled(32)["by groups"], LINEAR, more=scales(32))
    half = text.replace("BFloat16", "Half")
    assert built(half).inputs[1].dtype is DataType.UInt4
    large = half.replace("g = fd", "f0 = fd.ops.mul(f, 0.5)\n    g = fd")
    large = large.replace("(f, g)", "(f0, g)")
    with pytest.raises(UnsupportedError) as error:
        built(large)
    assert (error.value.what, error.value.supported) == (
        "fd.ops.cast of q, taken apart, to DataType.Half",
        "Float, BFloat16, and Half of what it surely holds",
    )
    assert built(large.replace("Half", "BFloat16")).mmas[0].promotion == 32


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize(
    ("dtype", "to", "holds", "exactly"),
    [
        ("Float8_e4m3fn", "BFloat16", True, True), ("Float8_e5m2", "Half", True, True),
        ("BFloat16", "Half", False, False), ("Float", "Half", False, False),
        ("Float", "BFloat16", True, False), ("Half", "BFloat16", True, False),
    ],
)  # fmt: skip
def test_weights_that_count_times_scales_fit_what_is_multiplied(
    dtype: str, to: str, holds: bool, exactly: bool, zeros: bool
) -> None:
    """They are rounded in front of their scale: within the type's range, and to their own value
    where a zero point is taken from them.
    """
    lines, more = (shifted(), with_zeros()) if zeros else (scaled(32)["by groups"], scales(32))
    text = of_type(dtype, definition(WIDE, *lines, LINEAR, more=more).replace("BFloat16", to))
    if exactly if zeros else holds:
        assert built(text).mmas[0].scales is not None
        return
    with pytest.raises(UnsupportedError) as error:
        built(text)
    assert (error.value.what, error.value.supported) == (
        f"fd.ops.cast of q, taken apart, to DataType.{to}",
        "types with all numbers that zero points are taken from" if zeros
        else "Float, BFloat16, and Half of what it surely holds",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("op", "holds"),
    [("mul(e, 4366)", True), ("mul(e, 4367)", False), ("add(e, 65489)", True),
     ("add(e, 65490)", False)],
)  # fmt: skip
def test_integers_behind_scales_fit_fp16(op: str, holds: bool) -> None:
    """Up to 65504, from integers up to 15."""
    lines = (*IOTA, f"z = fd.ops.{op}", *scaled(32, of="z")["by groups"], LINEAR)
    text = definition(*lines, more=scales(32)).replace("BFloat16", "Half")
    if not holds:
        with pytest.raises(UnsupportedError, match="Half of what it surely holds"):
            built(text)
        return
    assert built(text).mmas[0].scales is not None


@pytest.mark.parametrize(
    ("integers", "floats"),
    [
        ("mul(r, 0.5)", "mul(f, 0.5)"), ("div(r, 2.0)", "div(f, 2.0)"),
        ("mul(r, 16777216.0)", "mul(f, 16777216.0)"), ("sub(8, r)", "sub(8.0, f)"),
        ("add(r, 16777200)", "add(f, 16777200.0)"), ("add(r, r)", "add(f, f)"),
        ("div(f, 3)", "div(f, 3.0)"), ("neg(f)", "neg(f)"),
    ],
)  # fmt: skip
def test_integers_with_numbers(integers: str, floats: str) -> None:
    """With a float they are floats, whatever the operation; with integers what fp32 has exactly."""
    lines = [WIDE.replace("(q", "(r").replace("e =", "f =")] if "f" in integers[3:] else []
    narrow = CAST.replace("(r", "(z")
    made = built(definition(*IOTA, TO, *lines, f"z = fd.ops.{integers}", narrow, LINEAR))
    assert made == built(words(CASTS[0], f"z = fd.ops.{floats}", narrow, LINEAR))


@pytest.mark.parametrize("op", ["add(r, 16777201)", "neg(r)", "mul(r, 1118482)"])
def test_integers_that_fp32_may_not_have(op: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        built(definition(*IOTA, TO, f"z = fd.ops.{op}", CAST.replace("(r", "(z"), LINEAR))
    assert error.value.supported == ARITHMETIC


@pytest.mark.parametrize("to", ["BFloat16", "Half", "Float"])
def test_casts_of_what_has_all_numbers_are_casts_of_the_integers(to: str) -> None:
    lines = (f"k = fd.ops.cast(r, dtype=DataType.{to})", "l = fd.ops.cast(k, dtype=DataType.Float)")
    made = built(definition(*IOTA, TO, *lines, CAST.replace("(r", "(l"), LINEAR))
    assert made == built(words(CASTS[1], LINEAR))


@pytest.mark.parametrize("rows", ["-1", "8"])
def test_rows_of_words_of_any_size_are_not_told_by_a_shape(rows: str) -> None:
    """[-1, K] may be another number of rows where a call says how large K is."""
    text = definition(*IOTA, TO.replace(f"[{N}, ", f"[{rows}, "), CAST, LINEAR)
    text = text.replace(f"shape=[{N}, {K // 8}]", "shape=[-1, -1]")
    with pytest.raises(UnsupportedError) as error:
        built(text)
    assert error.value.what == f"fd.ops.reshape of q [N, K] to [{rows}, {K}]"
