"""Results of 8 bits, with the largest absolute value beside them: every family, bit by bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import wsched
from lowering.ground.errors import ScheduleError
from lowering.kernel.nodes import FragStoreGlobal, StMatrix, StShared
from lowering.kernel.visit import walk
from tests.mutants.launches import integers
from tests.narrow_results import AMAX, LARGEST, definition, expected
from tests.schedules import SCHEDULES
from wsched.run.compiled import CompiledFusion
from wsched.run.mlir import through_mlir
from wsched.schedule.matmul.params import MatmulParams

torch = pytest.importorskip("torch", reason="torch is not installed")

E4M3, E5M2 = LARGEST
BY_TMA = (
    "coop_128x128", "coop_128x256", "tile_per_cta", "cluster_2x2", "pingpong_64x128", "pipelined",
    "dynamic_1_group", "split_2", "stream_k", "across_pipelined",
)  # fmt: skip
BY_THREADS = ("coop_narrow", "exchanged", "exchanged_boxes", "coop_128x128", "stream_k")
SIDE_BY_SIDE = ("across_pipelined",)
"""Warpgroups along N, of which none has all columns that are reduced."""

Call = tuple[CompiledFusion, list[Any]]


def made(
    to: str, params: MatmulParams | None, *more: str, sizes: tuple[int, int, int] = (200, 144, 136),
    scale: float = 12.5, **options: Any,
) -> Call:  # fmt: skip
    m, n, k = sizes
    inputs = [integers(0, m, k), integers(1, n, k), torch.tensor([[scale]])]
    return wsched.compile(definition(to, *more), inputs, params=params, **options), inputs


def right(call: Call, to: str, amax: bool = False) -> None:
    """All bits; the largest value before scale and cast."""
    kernel, (x, w, scale) = call
    found = kernel(x, w, scale)
    wanted = expected(x, w, scale.item(), to)
    assert torch.equal(found[0].float(), wanted)
    assert (wanted.abs() == LARGEST[to]).any() == (to == E4M3)
    if amax:
        assert found[1].shape == () and found[1] == (x.float() @ w.float().T).abs().max()


@pytest.mark.sampled
@pytest.mark.parametrize("name", BY_TMA)
@pytest.mark.parametrize("to", LARGEST)
def test_through_shared_memory(name: str, to: str) -> None:
    amax = name not in SIDE_BY_SIDE
    call = made(to, SCHEDULES[name], *AMAX[: 2 * amax])
    stores = [s for s in walk(call[0].kernel.body) if isinstance(s, StShared | StMatrix)]
    assert all(isinstance(s, StShared) for s in stores) and stores
    right(call, to, amax)


@pytest.mark.sampled
@pytest.mark.parametrize("name", BY_THREADS)
@pytest.mark.parametrize("columns", [144, 134, 131])
def test_by_threads(name: str, columns: int) -> None:
    """Two elements at once, where rows are even, or one."""
    pairs = replace(SCHEDULES[name].supported_vec_size, epilogue=1 + (columns % 2 == 0))
    params = replace(SCHEDULES[name], use_smem_epilogue=False, supported_vec_size=pairs)
    call = made(E4M3, params, sizes=(200, columns, 136))
    assert any(isinstance(s, FragStoreGlobal) for s in walk(call[0].kernel.body))
    right(call, E4M3)


@pytest.mark.sampled
@pytest.mark.parametrize("columns", [8, 16, 24, 40, 72, 96, 131, 134, 520])
def test_what_the_scheduler_chooses(columns: int) -> None:
    """TMA stores rows of whole 16 bytes, of the tensor and of a chunk."""
    call = made(E4M3, None, *AMAX, sizes=(200, columns, 136))
    boxed = call[0].params.use_smem_epilogue
    assert not boxed or columns % 16 == 0
    right(call, E4M3, amax=True)


@pytest.mark.sampled
@pytest.mark.parametrize("name", [*BY_TMA, *BY_THREADS])
def test_machine_code(name: str) -> None:
    """Nothing spills, and nothing is converted by a call."""
    amax = name not in (*SIDE_BY_SIDE, *BY_THREADS)
    params = replace(SCHEDULES[name], use_smem_epilogue=name in BY_TMA)
    kernel, _ = made(E4M3, params, *AMAX[: 2 * amax])
    assert kernel.resources.clean
    assert "cvt.rn.satfinite.e4m3x2.f32" in kernel.source


@pytest.mark.slow
@pytest.mark.parametrize("name", ["coop_128x128", "pingpong_64x128", "split_2", "stream_k"])
def test_proved(name: str) -> None:
    assert made(E4M3, SCHEDULES[name], *AMAX)[0].proof().proved


def test_proved_where_threads_store() -> None:
    params = replace(SCHEDULES["coop_narrow"], use_smem_epilogue=False)
    assert made(E5M2, params)[0].proof().proved


@pytest.mark.parametrize("columns", [144, 134, 131])
def test_by_way_of_mlir(columns: int) -> None:
    pytest.importorskip("triton", reason="Triton is not installed")
    kernel, _ = made(E4M3, None, sizes=(200, columns, 136))
    assert through_mlir(kernel).resources.clean


@pytest.mark.parametrize("columns", [72, 144])
def test_in_tensor_memory(columns: int) -> None:
    call = made(E4M3, None, sizes=(200, columns, 136), target="sm_100a")
    right(call, E4M3)
    assert call[0].resources.clean


def test_what_is_no_number_stays_so() -> None:
    """NaN is NaN, infinity the largest number; the largest absolute value is NaN then."""
    kernel, (x, w, _) = made(E4M3, None, *AMAX)
    x[3, 0], x[5] = torch.nan, torch.inf
    w[:, 0] = 1.0
    w[0] = 1.0
    found, amax = kernel(x, w, torch.tensor([[-1.0]]))
    assert found[3].isnan().all() and found[5, 0] == -448.0 and amax.isnan()


def test_the_largest_value_is_of_the_rounded_product() -> None:
    """As the definition says, which the scale is of, too: sums of multiples of 1/64 are exact."""
    kernel, (x, w, scale) = made(E4M3, None, *AMAX, scale=0.5)
    torch.manual_seed(0)
    x, w = (torch.randint(-40, 41, t.shape).bfloat16() / 8 for t in (x, w))
    exact = x.float() @ w.float().T
    rounded = exact.bfloat16().float()
    found, amax = kernel(x, w, scale)
    assert amax == rounded.abs().max() != exact.abs().max()
    assert torch.equal(found.float(), (rounded / 2).to(torch.float8_e4m3fn).float())


def test_nothing_is_nothing() -> None:
    """No rows, no largest value; no K, all zero."""
    found, amax = (lambda k, i: k(*i))(*made(E4M3, None, *AMAX, sizes=(0, 16, 64)))
    assert found.shape == (0, 16) and amax == -torch.inf
    found, amax = (lambda k, i: k(*i))(*made(E4M3, None, *AMAX, sizes=(32, 16, 0)))
    assert not found.float().any() and amax == 0.0


def test_chunks_too_narrow_for_tma() -> None:
    with pytest.raises(ScheduleError) as error:
        made(E4M3, SCHEDULES["coop_narrow"])
    assert error.value.why == (
        "use_smem_epilogue=True: chunks of 8 columns of Float8_e4m3fn are rows of 8 bytes, TMA "
        "stores multiples of 16"
    )


def test_what_is_transposed_threads_store() -> None:
    with pytest.raises(ScheduleError) as error:
        made(E4M3, SCHEDULES["exchanged"])
    assert "stmatrix transposes 16-bit elements, a result is Float8_e4m3fn" in error.value.why


KIND = "fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)"
COMPUTED = f"""\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = {KIND}
    w = {KIND}
    f = fd.ops.cast(fd.ops.linear(x, w), dtype=DataType.Float)
    t = fd.ops.div(448.0, fd.ops.max(fd.ops.abs(f), dims=DIMS, keepdim=True))
    q = fd.ops.cast(fd.ops.mul(f, t), dtype=DataType.RESULT)
    fd.add_output(q)
    fd.add_output(t)
"""


@pytest.mark.parametrize("dims", [(0, 1), (1,), (0,)])
@pytest.mark.parametrize("to", [E4M3, "BFloat16"])
def test_a_computed_scale(dims: tuple[int, ...], to: str) -> None:
    """Of the largest value of all, of each row or each column: a kernel reduces, one divides what
    is left and keeps its dimensions, and one scales and rounds.
    """
    text = COMPUTED.replace("DIMS", str([*dims])).replace("RESULT", to)
    x, w = integers(0, 40, 72), integers(1, 48, 72)
    found = wsched.explain(text, [x, w])
    assert "reductions that are results" in str(found) and "torch:" not in str(found)
    q, t = wsched.execute(text, [x, w])
    product = x.float() @ w.float().T
    wanted = 448.0 / product.abs().amax(dims, keepdim=True)
    assert t.shape == wanted.shape and torch.allclose(t, wanted, rtol=1e-6)
    kind = torch.bfloat16 if to == "BFloat16" else getattr(torch, to.lower())
    assert torch.equal(q.float(), (product * t).to(kind).float())
