"""Sums read products in bf16 before they are rounded, where nothing else is computed of these."""

from __future__ import annotations

import pytest

from tests.epilogues import epilogue
from tests.importer.test_rounded_reductions import BF16, FP16, FP32, WIDE, math
from wsched.front.known import import_fusion
from wsched.fusion import CastOp, Fusion, ReductionOp

SUM = "s = fd.ops.sum({}, dims=[1])"
UNROUNDED = ["T5 = cast(T4)", "T6 = reduction(T4, op = sum)"]
TWO = "v: [-1, -1]", "y = fd.ops.linear(x, w)", "u = fd.ops.linear(x, v)"
THREE = "v: [-1, -1]", "p: [-1, -1]", *TWO[1:], "z = fd.ops.linear(x, p)"


def rounded(*lines: str, outputs: str, dtype: str = "BFloat16") -> list[bool]:
    """Of each reduction, whether what it reads has been rounded to 16 bits."""
    fusion = import_fusion(epilogue(*lines, outputs=outputs, dtype=dtype))
    return [_narrow(fusion, e.input) for e in fusion.exprs if isinstance(e, ReductionOp)]


def _narrow(fusion: Fusion, name: str) -> bool:
    made = map(fusion.definition, (name, *fusion.made_from((name,))))
    return any(isinstance(e, CastOp) and fusion.tensor(e.output).dtype.bytes == 2 for e in made)


@pytest.mark.parametrize(
    "lines",
    [
        (SUM.format(f"y, {FP32}"),),
        ("t = fd.ops.set(y)", WIDE.replace("(y", "(t"), SUM.format("f")),
        (WIDE, "t = fd.ops.set(f)", SUM.format("t")),
        (WIDE, "t = fd.ops.stride_order(f, stride_order=[1, 0])", SUM.format("t")),
        (WIDE, "b = fd.ops.broadcast(f, is_broadcast_dim=[False, True, False])",
         "t = fd.ops.squeeze(b, dims=[1])", SUM.format("t")),
        (WIDE, f"n = fd.ops.cast(f, {BF16})", SUM.format(f"n, {FP32}")),
        (f"z = fd.ops.linear(x, w)\n    y = fd.ops.linear(x, w)\n    {WIDE}",
         SUM.format(f"z, {FP32}")),
    ],
)  # fmt: skip
def test_however_it_is_looked_at(lines: tuple[str, ...]) -> None:
    assert math(*lines) == UNROUNDED == math(WIDE, SUM.format("f"))


@pytest.mark.parametrize(
    ("lines", "made"),
    [
        (("t = fd.ops.mul(y, 0.015625)",), ["T4 * double(0.015625)"]),
        (("t = fd.ops.div(y, 64.0)",), ["T4 / double(64)"]),
        (("t = fd.ops.neg(y)",), ["-T4"]),
        (("t = fd.ops.pow(y, 2.0)",), ["pow(T4, double(2))"]),
        (("t = fd.ops.mul(y, y)",), ["T4 * T4"]),
        (("q = fd.ops.mul(y, y)", "n = fd.ops.neg(y)", "c = fd.define_scalar(3.0)",
          "e = fd.ops.mul(c, n)", "t = fd.ops.mul(q, e)"),
         ["T4 * T4", "-T4", "double(3) * T7", "T6 * T8"]),
    ],
)  # fmt: skip
def test_monomials(lines: tuple[str, ...], made: list[str]) -> None:
    """And whatever is rounded of them is only what is stored."""
    assert math(*lines, SUM.format("t"))[1:-1] == [f"T{n} = {e}" for n, e in enumerate(made, 6)]
    assert rounded(*lines, SUM.format("t"), outputs="y s") == [False]
    assert rounded(*lines, SUM.format("t"), outputs="s") == [False]


@pytest.mark.parametrize(
    "lines",
    [
        ("t = fd.ops.abs(y)",),
        ("t = fd.ops.add(y, y)",),
        ("t = fd.ops.pow(y, 0.5)",),
        ("t = fd.ops.pow(y, -1.0)",),
        ("t = fd.ops.pow(2.0, y)",),
        ("t = fd.ops.div(1.0, y)",),
        ("t = fd.ops.div(y, y)",),
        ("c: [-1]", "t = fd.ops.mul(y, c)"),
        ("q = fd.ops.mul(y, y)", f"t = fd.ops.cast(q, {BF16})"),
        (f"t = fd.ops.cast(y, {FP16})",),
        (f"z = fd.ops.linear(x, w, {FP32})", "y = fd.ops.linear(x, w)", "t = fd.ops.mul(y, z)"),
    ],
)  # fmt: skip
def test_what_else_is_summed_is_rounded(lines: tuple[str, ...]) -> None:
    assert rounded(*lines, SUM.format("t"), outputs="y s") == [True]


@pytest.mark.parametrize("line", ["t = fd.ops.mul(y, y)", "t = fd.ops.set(y)"])
def test_of_fp16_every_sum_is_rounded(line: str) -> None:
    """What it cannot hold is infinite in the sum, too."""
    assert rounded(line, SUM.format("t"), outputs="y s", dtype="Half") == [True]


@pytest.mark.parametrize(
    ("lines", "outputs"),
    [
        ((WIDE, SUM.format("f")), "f s"),
        ((WIDE, SUM.format("f"), "d = fd.ops.relu(y)"), "y s d"),
        # The same product by another name.
        (("y = fd.ops.linear(x, w)", "z = fd.ops.linear(x, w)", WIDE, SUM.format("f"),
          "d = fd.ops.relu(z)"), "s d"),
        # Another one is computed of the same accumulator.
        (("b: [-1]", "y = fd.ops.linear(x, w)", "z = fd.ops.linear(x, w, b)", WIDE,
          SUM.format("f"), "d = fd.ops.relu(z)"), "s d"),
        (("y = fd.ops.linear(x, w)", f"z = fd.ops.linear(x, w, {FP32})", WIDE, SUM.format("f")),
         "s z"),
    ],
)  # fmt: skip
def test_products_that_something_else_is_computed_of(lines: tuple[str, ...], outputs: str) -> None:
    assert rounded(*lines, outputs=outputs) == [True]


def test_all_that_a_sum_reads_is_alike() -> None:
    """And so is what is summed with that elsewhere."""
    lines = *THREE, "a = fd.ops.mul(y, u)", "b = fd.ops.mul(u, z)", SUM.format("a")
    sums = *lines, SUM.format("b").replace("s =", "t ="), SUM.format("y").replace("s =", "e =")
    assert rounded(*sums, outputs="s t e") == [False] * 3
    assert rounded(*sums, "d = fd.ops.relu(z)", outputs="s t e d") == [True] * 3


def test_those_that_no_sum_joins_are_not() -> None:
    lines = *TWO, SUM.format("y"), SUM.format("u").replace("s =", "t =")
    meet = "m = fd.ops.mul(y, u)", "d = fd.ops.sum(m, dims=[0])"
    assert rounded(*lines, *meet, outputs="s t d") == [False] * 3
    more = "r: [-1, -1]", "g = fd.ops.add(u, r)", "h = fd.ops.sum(r, dims=[1])"
    assert rounded(*TWO, *more, SUM.format("y"), "e = fd.ops.sum(u, dims=[0])", *meet,
                   outputs="s e d g h") == [True, True, True, False]  # fmt: skip


def test_a_bias_is_added_in_front_of_both() -> None:
    lines = "b: [-1]", "y = fd.ops.linear(x, w, b)", "q = fd.ops.mul(y, y)", SUM.format("q")
    found = math(*lines)
    assert found[-3:] == ["T9 = cast(T8)", "T10 = T8 * T8", "T11 = reduction(T10, op = sum)"]
