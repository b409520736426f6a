"""What reductions of a tile take of shared memory, and which way they go."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.reductions import ALL, Reduced, definition
from tests.schedules import cooperative, exchanged
from wsched.bench.reductions import REDUCTIONS
from wsched.bench.reductions import definition as linear_with
from wsched.front.known import import_fusion
from wsched.fusion import IterType, ReductionOp
from wsched.importer.linear import LINEAR
from wsched.run.compiled import compile_fusion
from wsched.schedule.matmul.demands import Demands
from wsched.schedule.matmul.limits import registers_left
from wsched.schedule.matmul.params import GemmTile, MatmulParams
from wsched.schedule.matmul.part_limits import not_in_parts
from wsched.schedule.matmul.reductions import (
    NO_REDUCTIONS,
    Reductions,
    over_both,
    over_columns,
    over_tile,
    reduction_reasons,
    shared_by_warps,
)
from wsched.schedule.matmul.scheduler import schedule_matmul
from wsched.schedule.matmul.tiles import tile_choice, with_tile

ONE = with_tile(MatmulParams(), GemmTile(64, 128, 64), 1, False)
"""A warpgroup that computes alone."""


@pytest.mark.parametrize(
    ("axes", "columns", "both"), [((0,), False, False), ((1,), True, False), ((0, 1), True, True)]
)
def test_which_way(axes: tuple[int, ...], columns: bool, both: bool) -> None:
    fusion = import_fusion(definition((Reduced("sum", axes),)))
    (result,) = fusion.reduced
    found = over_columns(fusion, result.tensor), over_both(fusion, result.tensor)
    assert found == (columns, both)
    assert Reductions.of(fusion) == Reductions(int(not columns), int(columns), int(both))


@pytest.mark.parametrize(
    ("axes", "rows", "columns"), [((0,), True, False), ((1,), False, True), ((0, 1), True, True)]
)
def test_which_way_of_a_tile(axes: tuple[int, ...], rows: bool, columns: bool) -> None:
    """Rows of an exchanged tile are columns of the result."""
    fusion = import_fusion(definition((Reduced("sum", axes),)))
    (result,) = fusion.reduced
    assert over_tile(fusion, result.tensor, ONE) == (rows, columns)
    assert over_tile(fusion, result.tensor, exchanged(ONE)) == (columns, rows)


@pytest.mark.parametrize(
    ("axes", "turned", "labels"),
    [
        ((0,), False, "Mo group rMi N"), ((0,), True, "N No rNi"),
        ((1,), False, "M No rNi"), ((1,), True, "Mo group rMi M"),
        ((0, 1), False, "Mo group rMi No"), ((0, 1), True, "Mo group rMi No"),
    ],
)  # fmt: skip
def test_dimensions_of_parts(axes: tuple[int, ...], turned: bool, labels: str) -> None:
    """In the order of the tile: rows of the product that is computed, then its columns."""
    params = replace(cooperative(128, 64), exchange_operands=turned)
    fusion = schedule_matmul(import_fusion(definition((Reduced("sum", axes),))), params)
    made = [e.output for e in fusion.exprs if isinstance(e, ReductionOp)]
    found = (
        "r" * (d.iter_type is IterType.Reduction) + d.label for d in fusion.tensor(made[-1]).logical
    )
    assert " ".join(found) == labels


def test_those_of_the_transposed_product() -> None:
    """What is over both is over columns of either."""
    found = Reductions(over_rows=2, over_columns=4, over_both=1)
    assert found.exchanged == Reductions(over_rows=3, over_columns=3, over_both=1)
    assert found.exchanged.exchanged == found


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_what_is_made_of_sums(reduction: str) -> None:
    """Beside a product that is but rounded, whatever is in front of the reduction, be it that."""
    assert Reductions.of(import_fusion(linear_with(reduction))).of_sums


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("f = fd.ops.cast(y, dtype=DataType.Float)",
         "h = fd.ops.cast(y, dtype=DataType.Half)\n    f = fd.ops.cast(h, dtype=DataType.Float)\n"
         "    fd.add_output(h)"),
        ("fd.add_output(y)", "r = fd.ops.relu(y)\n    fd.add_output(r)"),
        ("fd.add_output(y)", "t = fd.ops.max(q, dims=[0])\n    fd.add_output(t)"),
        ("fd.add_output(y)", "fd.add_output(q)"),
    ],
    ids=["stored", "computed for a matrix", "reduced twice", "a result"],
)  # fmt: skip
def test_what_is_held_for_several(old: str, new: str) -> None:
    text = linear_with("squares")
    assert text.count(old) == 1
    assert not Reductions.of(import_fusion(text.replace(old, new))).of_sums


def test_without_any() -> None:
    assert Reductions.of(import_fusion(LINEAR)) == NO_REDUCTIONS


def test_registers_of_what_is_made_of_sums() -> None:
    """Beside 208 accumulators 16 columns as they are stored; what is held takes more, and each
    further reduction.
    """

    def reason(text: str, columns: int) -> str:
        base = MatmulParams(exchange_operands=True)
        return tile_choice(import_fusion(text), base, GemmTile(128, columns, 64), 2, True).reason

    assert reason(linear_with("squares"), 208) == ""
    held = "{} accumulators and {} registers for this epilogue a thread exceed 240"
    assert reason(definition(ALL[4:]), 208) == held.format(208, 28 + 16)
    assert [reason(definition(ALL[:n]), 160) for n in (1, 3)] == ["", ""]
    assert reason(definition(ALL), 160) == held.format(160, 28 + 40 + 4 * 5)


def test_of_sums_without_any_says_nothing() -> None:
    """As of a problem from a file that has the one and not the others."""
    without = replace(Demands.of(import_fusion(LINEAR)), computes=False)
    said = replace(without, reductions=Reductions(of_sums=True))
    params = cooperative(128, 128)
    assert not_in_parts(said) == not_in_parts(without)
    assert reduction_reasons(said.reductions, replace(params, batch_invariant=True)) == []
    left = [registers_left(replace(d, computes=True), params) for d in (said, without)]
    assert left[0] == left[1] < registers_left(without, params)


@pytest.mark.parametrize(
    ("found", "params", "size"),
    [
        (NO_REDUCTIONS, cooperative(128, 128), 0),
        (Reductions(over_columns=3), cooperative(128, 128), 0),  # a warp has whole rows
        (Reductions(over_rows=1), cooperative(128, 128), 2 * 4 * 128 * 4),
        (Reductions(over_rows=1), ONE, 1 * 4 * 128 * 4),
        (Reductions(over_rows=3), cooperative(128, 192), 3 * (2 * 4 * 192 * 4)),
        (Reductions(over_rows=1), cooperative(128, 72), 3072),  # 2304 bytes in units of 1024
        (Reductions(over_columns=2, over_both=2), cooperative(128, 128), 2 * 1024),  # 32 bytes each
        (Reductions(1, 1, 1), cooperative(128, 256), 2 * 4 * 256 * 4 + 1024),
    ],
)
def test_of_each_warp_a_row_in_fp32(found: Reductions, params: MatmulParams, size: int) -> None:
    """Of one number where a result is over both; buffers begin where a swizzle's pattern does."""
    assert shared_by_warps(found, params) == size


_BESIDE = """\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    w = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    h = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    f = fd.ops.cast(fd.ops.linear(x, w), dtype=DataType.Float)
    a = fd.ops.tanh(fd.ops.cast(h, dtype=DataType.Float))
    b = fd.ops.add(a, 1.0)
    BESIDE
    fd.add_output(fd.ops.cast(u, dtype=DataType.BFloat16))
    z = fd.ops.mul(fd.ops.mul(f, a), b)
    fd.add_output(fd.ops.cast(z, dtype=DataType.BFloat16))
    fd.add_output(fd.ops.sum(z, dims=[0], dtype=DataType.Float))
"""


@pytest.mark.parametrize(
    ("beside", "early"),
    [
        # Behind the reduction two would be held, in front it is one.
        ("u = fd.ops.div(a, b)", True),
        ("u = fd.ops.div(fd.ops.exp(a), b)", True),
        ("u = fd.ops.div(f, a)", False),  # what sums are rounded to has their registers
        ("u = fd.ops.div(a, 2.0)", False),
        ("u = fd.ops.div(fd.ops.exp(a), 2.0)", False),
    ],
)
def test_what_is_made_of_several_is_made_in_front(beside: str, early: bool) -> None:
    """Of the reduction, behind which all else stands that is made of what leads to it."""
    assert _divided_in_front(_BESIDE.replace("BESIDE", beside)) is early


def test_what_is_made_of_sums_that_are_held_anyway_is_made_behind() -> None:
    """A product that is not rounded is its accumulators."""
    text = _BESIDE.replace("BESIDE", "u = fd.ops.div(f, a)")
    assert not _divided_in_front(text.replace("linear(x, w)", "linear(x, w, dtype=DataType.Float)"))


def _divided_in_front(text: str) -> bool:
    """Whether the quotient of a fusion is made in front of its reduction."""
    fusion = import_fusion(text)
    params = tile_choice(fusion, MatmulParams(), GemmTile(128, 128, 64), 2, True).params
    nest = compile_fusion(fusion, params).dump("loops")
    return nest.index(" / ") < nest.index("reduction(")
