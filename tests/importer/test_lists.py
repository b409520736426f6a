"""Linears of one input whose results do not meet are one fusion with lists of the others."""

from __future__ import annotations

import pytest

from lowering.ground.errors import UnsupportedError
from tests.conftest import Golden
from tests.importer.test_build import X, build
from tests.importer.test_several import MEETING, XGU
from tests.lists import side_by_side
from wsched.fusion import Entry, Fusion, fusion_text
from wsched.importer import build_fusion, record_text


def imported(text: str) -> Fusion:
    return build_fusion(record_text(text))


def test_weights_of_different_widths(golden: Golden) -> None:
    f = imported(side_by_side())
    assert [b.key for b in f.inputs] == ["T0", "T1[0]", "T1[1]", "T1[2]"]
    assert [b.extents for b in f.inputs] == [("M", "K"), *((f"N{i}", "K") for i in range(3))]
    assert [b.extents for b in f.outputs] == [("M", f"N{i}") for i in range(3)]
    assert f.lists == {"N": ("N0", "N1", "N2")}
    assert [b.entry for b in f.entries("T1")] == [Entry("N", i) for i in range(3)]
    assert [b.tensor for b in f.matrices] == ["T5"]
    assert fusion_text(f) == golden


def test_fixed_widths() -> None:
    f = imported(side_by_side(2, widths=(64, 24)))
    assert [b.sizes for b in f.outputs] == [(None, 64), (None, 24)]


def test_what_belongs_to_one_of_them_is_a_list_as_well() -> None:
    f = imported(side_by_side(bias=True))
    assert [b.key for b in f.inputs] == [
        "T0", "T1[0]", "T2[0]", "T1[1]", "T2[1]", "T1[2]", "T2[2]",
    ]  # fmt: skip
    assert f.operands == ("T0", "T1")


def test_inputs_and_outputs_in_any_order() -> None:
    f = build(
        f"u = {X}", f"x = {X}", f"g = {X}", "a = fd.ops.linear(x, g)", "b = fd.ops.linear(x, u)",
        "fd.add_output(b)", out="a",
    )  # fmt: skip
    assert [b.key for b in f.inputs] == ["T1[0]", "T0", "T1[1]"]
    assert [b.key for b in f.outputs] == ["T5[0]", "T5[1]"]


def test_inputs_of_one_weight() -> None:
    """What is shared is B: rows stand side by side."""
    f = build(*XGU, "a = fd.ops.linear(g, x)", "b = fd.ops.linear(u, x)", "fd.add_output(a)",
              out="b")  # fmt: skip
    assert f.lists == {"M": ("M0", "M1")}
    assert [b.key for b in f.inputs] == ["T1", "T0[0]", "T0[1]"]


def test_several_results_of_each() -> None:
    text = side_by_side(2, after=("s = fd.ops.relu(y)", "z = fd.ops.neg(y)"))
    others = "    fd.add_output(s0)\n    fd.add_output(s1)\n"
    f = imported(text.replace("    fd.add_output(z0)", f"{others}    fd.add_output(z0)"))
    assert len({b.tensor for b in f.outputs}) == 2
    first, second = (b.tensor for b in f.matrices)
    assert [b.key for b in f.outputs] == [
        f"{first}[0]", f"{first}[1]", f"{second}[0]", f"{second}[1]",
    ]  # fmt: skip


def test_pairs_that_meet() -> None:
    """Two gated products of one input."""
    weights = [f"w{i} = {X}" for i in range(4)]
    made = [f"y{i} = fd.ops.linear(x, w{i})" for i in range(4)]
    f = build(f"x = {X}", *weights, *made, "a = fd.ops.mul(y0, y1)", "b = fd.ops.mul(y2, y3)",
              "fd.add_output(a)", out="b")  # fmt: skip
    assert len(f.mmas) == 2
    assert [b.key for b in f.inputs] == ["T0", "T1[0]", "T2[0]", "T1[1]", "T2[1]"]


AB = ("a = fd.ops.linear(x, g)", "b = fd.ops.linear(x, u)")


@pytest.mark.parametrize(
    "lines",
    [
        (*AB, "c = fd.ops.relu(b)", "fd.add_output(a)"),
        (*AB, "c = fd.ops.mul(b, 2.0)", "d = fd.ops.mul(a, 3.0)", "fd.add_output(d)"),
        (f"r = {X}", *AB, "c = fd.ops.add(a, r)", "d = fd.ops.add(b, r)", "fd.add_output(d)"),
        (*AB, "c = fd.ops.sum(a, dims=[0], keepdim=False, dtype=DataType.Float)",
         "d = fd.ops.sum(b, dims=[0], keepdim=False, dtype=DataType.Float)", "fd.add_output(d)"),
    ],
)  # fmt: skip
def test_refused(lines: tuple[str, ...]) -> None:
    """What follows differs, or is shared along the axis; or the results are reductions."""
    with pytest.raises(UnsupportedError) as error:
        build(*XGU, *lines, out="c")
    assert (error.value.what, error.value.supported) == (
        "a fusion with 2 fd.ops.linear or fd.ops.matmul whose results do not meet", MEETING,
    )  # fmt: skip


@pytest.mark.parametrize("batches", [(3, 2), (-1, -1), (3, -1), (3, 3)])
def test_inputs_of_other_batches_are_no_list(batches: tuple[int, int]) -> None:
    """Only rows of a part may be others; one of a weight alone says nothing of its batches."""
    dense = "contiguity=[True, True, True], dtype=DataType.BFloat16"
    lines = [f"w = {X}"]
    for name, batch in zip("ab", batches, strict=True):
        lines.append(f"x{name} = fd.define_tensor(shape=[{batch}, -1, -1], {dense})")
        lines.append(f"{name} = fd.ops.linear(x{name}, w)")
    if batches == (3, 3):
        assert build(*lines, "fd.add_output(a)", out="b").lists == {"M": ("M0", "M1")}
        return
    with pytest.raises(UnsupportedError, match="whose results do not meet"):
        build(*lines, "fd.add_output(a)", out="b")


@pytest.mark.parametrize("after", [(), ("fd.ops.relu(y{})",)])
def test_what_shares_nothing(after: tuple[str, ...]) -> None:
    """Products of their own operands are no parts of one sum along K: each has its own result."""
    lines, out = [f"{name}{i} = {X}" for i in range(2) for name in "xw"], "y{}"
    lines += [f"y{i} = fd.ops.linear(x{i}, w{i})" for i in range(2)]
    for call in after:
        lines += [f"z{i} = {call.format(i)}" for i in range(2)]
        out = "z{}"
    with pytest.raises(UnsupportedError) as error:
        build(*lines, f"fd.add_output({out.format(0)})", out=out.format(1))
    assert error.value.what == (
        "a fusion with 2 fd.ops.linear or fd.ops.matmul with no operand in common"
    )


def test_too_many() -> None:
    assert imported(side_by_side(8)).lists
    with pytest.raises(UnsupportedError) as error:
        imported(side_by_side(9))
    assert error.value.what.endswith(" whose results do not meet")


@pytest.mark.parametrize("widths", [(64, 64), (64, 24)])
def test_an_input_that_nothing_reads(widths: tuple[int, int]) -> None:
    text = side_by_side(2, widths=widths).replace("    x = ", f"    z = {X}\n    x = ", 1)
    with pytest.raises(UnsupportedError) as error:
        imported(text)
    assert error.value.what == "the input z, which nothing reads,"
