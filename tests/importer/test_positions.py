"""Import of ``iota`` in epilogues: comparisons of sums of indices, and what is refused."""

from __future__ import annotations

import pytest

from lowering.ground.errors import UnsupportedError
from tests.epilogues import epilogue
from tests.grouped import grouped
from tests.masks import INDICES, KEPT, M, N
from wsched.fusion import IndexOp, fusion_text
from wsched.importer import build_fusion, record_text
from wsched.importer.steps import Places

MORE = (
    "comparisons of indices with each other and with whole numbers, fd.ops.{add, sub, neg}, and "
    "fd.ops.mul by a whole number"
)


def index_ops(*lines: str) -> list[str]:
    fusion = build_fusion(record_text(epilogue(*INDICES, *lines, *KEPT)))
    return [str(e) for e in fusion.exprs if isinstance(e, IndexOp)]


def test_a_mask_of_rows_and_columns(golden: object) -> None:
    text = epilogue(*INDICES, "m = fd.ops.ge(r, c)", *KEPT)
    assert fusion_text(build_fusion(record_text(text))) == golden


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["m = fd.ops.lt(r, c)"], "index(factors = {1, -1}) < 0"),
        (["m = fd.ops.le(r, c)"], "index(factors = {1, -1}) < 1"),
        (["m = fd.ops.gt(r, c)"], "index(factors = {-1, 1}) < 0"),
        (["m = fd.ops.ge(r, c)"], "index(factors = {-1, 1}) < 1"),
        (["m = fd.ops.lt(r, 7)"], "index(factors = {1, 0}) < 7"),
        (["m = fd.ops.lt(7, c)"], "index(factors = {0, -1}) < -7"),
        (["s = fd.ops.sub(r, c)", "t = fd.ops.neg(s)", "u = fd.ops.mul(3, t)",
          "v = fd.ops.add(u, 4)", "m = fd.ops.lt(v, r)"], "index(factors = {-4, 3}) < -4"),
        (["s = fd.ops.cast(r, dtype=DataType.Int)", "m = fd.ops.lt(s, 7)"],
         "index(factors = {1, 0}) < 7"),
        (["s = fd.ops.sub(r, r)", "m = fd.ops.lt(s, 7)"], "index(factors = {0, 0}) < 7"),
    ],
)  # fmt: skip
def test_comparisons(lines: list[str], found: str) -> None:
    assert index_ops(*lines) == [found]


def test_the_same_comparison_is_made_once() -> None:
    found = index_ops("a = fd.ops.ge(r, c)", "b = fd.ops.le(c, r)", "m = fd.ops.logical_and(a, b)")
    assert found == ["index(factors = {-1, 1}) < 1"]


def test_equal_is_neither_below_nor_above() -> None:
    assert index_ops("m = fd.ops.eq(r, c)") == [
        "index(factors = {1, -1}) < 1", "index(factors = {-1, 1}) < 1",
    ]  # fmt: skip


def test_lengths_are_sizes() -> None:
    fusion = build_fusion(record_text(epilogue(*INDICES, "m = fd.ops.ge(r, c)", *KEPT)))
    assert [b.sizes for b in fusion.inputs] == [(M, None), (N, None)]
    assert [b.sizes for b in fusion.outputs] == [(M, N)]


def test_sums_of_indices() -> None:
    x, y = Places.of({"M": 2, "N": 1}, 3), Places.of({"N": -1}, 4)
    assert x.plus(y) == Places((("M", 2),), 7)
    assert x.times(-2) == Places((("M", -4), ("N", -2)), -6)
    assert x.times(0) == Places((), 0)


RUN_TIME = "n = fd.define_scalar(None, dtype=DataType.Int)"


@pytest.mark.parametrize(
    ("lines", "what", "supported"),
    [
        (["m = fd.ops.ge(r, y)"], "fd.ops.ge of an index and BFloat16", MORE),
        (["m = fd.ops.ge(r, 2.5)"], "fd.ops.ge of an index and 2.5", MORE),
        (["s = fd.ops.mul(r, c)", "m = fd.ops.ge(s, 2)"], "fd.ops.mul of an index", MORE),
        (["s = fd.ops.abs(r)", "m = fd.ops.ge(s, 2)"], "fd.ops.abs of an index", MORE),
        (["m = fd.ops.clamp(r, 0, 2)"], "fd.ops.maximum of an index", MORE),
        (["g = fd.ops.where(r, y, 0.0)", "m = fd.ops.gt(g, 0.0)"],
         "fd.ops.where of an index and BFloat16", MORE),
        (["f = fd.ops.cast(r, dtype=DataType.Float)", "m = fd.ops.ge(f, 3.0)"],
         "fd.ops.cast of an index to DataType.Float",
         "comparisons of indices, and casts to Int"),
        (["f = fd.ops.cast(r, dtype=DataType.Int32)", "m = fd.ops.ge(f, 3)"],
         "fd.ops.cast of an index to DataType.Int32",
         "comparisons of indices, and casts to Int"),
        (["s = fd.ops.mul(r, 2000000)", "m = fd.ops.ge(s, 2)"],
         "an index along M times 2000000", "factors from -1048576 to 1048576"),
        (["s = fd.ops.add(r, 3000000000)", "m = fd.ops.ge(s, 2)"],
         "indices beside the number 3000000000", "numbers from -1073741824 to 1073741824"),
        (["k = fd.ops.iota(72, 0.5, 1)", "m = fd.ops.ge(k, 2)"],
         "fd.ops.iota with start=0.5", "whole numbers"),
        (["k = fd.ops.iota(72, 0, 1, dtype=DataType.Float)", "m = fd.ops.ge(k, 2)"],
         "fd.ops.iota of DataType.Float", "Int, Index, Int32"),
        (["k = fd.ops.iota(9, 0, 1)", "m = fd.ops.ge(k, c)"],
         "fd.ops.iota along N of 9 and 72", "one size of N"),
        ([RUN_TIME, "k = fd.ops.iota(n, 0, 1)", "m = fd.ops.ge(k, 2)"],
         "line 10: fd.ops.iota of what is known at run time",
         "of numbers, and of the size of a tensor"),
        ([RUN_TIME, "k = fd.ops.iota(72, n, 1)", "m = fd.ops.ge(k, 2)"],
         "line 10: fd.ops.iota of what is known at run time",
         "of numbers, and of the size of a tensor"),
        (["n = fd.ops.size(r, 1)", "k = fd.ops.iota(n, 0, 1)", "m = fd.ops.ge(k, 2)"],
         "fd.ops.iota of the size of r", "that of an input or of a matmul's result"),
    ],
)  # fmt: skip
def test_refused(lines: list[str], what: str, supported: str) -> None:
    text = epilogue(*INDICES, *lines, *KEPT)
    with pytest.raises(UnsupportedError) as error:
        build_fusion(record_text(text))
    assert (error.value.what, error.value.supported) == (what, supported)


def test_two_sizes_of_a_dimension() -> None:
    text = epilogue("q: [-1, 9] Bool", *INDICES, "a = fd.ops.ge(r, c)",
                    "m = fd.ops.logical_and(a, q)", *KEPT)  # fmt: skip
    with pytest.raises(UnsupportedError) as error:
        build_fusion(record_text(text))
    assert (error.value.what, error.value.supported) == (
        "fd.ops.linear with N = 72 and 9", "one size of N",
    )  # fmt: skip


def test_an_index_is_no_result() -> None:
    text = epilogue(*INDICES, "m = fd.ops.ge(r, c)", *KEPT, "e = fd.ops.add(r, c)", outputs="d e")
    with pytest.raises(UnsupportedError) as error:
        build_fusion(record_text(text))
    assert error.value.what == "the output e of type Int"


def test_groups_and_lists_count_for_themselves() -> None:
    """Rows of a group and columns of an entry are not those of the kernel's tensor."""
    text = grouped(
        "y = fd.ops.grouped_mm(x, w, o)", "c = fd.ops.iota(72, 0, 1)", "m = fd.ops.lt(c, 9)",
        "d = fd.ops.where(m, y, 0.0)", "fd.add_output(d)",
    )  # fmt: skip
    with pytest.raises(UnsupportedError) as error:
        build_fusion(record_text(text))
    assert (error.value.what, error.value.supported) == (
        "fd.ops.iota behind fd.ops.grouped_mm", "masks that are inputs",
    )  # fmt: skip


def two(along: str) -> str:
    """Two linears of the same rows, whose results are masked each by its rows or columns."""
    lines = ["v: [-1, -1]", "y = fd.ops.linear(x, w)", "u = fd.ops.linear(x, v)"]
    for n, read in enumerate("yu"):
        spread = {"rows": "fd.ops.broadcast(i{n}, [False, True])", "columns": "fd.ops.set(i{n})"}
        lines += [
            f"i{n} = fd.ops.iota({M}, 0, 1)", f"p{n} = " + spread[along].format(n=n),
            f"m{n} = fd.ops.lt(p{n}, 9)", f"d{n} = fd.ops.where(m{n}, {read}, 0.0)",
        ]  # fmt: skip
    return epilogue(*lines, outputs="d0 d1")


def test_masks_side_by_side() -> None:
    assert build_fusion(record_text(two("rows"))).lists == {"N": ("N0", "N1")}
    with pytest.raises(UnsupportedError) as error:
        build_fusion(record_text(two("columns")))
    assert "meet" in str(error.value)
