"""Results that threads store themselves, and inputs that they read, at any stride and alignment."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import wsched
from lowering.ground.errors import ScheduleError, UnsupportedError
from lowering.kernel.nodes import FragLoadGlobal, FragStoreGlobal, TmaLoad, TmaStore
from lowering.kernel.visit import walk
from tests.epilogues import GELU, RESIDUAL, TWO_OUTPUTS, WHERE, epilogue
from tests.frames import FAMILIES, Frame, direct
from tests.front.test_execute import DTYPES, integers, product
from tests.schedules import SCHEDULES, cooperative, definition, for_result
from wsched.choose.heuristics import ranked
from wsched.choose.problem import Problem
from wsched.fusion import DataType
from wsched.importer.input_error import InputError
from wsched.run.arguments import apart

torch = pytest.importorskip("torch", reason="torch is not installed")

BF16, F64 = torch.bfloat16, torch.float64
K = 40


# --- every kind of kernel -------------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("result", ["bf16", "f32"])
def test_every_kind_of_kernel(name: str, result: str) -> None:
    """Tails in all dimensions, several tiles for a CTA, odd rows at an odd place."""
    tile = SCHEDULES[name].output_tile
    m, n = tile.m + 73, tile.n + 33
    x, w = integers(m, K), integers(n, K, seed=1)
    kernel = wsched.compile(
        definition(result=result), [x, w], params=direct(for_result(SCHEDULES[name], result))
    )
    frame = Frame(m, n, DTYPES[result], n + 2, 5)
    kernel(x, w, out=frame.out)
    frame.check(product(x, w, result))


@pytest.mark.parametrize("n", [1, 3, 17, 33, 101])
@pytest.mark.parametrize("result", ["bf16", "f16", "f32"])
def test_odd_columns(n: int, result: str) -> None:
    """What the heuristic chooses; one dimension of M is a tail, too."""
    operand = "f16" if result == "f16" else "bf16"
    x, w = integers(73, K, operand), integers(n, K, operand, seed=1)
    kernel = wsched.compile(definition(operand, result), [x, w])
    assert not kernel.params.use_smem_epilogue
    (d,) = kernel(x, w)
    assert d.is_contiguous() and torch.equal(d, product(x, w, result))


@pytest.mark.parametrize("result", ["bf16", "f32"])
def test_pairs(result: str) -> None:
    """Even rows that TMA does not take are stored two columns at a time."""
    x, w = integers(65, K), integers(34, K, seed=1)
    kernel = wsched.compile(
        definition(result=result), [x, w], params=direct(SCHEDULES["coop_128x64"], 2)
    )
    assert [g.align for g in kernel.kernel.globals] == [2 * DTYPES[result].itemsize]
    frame = Frame(65, 34, DTYPES[result], 38, 6)
    kernel(x, w, out=frame.out)
    frame.check(product(x, w, result))


def test_a_result_by_columns() -> None:
    """Its rows are those of the transposed product: M elements long."""
    text = definition().replace(
        "fd.add_output(d)", "s = fd.ops.stride_order(d, stride_order=[0, 1])\n    fd.add_output(s)"
    )
    x, w = integers(67, K), integers(24, K, seed=1)
    kernel = wsched.compile(text, [x, w])
    assert not kernel.params.use_smem_epilogue
    frame = Frame(24, 67, BF16, 69, 1)
    kernel(x, w, out=frame.out.T)
    frame.check(product(x, w).T)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["coop_128x256", "coop_3_groups", "pingpong_128x128"])
def test_the_machine_code_is_clean(name: str) -> None:
    """Single elements, with an epilogue: the kernels with most addresses beside accumulators."""
    params = direct(SCHEDULES[name])
    kernel = wsched.compile(GELU, [X, W, ROW], params=params)
    assert kernel.resources.clean, kernel.resources


@given(
    m=st.integers(1, 70),
    n=st.integers(1, 70),
    k=st.sampled_from([8, 24]),
    gap=st.integers(0, 5),
    start=st.integers(0, 9),
    name=st.sampled_from(["coop_128x64", "pingpong_64x128", "tile_per_cta"]),
    result=st.sampled_from(["bf16", "f32"]),
)
@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)
def test_any_place(m: int, n: int, k: int, gap: int, start: int, name: str, result: str) -> None:
    x, w = integers(m, k), integers(n, k, seed=1)
    vector = 2 if n % 2 == gap % 2 == start % 2 == 0 else 1
    params = direct(SCHEDULES[name], vector)
    frame = Frame(m, n, DTYPES[result], n + gap, start)
    wsched.compile(definition(result=result), [x, w], params=params)(x, w, out=frame.out)
    frame.check(product(x, w, result))


# --- with an epilogue -----------------------------------------------------------------------------

M, N = 70, 33
X, W = integers(M, 24), integers(N, 24, seed=1)
Y = X.to(F64) @ W.to(F64).T
ROW, FULL = integers(1, N, seed=2)[0], integers(M, N, seed=3)
PADDED = torch.zeros(M, 40, dtype=BF16)[:, :N].copy_(FULL)
SCHEDULED = {
    "heuristic": None,
    "cooperative": direct(cooperative(128, 64)),
    "ping_pong": direct(SCHEDULES["pingpong_64x128"]),
    "pipelined": direct(SCHEDULES["pipelined"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEDULED)
def test_a_residual_of_odd_rows_is_read_where_it_lies(name: str) -> None:
    """Small integers: exact."""
    params = SCHEDULED[name]
    if params is not None:
        params = replace(params, epilogue_input_stages=0)
    kernel = wsched.compile(RESIDUAL, [X, W, FULL], params=params)
    assert apart(kernel.fusion, [X, W, FULL]) == 0
    assert any(isinstance(s, FragLoadGlobal) for s in walk(kernel.kernel.body))
    (d,) = kernel(X, W, FULL)
    assert torch.equal(d.to(F64), Y + FULL.to(F64))


def test_a_residual_by_tma_and_a_result_from_registers() -> None:
    """The residual's rows are padded to what TMA takes, the new result's are not."""
    kernel = wsched.compile(RESIDUAL, [X, W, PADDED])
    nodes = list(walk(kernel.kernel.body))
    assert {s.src.map for s in nodes if isinstance(s, TmaLoad)} == {"T0", "T1", "T2"}
    assert not any(isinstance(s, TmaStore) for s in nodes)
    (d,) = kernel(X, W, PADDED)
    assert torch.equal(d.to(F64), Y + FULL.to(F64))


def test_several_results() -> None:
    y, d = wsched.compile(TWO_OUTPUTS, [X, W, ROW])(X, W, ROW)
    assert torch.equal(y.to(F64), Y)
    assert torch.equal(d.to(F64), torch.relu(Y + ROW.to(F64)))


def test_other_epilogues() -> None:
    (g,) = wsched.compile(GELU, [X, W, ROW])(X, W, ROW)
    wanted = torch.nn.functional.gelu(Y + ROW.to(F64), approximate="tanh")
    assert (g.to(F64) - wanted).norm() / wanted.norm() < 4e-3
    (d,) = wsched.compile(WHERE, [X, W, FULL])(X, W, FULL)
    full = FULL.to(F64)
    assert torch.allclose(d.to(F64), torch.where(full < Y, Y * 0.01, full), rtol=4e-3)


@pytest.mark.parametrize(
    "row",
    [ROW, torch.cat([ROW[:1], ROW])[1:], torch.stack([ROW, ROW], 1).flatten()[::2]],
    ids=["packed", "odd_start", "apart"],
)
def test_rows_of_odd_length(row: Any) -> None:
    text = epilogue("b: [-1]", "d = fd.ops.add(y, b)")
    (d,) = wsched.compile(text, [X, W, row])(X, W, row)
    assert torch.equal(d.to(F64), Y + row.to(F64))


def test_more_results_than_shared_memory_holds() -> None:
    """The buffers of twelve would leave no stages for the operands of a large tile."""
    lines = [f"d{n} = fd.ops.mul(y, {n}.0)" for n in range(12)]
    text = epilogue(*lines, outputs=" ".join(f"d{n}" for n in range(12)))
    w = integers(32, 24, seed=1)
    problem = Problem(72, 32, 24, DataType.BFloat16, (DataType.BFloat16,) * 12, 4, work=12)
    params = next(p for _, p in ranked(problem) if not p.use_smem_epilogue)
    kernel = wsched.compile(text, [X, w], params=params)
    y = X.to(F64) @ w.to(F64).T
    for factor, d in enumerate(kernel(X, w)):
        assert torch.equal(d.to(F64), factor * y)


# --- which way ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "smem", "vector"), [(64, True, 2), (36, False, 2), (33, False, 1)])
def test_the_rows_decide(n: int, smem: bool, vector: int) -> None:
    x, w = integers(72, 24), integers(n, 24)
    kernel = wsched.compile(definition(), [x, w])
    assert kernel.params.use_smem_epilogue is smem
    assert kernel.params.supported_vec_size.epilogue == vector
    stores = {type(s) for s in walk(kernel.kernel.body)} & {TmaStore, FragStoreGlobal}
    assert stores == {TmaStore if smem else FragStoreGlobal}


def test_an_input_decides_the_width() -> None:
    text = epilogue("b: [-1]", "d = fd.ops.add(y, b)")
    x, w, row = integers(72, 24), integers(64, 24), integers(1, 65)[0]
    assert wsched.compile(text, [x, w, row[:64]]).params.supported_vec_size.epilogue == 2
    kernel = wsched.compile(text, [x, w, row[1:]])
    assert kernel.params.supported_vec_size.epilogue == 1 and kernel.params.use_smem_epilogue
    (d,) = kernel(x, w, row[1:])
    assert torch.equal(d, product(x, w, "f32") + row[1:].float())


def test_explained() -> None:
    found = {c.name: c.reason for c in wsched.explain(definition(), [X, W]).choices}
    assert found["use_smem_epilogue"] == (
        "results from registers: rows of 33 BFloat16 elements are 66 bytes, which TMA does not "
        "store: no multiple of 16"
    )
    assert found["supported_vec_size.epilogue"] == (
        "threads access single elements, not pairs: rows of 33 elements, which is odd"
    )
    assert "use_smem_epilogue" not in {
        c.name for c in wsched.explain(definition(), [X, integers(32, 24)]).choices
    }


# --- refusals -------------------------------------------------------------------------------------

REGISTERS = "use_smem_epilogue=False makes a kernel whose threads store results of any stride"
ONE = (
    "supported_vec_size=SupportedVectorization(epilogue=1), or configure(vector=1) of a schedule "
    "written call by call, makes a kernel that takes any"
)


@pytest.mark.parametrize(
    ("smem", "vector", "frame", "text"),
    [
        (True, 2, (33, 0),
         "output 0 with 66 bytes from row to row is not supported; supported: positive multiples "
         f"of 16 bytes. {REGISTERS}"),
        (True, 2, (40, 1),
         "output 0 that starts 2 bytes past a multiple of 16 is not supported; supported: starts "
         f"at multiples of 16 bytes. {REGISTERS}"),
        (False, 2, (33, 0),
         "output 0 with 32 columns, 33 elements from row to row and a start 0 bytes past a "
         "multiple of two elements, stored two at once, is not supported; supported: multiples of "
         f"two elements. {ONE}"),
    ],
)  # fmt: skip
def test_an_out_that_the_kernel_cannot_store(
    smem: bool, vector: int, frame: tuple[int, int], text: str
) -> None:
    """A kernel is fixed; the message says which one takes it."""
    w = integers(32, 24)
    params = replace(direct(SCHEDULES["coop_128x64"], vector), use_smem_epilogue=smem)
    kernel = wsched.compile(definition(), [X, w], params=params)
    with pytest.raises(UnsupportedError) as error:
        kernel(X, w, out=Frame(M, 32, BF16, *frame).out)
    assert str(error.value) == text


def test_an_out_with_rows_that_overlap() -> None:
    kernel = wsched.compile(definition(), [X, integers(32, 24)], params=SCHEDULES["coop_128x64"])
    with pytest.raises(InputError, match=r"out\[0\] has several elements at one address"):
        kernel(X, integers(32, 24), out=Frame(M, 32, BF16, 31, 0).out)


def test_an_out_that_the_kernel_of_a_schedule_by_hand_cannot_store() -> None:
    """It has no parameters to change; what it does without is a copy."""
    w = integers(32, 24)
    s = wsched.Schedule.of(definition(), SCHEDULES["coop_128x64"])
    kernel = wsched.compile(s, [X, w])
    with pytest.raises(UnsupportedError) as error:
        kernel(X, w, out=Frame(M, 32, BF16, 33, 0).out)
    assert str(error.value) == (
        "output 0 with 66 bytes from row to row is not supported; supported: positive multiples "
        "of 16 bytes. Store the result with Set from registers, without the copy in shared "
        "memory: then threads store results of any stride"
    )


def test_an_input_of_odd_columns_for_a_kernel_that_reads_pairs() -> None:
    text = epilogue("b: [-1]", "d = fd.ops.add(y, b)")
    params = direct(SCHEDULES["coop_128x64"], 2)
    with pytest.raises(UnsupportedError) as error:
        wsched.compile(text, [X, W, ROW], params=params)(X, W, ROW)
    assert str(error.value) == (
        f"input 2 with 33 columns is not supported; supported: an even number of columns. {ONE}"
    )


def test_other_widths() -> None:
    with pytest.raises(ScheduleError) as error:
        wsched.compile(definition(), [X, W], params=direct(SCHEDULES["coop_128x64"], 4))
    assert "supported_vec_size.epilogue=4: a thread holds two columns" in str(error.value)
