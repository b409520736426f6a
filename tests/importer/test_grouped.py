"""Grouped matmuls as batches of groups: what a definition becomes, and what is refused."""

from __future__ import annotations

import pytest

from lowering.ground.errors import UnsupportedError
from tests.grouped import FORMS, GATE, WEIGHTS, grouped
from wsched.front.known import import_fusion
from wsched.fusion import Groups, fusion_text

MATRIX = "fd.define_tensor(shape=[-1, -1], dtype=DataType.BFloat16)"


def test_rows_have_the_groups_in_one_dimension_with_m(golden: object) -> None:
    fusion = import_fusion(grouped())
    assert fusion.groups == Groups("T6", "B", "M")
    assert not fusion.sums_of_groups
    assert [fusion.ragged(name) for name in fusion.names].count(True) == 2
    assert fusion_text(fusion) == golden


def test_an_epilogue(golden: object) -> None:
    """A bias has a row for each group; what is the same for all rows is so for all groups."""
    text = grouped(
        "b = fd.define_tensor(shape=[-1, -1], dtype=DataType.Float)",
        f"r = {MATRIX}",
        "s = fd.define_tensor(shape=[-1], dtype=DataType.Float)",
        "e = fd.ops.grouped_mm(x, w, o, bias=b)",
        "v = fd.ops.broadcast(s, is_broadcast_dim=[True, False])",
        "f = fd.ops.mul(e, v)",
        "d = fd.ops.add(f, r)",
        "fd.add_output(d)",
    )
    fusion = import_fusion(text)
    assert [(b.tensor, b.axes) for b in fusion.inputs if fusion.ragged(b.tensor)] == [
        ("T0", ("M", "K")), ("T3", ("M", "N")),
    ]  # fmt: skip
    assert fusion_text(fusion) == golden


@pytest.mark.parametrize("form", ["columns", "sums"])
def test_other_forms(form: str, golden: object) -> None:
    """What is in groups lies by groups, whatever the definition says."""
    fusion = import_fusion(grouped(ranks=FORMS[form]))
    assert fusion.groups == Groups("T6", "B", {"columns": "N", "sums": "K"}[form])
    assert fusion.sums_of_groups == (form == "sums")
    ragged = [fusion.tensor(n) for n in fusion.operands if fusion.ragged(n)]
    along = {str(t.in_memory[1].extent) for t in ragged}
    assert along == {fusion.groups.along}
    assert fusion_text(fusion) == golden


def test_transposed_groups() -> None:
    """A weight's gradient, of what a layer was given and what comes back: both by tokens."""
    lines = ("t = fd.ops.permute(y, dims=[1, 0])", "d = fd.ops.grouped_mm(t, w, o)",
             "fd.add_output(d)")  # fmt: skip
    text = grouped(*lines, ranks=FORMS["sums"]).replace("    x = ", "    y = ")
    first, second, _ = import_fusion(text).inputs
    assert (first.axes, second.axes) == (("K", "M"), ("K", "N"))


def test_two_of_the_same_rows() -> None:
    fusion = import_fusion(GATE)
    assert len(fusion.mmas) == 2
    assert [b.axes for b in fusion.inputs] == [
        ("M", "K"), ("B", "K", "N"), ("B",), ("B", "K", "N"),
    ]  # fmt: skip


def test_matrices_through_a_transposition() -> None:
    turned = (
        f"v = {WEIGHTS.replace(', stride_order=[2, 0, 1]', '')}",
        "t = fd.ops.permute(v, dims=[0, 2, 1])",
        "d = fd.ops.grouped_mm(x, t, o)",
        "fd.add_output(d)",
    )
    text = grouped(*turned).replace("    w = ", "    w_ = ").replace("[-1, -1, -1]", "[4, 8, -1]")
    text = "\n".join(line for line in text.splitlines() if " w_ = " not in line)
    fusion = import_fusion(text)
    weights, ends = fusion.inputs[2], fusion.inputs[1]
    assert (weights.axes, weights.sizes) == (("B", "N", "K"), (None, 8, None))
    assert ends.sizes == (4,)


@pytest.mark.parametrize(
    ("lines", "what", "supported"),
    [
        (("d = fd.ops.grouped_mm(w, w, o)", "fd.add_output(d)"),
         "fd.ops.grouped_mm of 3 and 3 dimensions",
         "[M, K] by [G, K, N], [G, M, K] by [K, N] or [M, K] by [K, N], with the ends of G groups"),
        (("c = fd.ops.grouped_mm(x, w, o)", "e = fd.ops.grouped_mm(w, x, o)",
          "d = fd.ops.add(c, e)", "fd.add_output(d)"),
         "fd.ops.grouped_mm with operands of (2, 3) and (3, 2)", "one form of it"),
        (("b = fd.define_tensor(shape=[-1, -1], dtype=DataType.Float)",
          "d = fd.ops.grouped_mm(w, x, o, bias=b)", "fd.add_output(d)"),
         "fd.ops.grouped_mm of 3 and 2 dimensions with a bias", "a bias of groups of rows"),
        (("p = fd.define_tensor(shape=[-1], dtype=DataType.Int32)",
          "c = fd.ops.grouped_mm(x, w, o)", "e = fd.ops.grouped_mm(x, w, p)",
          "d = fd.ops.add(c, e)", "fd.add_output(d)"),
         "fd.ops.grouped_mm with the ends o and p", "the same ends for all"),
        (("p = fd.define_tensor(shape=[-1], dtype=DataType.Int)",
          "d = fd.ops.grouped_mm(x, w, p)", "fd.add_output(d)"),
         "fd.ops.grouped_mm with offsets of 1 dimensions, Int",
         "the ends of the groups, [G] of Int32"),
        (("d = fd.ops.grouped_mm(x, w, o, alpha=2.0)", "fd.add_output(d)"),
         "fd.ops.grouped_mm with alpha=2.0", "mat1, mat2, offsets, bias and dtype"),
        (("b = fd.define_tensor(shape=[-1], dtype=DataType.Float)",
          "d = fd.ops.grouped_mm(x, w, o, bias=b)", "fd.add_output(d)"),
         "fd.ops.grouped_mm with bias=b", "an input [G, N]"),
        (("y = fd.ops.relu(x)", "d = fd.ops.grouped_mm(y, w, o)", "fd.add_output(d)"),
         "fd.ops.relu on an operand of fd.ops.grouped_mm", "an input, or its transpose"),
        (("y = fd.ops.relu(w)", "d = fd.ops.grouped_mm(x, y, o)", "fd.add_output(d)"),
         "fd.ops.relu on an operand of fd.ops.grouped_mm", "an input, or its transpose"),
        (("y = fd.ops.relu(w)", "t = fd.ops.permute(y, dims=[0, 2, 1])",
          "d = fd.ops.grouped_mm(x, t, o)", "fd.add_output(d)"),
         "fd.ops.relu on an operand of fd.ops.grouped_mm", "an input, or its transpose"),
        (("y = fd.ops.expand(w, shape=[4, 8, 16])", "d = fd.ops.grouped_mm(x, y, o)",
          "fd.add_output(d)"),
         "fd.ops.expand on an operand of fd.ops.grouped_mm", "an input, or its transpose"),
        (("d = fd.ops.grouped_mm(x, 2.0, o)", "fd.add_output(d)"),
         "2.0 on an operand of fd.ops.grouped_mm", "an input, or its transpose"),
        (("b = fd.ops.expand(x, shape=[4, 8])", "d = fd.ops.grouped_mm(x, w, o, bias=b)",
          "fd.add_output(d)"),
         "fd.ops.grouped_mm with bias=b", "an input [G, N]"),
        (("b = fd.define_tensor(shape=[-1, -1], dtype=DataType.Float)",
          "e = fd.ops.grouped_mm(x, w, o, bias=b)", "d = fd.ops.add(e, b)", "fd.add_output(d)"),
         "b, a bias of groups, read by something else",
         "[M, K] by [G, K, N], [G, M, K] by [K, N] or [M, K] by [K, N], with the ends of G groups"),
        (("e = fd.ops.grouped_mm(x, w, o)", "c = fd.ops.cast(o, dtype=DataType.Float)",
          "d = fd.ops.add(e, c)", "fd.add_output(d)"),
         "o, the ends of groups, read by something else",
         "[M, K] by [G, K, N], [G, M, K] by [K, N] or [M, K] by [K, N], with the ends of G groups"),
        (("p = fd.define_tensor(shape=[-1, -1], dtype=DataType.Int32)",
          "d = fd.ops.grouped_mm(x, w, p)", "fd.add_output(d)"),
         "fd.ops.grouped_mm with offsets of 2 dimensions, Int32",
         "the ends of the groups, [G] of Int32"),
        ((f"u = {WEIGHTS.replace('-1', '3', 1)}", f"v = {WEIGHTS.replace('-1', '4', 1)}",
          *(f"{n}{n} = fd.ops.grouped_mm(x, {n}, o)" for n in "uvw"), "a = fd.ops.add(uu, vv)",
          "d = fd.ops.add(a, ww)", "fd.add_output(d)"),
         "fd.ops.grouped_mm with 3 and 4 groups", "an end for each matrix"),
        (("v = fd.define_tensor(shape=[-1, -1, -1], dtype=DataType.BFloat16, "
          "stride_order=[0, 2, 1])", "d = fd.ops.grouped_mm(x, v, o)", "fd.add_output(d)"),
         "v with stride_order=[0, 2, 1]", "groups one behind the other in memory"),
        (("p = fd.ops.neg(o)", "d = fd.ops.grouped_mm(x, w, p)", "fd.add_output(d)"),
         "fd.ops.grouped_mm with offsets p", "an input"),
        (("e = fd.ops.grouped_mm(x, w, o)", "d = fd.ops.sum(e, dims=[0])", "fd.add_output(d)"),
         "a reduction of fd.ops.grouped_mm", "results [M, N]"),
        (("t = fd.ops.permute(w, dims=[2, 1, 0])", "d = fd.ops.grouped_mm(x, t, o)",
          "fd.add_output(d)"),
         "fd.ops.permute with dims=[2, 1, 0]", "dims=[0, 2, 1]"),
        (("e = fd.ops.grouped_mm(x, w, o)", "s = fd.ops.sum(w, dims=[0])",
          "d = fd.ops.add(e, s)", "fd.add_output(d)"),
         "w as operand of fd.ops.grouped_mm and in the epilogue", "one way to read it"),
        (("e = fd.ops.grouped_mm(x, w, o)", "d = fd.ops.permute(e, dims=[1, 0])",
          "fd.add_output(d)"),
         "fd.ops.grouped_mm beside [N, M] in memory", "matrices of whole rows, [M, N] say"),
    ],
)  # fmt: skip
def test_refused(lines: tuple[str, ...], what: str, supported: str) -> None:
    with pytest.raises(UnsupportedError) as e:
        import_fusion(grouped(*lines))
    assert (e.value.what, e.value.supported) == (what, supported)
