"""Schedules of every family with operands of 8 bits: on the machine, and to machine code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import wsched
from lowering.cuda.nvrtc import compile_cubin
from lowering.cuda.resources import read_resources
from lowering.ground.errors import ScheduleError, WschedError
from lowering.kernel.nodes import For, FragLoadGlobal, FragUpdate
from lowering.kernel.visit import walk
from tests.schedules import SCHEDULES
from tests.tiers import in_tiers
from wsched.front.scaled import int_mm_call, scaled_mm_call
from wsched.schedule.matmul.params import GemmTile, MatmulParams, MatMulTileOptions, MmaMacro

torch = pytest.importorskip("torch", reason="torch is not installed")

FAMILIES = (
    "coop_128x128", "coop_k128", "coop_in_flight_2", "coop_narrow", "tile_per_cta", "cluster_2x2",
    "pingpong_64x128", "pipelined", "dynamic_1_group", "split_2", "stream_k", "across_pipelined",
)  # fmt: skip
ONE = torch.ones(())


def narrow(params: MatmulParams) -> MatmulParams:
    """The same bytes of K in a step."""
    tiles = params.tile_sizes
    cta, warp = (replace(t, k=2 * t.k) for t in (tiles.cta_tile, tiles.warp_tile))
    return replace(params, tile_sizes=MatMulTileOptions(cta, warp))


def operands(dtype: Any, m: int = 200, n: int = 144, k: int = 1088) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(3)
    if dtype is torch.int8:
        a, w = (torch.randint(-128, 128, (x, k), dtype=dtype, generator=generator) for x in (m, n))
    else:
        a, w = (torch.randn(x, k, generator=generator).to(dtype) for x in (m, n))
    return a, w.t()


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("name", in_tiers(FAMILIES, FAMILIES[::2]))
def test_floats(name: str) -> None:
    a, b = operands(torch.float8_e4m3fn)
    params = replace(narrow(SCHEDULES[name]), use_smem_epilogue=name != "coop_narrow")
    call = scaled_mm_call(a, b, ONE, ONE, out_dtype=torch.bfloat16)
    kernel = wsched.compile(*call, params=params)
    assert any(isinstance(s, FragUpdate) for s in walk(kernel.kernel.body))
    wanted = a.double() @ b.double()
    assert (kernel(*call[1])[0] - wanted).norm() < 4e-3 * wanted.norm()


@pytest.mark.sampled
@pytest.mark.parametrize("name", FAMILIES)
def test_integers(name: str) -> None:
    a, b = operands(torch.int8)
    params = replace(narrow(SCHEDULES[name]), use_smem_epilogue=name != "coop_narrow")
    kernel = wsched.compile(*int_mm_call(a, b), params=params)
    assert torch.equal(kernel(a, b)[0].double(), a.double() @ b.double())


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["coop_128x128", "coop_k128", "pingpong_64x128", "split_2"])
@pytest.mark.parametrize("integers", [False, True])
def test_machine_code(name: str, integers: bool) -> None:
    a, b = operands(torch.int8 if integers else torch.float8_e4m3fn)
    call = int_mm_call(a, b) if integers else scaled_mm_call(a, b, ONE, ONE)
    kernel = wsched.compile(*call, params=narrow(SCHEDULES[name]))
    assert read_resources(compile_cubin(kernel.source), kernel.kernel.name).clean


@pytest.mark.slow
@pytest.mark.parametrize(("name", "whole"), [("coop_128x128", True), ("coop_128x256", False)])
def test_scales_are_loaded_once(name: str, whole: bool) -> None:
    """All columns of a tile where registers are left beside the accumulators, else a chunk ahead;
    rows always.
    """
    a, b = operands(torch.float8_e4m3fn)
    rows, columns = torch.rand(200, 1), torch.rand(1, 144)
    call = scaled_mm_call(a, b, rows, columns, use_fast_accum=not whole)
    kernel = wsched.compile(*call, params=narrow(SCHEDULES[name]))
    loads = [s for s in walk(kernel.kernel.body) if isinstance(s, FragLoadGlobal)]
    chunks = [
        s for loop in walk(kernel.kernel.body) if isinstance(loop, For) and loop.unroll
        for s in walk(loop.body) if isinstance(s, FragLoadGlobal)
    ]  # fmt: skip
    assert (len(loads), len(chunks)) == ((2, 0) if whole else (3, 1))
    carried = {
        c.var.name for s in walk(kernel.kernel.body) if isinstance(s, For) for c in s.carries
    }
    assert not carried & {s.out.name for s in loads}
    wanted = a.double() @ b.double() * rows * columns
    assert (kernel(*call[1])[0] - wanted).norm() < 4e-3 * wanted.norm()
    assert read_resources(compile_cubin(kernel.source), kernel.kernel.name).clean


def test_registers_for_vectors_are_counted_from_zero() -> None:
    a, b = operands(torch.float8_e4m3fn)
    schedule = wsched.Schedule.of(scaled_mm_call(a, b, ONE, ONE)[0], narrow(SCHEDULES["split_2"]))
    assert schedule.options.vector_registers > 0
    with pytest.raises(ScheduleError) as error:
        schedule.configure(vector_registers=-1)
    assert str(error.value) == (
        "ScheduleError[configure]: configure(vector_registers=-1): -1 registers\n"
        "  legal here: 0 and more"
    )


def refusal(params: MatmulParams, *, k_major: bool = True, **more: Any) -> str:
    a, b = operands(torch.float8_e4m3fn)
    text, inputs = scaled_mm_call(a, b, ONE, ONE)
    if not k_major:
        text = text.replace(", stride_order=[0, 1]", "")
    with pytest.raises(ScheduleError) as error:
        if k_major:
            wsched.compile(text, inputs, params=params, **more)
        else:
            wsched.Schedule.of(text, params)
    return error.value.why


def test_the_second_accumulator_takes_registers() -> None:
    """What the tensor core alone would have room for."""
    assert refusal(narrow(SCHEDULES["coop_128x256"])) == (
        "256 accumulators with those that sums are promoted from and 28 other registers a thread "
        "exceed 232"
    )


def test_columns_are_those_of_the_instruction() -> None:
    """Of integers there are fewer than of floats."""
    a, b = operands(torch.int8)
    params = SCHEDULES["coop_128x128"]
    cta, warp = GemmTile(128, 40, 128), GemmTile(64, 40, 128)
    tiles = MatMulTileOptions(cta, warp)
    params = replace(params, tile_sizes=tiles, mma_macro=MmaMacro(n=40), epilogue_stages=1)
    with pytest.raises(ScheduleError) as error:
        wsched.compile(*int_mm_call(a, b), params=params)
    assert error.value.why == (
        "N of a wgmma of s8 by s8 is 8, 24, or a multiple of 16 from 16 to 256, not 40"
    )
    floats = operands(torch.float8_e4m3fn)
    kernel = wsched.compile(*scaled_mm_call(*floats, ONE, ONE), params=params)
    assert kernel.params.mma_macro.n == 40


def test_k_is_counted_in_32s() -> None:
    params = SCHEDULES["coop_128x128"]
    tiles = params.tile_sizes
    cta, warp = (replace(t, k=48) for t in (tiles.cta_tile, tiles.warp_tile))
    assert "the tile's k 48 is no multiple of 32, wgmma's of Float8_e4m3fn" in refusal(
        replace(params, tile_sizes=MatMulTileOptions(cta, warp))
    )


def test_k_is_contiguous() -> None:
    """In a schedule that no tensors are given to; those of a call would be copied."""
    assert refusal(narrow(SCHEDULES["coop_128x128"]), k_major=False) == (
        "wgmma reads Float8_e4m3fn with K contiguous, an operand has N"
    )


def test_batch_invariant_schedules_promote_alike() -> None:
    assert refusal(SCHEDULES["coop_128x128"], batch_invariant=True) == (
        "the tile's k 64 is no multiple of 128, after which sums are promoted in every "
        "batch-invariant schedule"
    )


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_floats_in_tensor_memory(dtype: Any) -> None:
    """Sums are those of fp32 there, so nothing is promoted."""
    a, _ = operands(torch.float8_e4m3fn, 136, 8, 272)
    _, b = operands(dtype, 8, 72, 272)
    call = scaled_mm_call(a, b, ONE, ONE, out_dtype=torch.bfloat16)
    kernel = wsched.compile(*call, target="sm_100a")
    assert not any(isinstance(s, FragUpdate) for s in walk(kernel.kernel.body))
    wanted = a.double() @ b.double()
    assert (kernel(*call[1])[0] - wanted).norm() < 4e-3 * wanted.norm()
    compiled = compile_cubin(kernel.source, arch="sm_100a")
    assert read_resources(compiled, kernel.kernel.name).clean
    assert ".kind::f8f6f4" in kernel.source


def test_integers_have_no_form_in_tensor_memory() -> None:
    a, b = operands(torch.int8, 8, 8, 32)
    with pytest.raises(WschedError, match=r"tcgen05\.mma of s8 by s8 on sm_100a is not"):
        wsched.compile(*int_mm_call(a, b), target="sm_100a")
