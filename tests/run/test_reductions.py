"""Results that are reductions: every schedule on the machine, at sizes that no tile divides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import wsched
from lowering.ground.errors import ScheduleError, UnsupportedError
from tests.reductions import ALL, Reduced, definition, expected
from tests.schedules import QUICK, SCHEDULES, for_result
from tests.tiers import in_tiers
from wsched.front.known import import_fusion
from wsched.fusion import DataType
from wsched.program.program import Buffer, KernelStep
from wsched.run.compiled import compile_fusion
from wsched.run.finish import finish_steps, in_parts_step, parts_shape
from wsched.run.kernel_name import kernel_name
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.matmul.reductions import Reductions

torch = pytest.importorskip("torch")

SUMS = (Reduced("sum", (0,)),)
"""What warpgroups side by side can have."""

WAYS = (
    "coop_128x256", "coop_128x128", "coop_narrow", "coop_traversal_odd", "coop_1_group_2_rows",
    "coop_256x128", "coop_3_groups", "across_128x256", "tile_per_cta", "cluster_2x2",
    "cluster_pingpong", "pipelined", "pingpong_128x128", "pingpong_64x128", "split_across",
    "dynamic", "dynamic_cluster_pingpong", "split_2", "split_cluster", "stream_k",
    "stream_k_pingpong_cluster", "exchanged", "exchanged_boxes", "exchanged_k128",
    "exchanged_cluster", "exchanged_pipelined", "exchanged_dynamic", "exchanged_split",
    "exchanged_stream_k",
)  # fmt: skip
"""One or two schedules of each kind."""


def fitted(params: MatmulParams, reduced: tuple[Reduced, ...]) -> MatmulParams:
    """The parameters with the stages that fit."""
    return for_result(params, "bf16", reductions=Reductions.of(import_fusion(definition(reduced))))


def inputs(m: int, n: int, k: int, batch: tuple[int, ...] = ()) -> tuple[Any, Any, Any]:
    """Integers whose sums fp32 holds."""
    torch.manual_seed(0)
    shapes = (*batch, m, k), (n, k), (n,)
    x, w, bias = (torch.randint(-2, 3, s).bfloat16() for s in shapes)
    return x, w, bias + 3


def check(found: list[Any], wanted: list[Any]) -> None:
    assert [(x.shape, x.dtype) for x in found] == [(x.shape, x.dtype) for x in wanted]
    assert all(torch.equal(x, y) for x, y in zip(found, wanted, strict=True))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", in_tiers(WAYS, QUICK))
def test_schedules(name: str) -> None:
    params = SCHEDULES[name]
    reduced = SUMS if params.across > 1 else ALL
    x, *others = inputs(300, 264, 80)
    given = (x.clamp(-1, 1), *others)  # fp32 holds the sum of all squares
    text = definition(reduced)
    found = wsched.execute(text, given, params=fitted(params, reduced))
    check(found, expected(reduced, *given))


@pytest.mark.sampled
@pytest.mark.parametrize("size", [(129, 77, 40), (1, 1, 8), (65, 9, 0), (0, 8, 16), (8, 0, 16)])
def test_sizes(size: tuple[int, int, int]) -> None:
    given = inputs(*size)
    reduced = tuple(r for r in ALL if r.op == "sum") if 0 in size else ALL
    check(wsched.execute(definition(reduced), given), expected(reduced, *given))


def test_of_no_elements() -> None:
    """What an operation gives of nothing."""
    reduced = (Reduced("max", (0,)), Reduced("min", (0,)))
    _, most, least = wsched.execute(definition(reduced), inputs(0, 8, 16))
    assert most.tolist() == [-torch.inf] * 8
    assert least.tolist() == [torch.inf] * 8


@pytest.mark.sampled(1)
@pytest.mark.parametrize("reduced", ALL, ids=str)
def test_alone(reduced: Reduced) -> None:
    """The product itself is no result."""
    given = inputs(200, 136, 72)
    found = wsched.execute(definition((reduced,), result=False), given)
    check(found, expected((reduced,), *given)[1:])


def test_stored_by_columns() -> None:
    """The operands change places, so what is over rows in the definition is over columns."""
    given = inputs(200, 136, 72)
    found = wsched.execute(definition(ALL, columns=True), given)
    assert found[0].stride() == (1, 200)
    check(found, expected(ALL, *given))


def test_kept_dimensions_and_types() -> None:
    reduced = (
        Reduced("sum", (0,), keepdim=True), Reduced("max", (1,), "abs", keepdim=True),
        Reduced("min", (0, 1), keepdim=True), Reduced("sum", (1,), dtype="BFloat16"),
    )  # fmt: skip
    given = inputs(130, 72, 40)
    check(wsched.execute(definition(reduced), given), expected(reduced, *given))


def test_batches() -> None:
    """Over the batch and rows, as a bias gradient is, and within each matrix."""
    reduced = (
        Reduced("sum", (0, 1)), Reduced("sum", (1,)), Reduced("max", (2,)),
        Reduced("sum", (0, 1, 2), "square"), Reduced("min", (0, 2)),
    )  # fmt: skip
    given = inputs(70, 72, 40, (3,))
    found = wsched.execute(definition(reduced, batched=True), given)
    check(found, expected(reduced, *given))


def test_all_of_a_tile_is_a_number() -> None:
    """Over rows and columns one kernel puts together what the warpgroups have of each tile."""
    reduced = (Reduced("sum", (0, 1)), Reduced("max", (0, 1), "abs"))
    fusion = import_fusion(definition(reduced))
    params = fitted(SCHEDULES["coop_128x256"], reduced)
    plan = compile_fusion(fusion, params).plan
    assert kernel_name(fusion, params).startswith(
        "matmul_bfloat16_bfloat16_float_float_epilogue_tile"
    )
    sizes = [parts_shape(plan.fusion, b, {"M": 300, "N": 264}) for b in plan.fusion.reduced]
    assert sizes == [(3, 2, 2)] * 2
    names = [Buffer(n, DataType.Float, ()) for n in "abyst"]
    kernel = KernelStep("k", plan, tuple(names[:3]), tuple(names[2:]))
    _, parts = in_parts_step(plan, kernel)
    (step,) = finish_steps(plan, kernel, parts)
    assert (step.summary.over, len(step.reads)) == ((0, 1, 2), 2)


def test_nan_and_infinities() -> None:
    reduced = (Reduced("max", (0,)), Reduced("min", (1,)), Reduced("sum", (0,)))
    x, w, bias = inputs(130, 72, 40)
    bias[5], bias[6] = torch.nan, torch.inf
    found = wsched.execute(definition(reduced), (x, w, bias))
    for got, wanted in zip(found, expected(reduced, x, w, bias), strict=True):
        assert torch.equal(torch.nan_to_num(got, 7.0), torch.nan_to_num(wanted, 7.0))


@pytest.mark.slow
def test_the_same_bits() -> None:
    """Sums of numbers that fp32 rounds are the same in each call, and near those in fp64."""
    torch.manual_seed(0)
    x, w, bias = torch.randn(300, 96), torch.randn(200, 96), torch.randn(200)
    given = tuple(t.bfloat16() for t in (x, w, bias))
    kernel = wsched.compile(definition([r for r in ALL if r.op == "sum"]), given)
    first, second = kernel(*given), kernel(*given)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    wide = [t.double() for t in given]
    columns = (wide[0] @ wide[1].T + wide[2]).sum(0)
    torch.testing.assert_close(first[1].double(), columns, rtol=1e-5, atol=1e-3)


@pytest.mark.slow
def test_bound_and_given_memory() -> None:
    """A launch for given tensors finishes its reductions, too, into the caller's memory."""
    given = inputs(200, 136, 72)
    kernel = wsched.compile(definition(ALL), given)
    wanted = expected(ALL, *given)
    out = [torch.full_like(t, 99) for t in wanted]
    bound = kernel.bind(*given, out=out)
    check(bound(), wanted)
    assert [t.data_ptr() for t in bound.outputs] == [t.data_ptr() for t in out]
    given[2].add_(1)
    check(bound(), expected(ALL, *given))


def test_operands_that_are_copied() -> None:
    """A copy in front of the kernel and reductions behind it are one program."""
    x, w, bias = inputs(130, 72, 41)
    check(wsched.execute(definition(ALL), (x, w, bias)), expected(ALL, x, w, bias))


def test_refused() -> None:
    given = inputs(64, 64, 64)
    across = SCHEDULES["across_128x256"]
    with pytest.raises(ScheduleError) as error:
        wsched.compile(definition(ALL), given, params=fitted(across, ALL))
    assert error.value.why == (
        "2 warpgroups side by side along N: each would have a part of the columns that a result "
        "is reduced over"
    )
    turned = fitted(SCHEDULES["exchanged_across"], ALL)
    with pytest.raises(ScheduleError) as error:
        wsched.compile(definition(ALL), given, params=turned)
    assert error.value.why.startswith("2 warpgroups side by side along N")
    columns = ALL[1:2]  # of the result, which are rows of exchanged tiles
    wsched.compile(definition(columns), given, params=fitted(turned, columns))
    with pytest.raises(ScheduleError) as error:
        wsched.compile(definition(ALL), given, params=replace(across, batch_invariant=True))
    assert error.value.why.endswith(
        "batch_invariant=True: a result is reduced tile by tile, and which tiles there are "
        "depends on M"
    )


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("r = fd.ops.sum(y3, dims=[0])", "fd.ops.sum with dims=[0] is not supported; supported: "
         "reductions over rows or columns of the result, or both"),
        ("r = fd.ops.sum(y3, dims=[1, 1])", "line 10: fd.ops.sum of 3 dimensions with dims=[1, 1] "
         "is not supported; supported: dimensions of 3, each once"),
        ("r = fd.ops.sum(y3, dims=[1], dtype=DataType.Double)", "fd.ops.sum of BFloat16 as Double "
         "is not supported; supported: BFloat16, Half, Float, and casts of a reduction in Float"),
        ("r = fd.ops.relu(fd.ops.sum(y3, dims=[1], keepdim=True))", "fd.ops.sum that an operation "
         "of the kernel reads is not supported; supported: reductions that are results"),
    ],
)  # fmt: skip
def test_not_imported(line: str, text: str) -> None:
    whole = definition((), batched=True).replace("wide = ", "y3 = fd.ops.set(y)\n    wide = ")
    whole = whole.replace("    fd.add_output(y)", f"    {line}\n    fd.add_output(r)")
    with pytest.raises(UnsupportedError) as error:
        import_fusion(whole)
    assert str(error.value) == text
