"""Several matmuls that share an operand are one fusion, if their results meet."""

from __future__ import annotations

import pytest

from lowering.ground.errors import UnsupportedError
from tests.importer.test_build import COLUMNS, X, build
from wsched.fusion import (
    BroadcastOp,
    CastOp,
    MmaOp,
    PointwiseOp,
    fusion_text,
    operands_of,
    the_products,
)

XGU = (f"x = {X}", f"g = {X}", f"u = {X}")
FP32 = "dtype=DataType.Float"
GATED = (
    *XGU, "a = fd.ops.linear(x, g)", "b = fd.ops.linear(x, u)", f"c = fd.ops.cast(a, {FP32})",
    "s = fd.ops.silu(c)", "d = fd.ops.mul(s, b)", "e = fd.ops.cast(d, dtype=DataType.BFloat16)",
)  # fmt: skip


def test_gate_and_up(golden: object) -> None:
    """One view of what they share; the products stand in front of all that reads them."""
    f = build(*GATED)
    assert [b.axes for b in f.inputs] == [("M", "K"), ("N", "K"), ("N", "K")]
    assert f.exprs[:8] == (
        BroadcastOp("T3", "T0", (False, True, False)),
        BroadcastOp("T4", "T1", (True, False, False)),
        BroadcastOp("T5", "T2", (True, False, False)),
        MmaOp("T6", "T3", "T4"),
        MmaOp("T7", "T3", "T5"),
        CastOp("T8", "T6"),
        CastOp("T9", "T8"),
        PointwiseOp("T10", "silu", ("T9",)),
    )
    assert operands_of(the_products(f)) == (("T3",), ("T4", "T5"))
    assert fusion_text(f) == golden


def test_results_by_columns() -> None:
    """The operands change places: what is shared is B."""
    f = build(*GATED, "t = fd.ops.stride_order(e, stride_order=[0, 1])")
    assert operands_of(the_products(f)) == (("T3", "T4"), ("T5",))
    assert f.source("T5").name == "T0"


def test_a_shared_second_operand_and_a_bias() -> None:
    f = build(
        *XGU, f"r = {X.replace('[-1, -1]', '[-1]').replace('[True, True]', '[True]')}",
        "a = fd.ops.linear(x, u, r)", "b = fd.ops.linear(g, u)", "d = fd.ops.sub(a, b)",
    )  # fmt: skip
    assert operands_of(the_products(f)) == (("T4", "T5"), ("T6",))
    biased = next(e for e in f.exprs if isinstance(e, PointwiseOp))
    assert biased.op == "add" and f.mmas[0].output in biased.inputs


MEETING = "one of them, or several of one operand that meet"


@pytest.mark.parametrize(
    ("lines", "which"),
    [
        (("a = fd.ops.linear(x, g)", "b = fd.ops.linear(g, u)"), " with no operand in common"),
        (
            ("a = fd.ops.linear(x, g)", "b = fd.ops.linear(x, c)"),
            " of g and c, which lie or are typed apart",
        ),
        (("a = fd.ops.linear(x, g)", "b = fd.ops.linear(x, h)"), None),
    ],
)
def test_refused(lines: tuple[str, ...], which: str | None) -> None:
    names = [line.split("(")[1][:-1].split(", ") for line in lines]
    kinds = {"c": COLUMNS, "h": X.replace("BFloat16", "Half")}
    inputs = [f"{n} = {kinds.get(n, X)}" for n in dict.fromkeys(x for pair in names for x in pair)]
    with pytest.raises(UnsupportedError) as error:
        build(*inputs, *lines, "d = fd.ops.add(a, b)")
    what = f"a fusion with 2 fd.ops.linear or fd.ops.matmul{which}"
    supported = MEETING
    if which is None:
        what = "fd.ops.linear of BFloat16 and Half"
        supported = (
            "pairs of Half; of BFloat16; of TF32; of Float8_e4m3fn, Float8_e5m2; of Int8, UInt8"
        )
    assert (error.value.what, error.value.supported) == (what, supported)


def test_one_input_that_is_transposed_for_one_of_them() -> None:
    """Its name is the same: both products were that of the last."""
    with pytest.raises(UnsupportedError) as error:
        build(
            *XGU[:2], "a = fd.ops.linear(x, g)", "t = fd.ops.permute(g, dims=[1, 0])",
            "b = fd.ops.linear(x, t)", "d = fd.ops.mul(a, b)",
        )  # fmt: skip
    what = "a fusion with 2 fd.ops.linear or fd.ops.matmul of g, which lie or are typed apart"
    assert (error.value.what, error.value.supported) == (what, MEETING)


def test_what_is_an_operand_on_both_sides() -> None:
    with pytest.raises(UnsupportedError) as error:
        build(*XGU[:2], "a = fd.ops.matmul(x, g)", "b = fd.ops.linear(x, x)",
              "d = fd.ops.add(a, b)")  # fmt: skip
    assert error.value.what == "fd.ops.linear of x with itself"
    with pytest.raises(UnsupportedError) as error:
        build(
            *XGU, "a = fd.ops.linear(x, g)", "b = fd.ops.linear(x, u)", "c = fd.ops.linear(g, u)",
            "d = fd.ops.add(a, b)", "e = fd.ops.add(d, c)",
        )  # fmt: skip
    assert error.value.what == (
        "a fusion with 3 fd.ops.linear or fd.ops.matmul with no operand in common"
    )


def test_results_that_do_not_meet() -> None:
    """Nothing says that their extents are the same."""
    lines = [*XGU, "a = fd.ops.linear(x, g)", "b = fd.ops.linear(x, u)", "fd.add_output(a)"]
    with pytest.raises(UnsupportedError) as error:
        build(*lines, "d = fd.ops.neg(b)")
    assert (error.value.what, error.value.supported) == (
        "a fusion with 2 fd.ops.linear or fd.ops.matmul whose results do not meet", MEETING,
    )  # fmt: skip
    met = build(*lines, "d = fd.ops.add(a, b)")
    assert len(met.mmas) == len(met.outputs) == 2
