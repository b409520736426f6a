"""Several products in one kernel, from a definition to results and machine code."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lowering.cuda import nvrtc
from lowering.ground.errors import ScheduleError, UnsupportedError
from lowering.ground.expr import evaluate
from lowering.machine import run_kernel
from tests.conftest import Golden
from tests.importer.test_build import COLUMNS, X, build
from tests.importer.test_several import GATED, XGU
from tests.legality.machine import NUMPY
from tests.schedule.gated import gated, scheduled
from tests.schedules import cooperative, dynamic, ping_pong, pipelined, split_k
from wsched.choose.heuristics import candidates
from wsched.choose.nvfuser_cost import cublas_us
from wsched.choose.problem import Problem
from wsched.front.known import import_fusion
from wsched.front.sizes import Extents
from wsched.fusion import Fusion
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.run.registers import compile_clean
from wsched.schedule.loops import loops_text
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.matmul.scheduler import schedule_matmul
from wsched.schedule.registers import require_registers

WAYS = {
    "cooperative": cooperative(128, 64, stages=3),
    "ping_pong": ping_pong(64, 64, stages=3),
    "side_by_side": cooperative(64, 128, stages=3, across=2),
    "cluster": cooperative(128, 64, stages=3, cluster=(2, 1)),
    "cluster_of_rows": cooperative(128, 64, stages=3, cluster=(1, 2)),
    "pipelined": pipelined(cooperative(128, 64, stages=3)),
    "tile_for_each_cta": cooperative(64, 32, stages=3, groups=1, persistent=False, registers=None),
    "dynamic": dynamic(cooperative(128, 64, stages=3)),
    "waiting": cooperative(128, 64, stages=3, in_flight=0),
}

SUM_OF_THREE = (
    *XGU, f"v = {X}", "a = fd.ops.linear(x, g)", "b = fd.ops.linear(x, u)",
    "c = fd.ops.linear(x, v)", "d = fd.ops.add(a, b)", "e = fd.ops.sub(d, c)",
    "r = fd.ops.cast(e, dtype=DataType.BFloat16)",
)  # fmt: skip
DIFFERENCE = (*XGU, "a = fd.ops.linear(x, u)", "b = fd.ops.linear(g, u)", "d = fd.ops.sub(a, b)")
WITH_COLUMNS = (
    f"x = {X}", f"g = {COLUMNS}", f"u = {COLUMNS}", "a = fd.ops.matmul(x, g)",
    "b = fd.ops.matmul(x, u)", "d = fd.ops.mul(a, b)",
    "r = fd.ops.cast(d, dtype=DataType.BFloat16)",
)  # fmt: skip


def ran(made: CompiledFusion, m: int, n: int, k: int, sms: int) -> tuple[list[object], object]:
    """The inputs, small integers, and the result that the machine has of them."""
    rng, size, f = np.random.default_rng(m), {"M": m, "N": n, "K": k}, made.fusion
    given = [
        rng.integers(-1, 2, [size[x] for x in b.axes]).astype(NUMPY[b.dtype]) for b in f.inputs
    ]
    arrays = {
        b.tensor: x.T.copy() if b.axes == ("K", "N") else x
        for b, x in zip(f.inputs, given, strict=True)
    }
    (out,) = f.outputs
    arrays[out.tensor] = np.full((m, n), np.nan, NUMPY[out.dtype])
    run_kernel(made.kernel, arrays, size, evaluate(made.kernel.grid, size | {"sms": sms}))
    return [x.astype(np.float32) for x in given], arrays[out.tensor]


def product(made: Fusion) -> Fusion:
    """Of the gated MLP with ``relu``, which is exact."""
    exprs = tuple(replace(e, op="relu") if getattr(e, "op", "") == "silu" else e
                  for e in made.exprs)  # fmt: skip
    return replace(made, exprs=exprs)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", WAYS)
def test_gate_and_up(name: str) -> None:
    made = compile_fusion(product(build(*GATED)), WAYS[name])
    for size in ((201, 136, 200, 2), (60, 72, 24, 5)):
        (x, g, u), found = ran(made, *size)
        wanted = np.maximum(x @ g.T, 0) * (x @ u.T)
        assert np.array_equal(found, wanted.astype(found.dtype))


@pytest.mark.parametrize("name", ["cooperative", "ping_pong"])
def test_three_products_of_one_a(name: str) -> None:
    made = compile_fusion(build(*SUM_OF_THREE), WAYS[name])
    (x, g, u, v), found = ran(made, 150, 72, 136, 3)
    wanted = x @ g.T + x @ u.T - x @ v.T
    assert np.array_equal(found, wanted.astype(found.dtype))


def test_products_of_one_b() -> None:
    made = compile_fusion(build(*DIFFERENCE), WAYS["cluster_of_rows"])
    assert len(made.fusion.loads) == 3
    (x, g, u), found = ran(made, 150, 72, 136, 4)
    # Each product has its type, so it is rounded before it is read.
    wanted = (x @ u.T).astype(found.dtype).astype(np.float32) - (g @ u.T).astype(
        found.dtype
    ).astype(np.float32)
    assert np.array_equal(found, wanted.astype(found.dtype))


def test_n_major_operands() -> None:
    made = compile_fusion(build(*WITH_COLUMNS), WAYS["cooperative"])
    (x, g, u), found = ran(made, 150, 72, 136, 3)
    assert np.array_equal(found, ((x @ g) * (x @ u)).astype(found.dtype))


def test_the_schedule(golden: Golden) -> None:
    assert loops_text(schedule_matmul(build(*GATED), WAYS["ping_pong"])) == golden


# --- what is too much -----------------------------------------------------------------------------


def refused(params: MatmulParams) -> str:
    with pytest.raises((ScheduleError, UnsupportedError)) as error:
        schedule_matmul(build(*GATED), params)
    return str(error.value)


def test_registers_of_both() -> None:
    assert refused(cooperative(128, 256, stages=2)).endswith(
        "256 accumulators of 2 products and 44 registers for this epilogue a thread exceed 232"
    )


def test_stages_of_all_operands() -> None:
    assert refused(cooperative(128, 128, stages=5)).splitlines()[0] == (
        "ScheduleError[smem]: smem_circular_buffer_stage=5: 5 stages of 48 KiB + epilogue 16 KiB + "
        "barriers 1 KiB = 257 KiB, limit 227 KiB"
    )


def test_parts_of_k() -> None:
    assert refused(split_k(cooperative(128, 64, stages=3), 2)) == (
        "2 products of which CTAs add up parts is not supported; supported: one, or whole tiles"
    )


def test_registers_of_a_schedule_by_calls() -> None:
    made = scheduled(gated(), n=256, stages=3).plan()
    with pytest.raises(ScheduleError) as error:
        require_registers(made)
    assert str(error.value).splitlines()[0] == (
        "ScheduleError[registers]: T4: m64 1 * m 64 * Ni 256 and T8: m64 1 * m 64 * Ni 256: 256 "
        "accumulators of a thread and 28 other registers exceed the 168 of a thread, of 384 in a "
        "CTA"
    )
    require_registers(scheduled(gated()).plan())


# --- what is chosen -------------------------------------------------------------------------------


def problem(*lines: str, m: int = 8192, n: int = 14336, k: int = 4096) -> Problem:
    return Extents(m, n, k).problem(build(*lines), 132)


def test_candidates_hold_all_accumulators() -> None:
    asked = problem(*GATED)
    assert (asked.a_count, asked.b_count, asked.products) == (1, 2, 2)
    found = candidates(asked)
    assert len({c.params.output_tile for c in found}) > 20
    assert all(c.params.splitk_factor == 1 for c in candidates(problem(*GATED, m=64, n=256)))
    for c in found:
        warp = c.params.tile_sizes.warp_tile
        assert 2 * warp.m * warp.n <= 128 * 208
    bare = replace(asked, n=2 * asked.n, b_count=1)
    least = min(c.cost.by_laws for c in candidates(bare))
    assert 0.97 < found[0].cost.us / least < 1.05
    assert cublas_us(asked) == 2 * cublas_us(replace(asked, b_count=1))


@pytest.mark.slow
def test_the_chosen_one_compiles_clean() -> None:
    if nvrtc.nvrtc_version() is None:
        pytest.skip("needs NVRTC")
    text = "\n".join(
        ["def f(fd: FusionDefinition):", *(f"    {s}" for s in GATED), "    fd.add_output(e)", ""]
    )
    fusion = import_fusion(text)
    for m in (8192, 512):
        found = candidates(Extents(m, 14336, 4096).problem(fusion, 132))[0]
        assert compile_clean(fusion, found.params).resources.clean
