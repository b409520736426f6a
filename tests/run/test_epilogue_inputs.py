"""Matrices that the epilogue reads: loaded by warps of the load warpgroup, or by threads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lowering.ground.expr import evaluate
from lowering.kernel.nodes import FragLoadGlobal, LdMatrix, LdShared, MBarrierWait, OnWarp, TmaLoad
from lowering.kernel.visit import walk
from lowering.machine import run_kernel
from lowering.machine.adversary import Adversary
from tests.epilogues import RESIDUAL, epilogue
from tests.on_machine import NUMPY, Problem
from tests.schedules import SCHEDULES, for_result
from wsched.front.known import import_fusion
from wsched.fusion import DataType
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.schedule.matmul.epilogue_inputs import MAX_LOADED

TYPES = {DataType.BFloat16: "bf16", DataType.Half: "f16", DataType.Float: "f32"}

WIDE = epilogue("r: [-1, -1] Float", "s = fd.ops.add(y, r)", "d = fd.ops.cast(s, "
                "dtype=DataType.BFloat16)")  # fmt: skip
WIDE_RESULT = epilogue("r: [-1, -1]", "f = fd.ops.cast(y, dtype=DataType.Float)",
                       "d = fd.ops.add(f, r)")  # fmt: skip
TWO = epilogue("r: [-1, -1] Float", "q: [-1, -1]", "s = fd.ops.mul(y, q)", "t = fd.ops.add(s, r)",
               "d = fd.ops.cast(t, dtype=DataType.BFloat16)")  # fmt: skip
FOUR = epilogue("b: [-1]", "r: [-1, -1]", "q: [-1, -1]", "p: [-1, -1]", "o: [-1, -1]",
                "s = fd.ops.add(y, r)", "t = fd.ops.add(s, q)", "u = fd.ops.add(t, p)",
                "v = fd.ops.add(u, o)", "v2 = fd.ops.add(v, b)",
                "d = fd.ops.cast(v2, dtype=DataType.BFloat16)")  # fmt: skip


def kernel(text: str, schedule: str, **changes: Any) -> CompiledFusion:
    """The kernel of a definition, with the stages that fit."""
    fusion = import_fusion(text)
    inputs = tuple(TYPES[b.dtype] for b in fusion.inputs[2:] if len(b.axes) == 2)[:MAX_LOADED]
    params = replace(SCHEDULES[schedule], **changes)
    inputs = inputs if params.loads_epilogue_inputs else ()
    return compile_fusion(fusion, for_result(params, TYPES[fusion.outputs[0].dtype], inputs=inputs))


def run(
    k: CompiledFusion, p: Problem, *, seed: int = 0, adversary: Adversary = "random"
) -> tuple[Any, list[Any]]:
    """The result, poisoned with NaN before, and the inputs: integers in [-2, 2]."""
    rng = np.random.default_rng(seed)
    extents = {"M": p.m, "N": p.n, "K": p.k}
    arrays = [
        rng.integers(-2, 3, tuple(extents[a] for a in b.axes)).astype(NUMPY[TYPES[b.dtype]])
        for b in k.fusion.inputs
    ]
    (out,) = k.fusion.outputs
    d = np.full((p.m, p.n), np.nan, NUMPY[TYPES[out.dtype]])
    tensors = dict(zip((b.tensor for b in k.fusion.inputs), arrays, strict=True))
    tensors = {name: a if a.ndim == 2 else a[None] for name, a in tensors.items()}
    run_kernel(
        k.kernel,
        tensors | {out.tensor: d},
        extents,
        evaluate(k.kernel.grid, extents | {"sms": p.sms}),
        seed=seed,
        adversary=adversary,
    )
    return d.astype(np.float32), [a.astype(np.float32) for a in arrays]


def problems(k: CompiledFusion) -> list[Problem]:
    """One tile (in ping-pong an idle group); tails with an odd number of tiles; no k step."""
    t = k.params.output_tile
    ctas = k.params.cluster_dims.m * k.params.cluster_dims.n
    return [
        Problem(t.m, t.n, 64, ctas),
        Problem(2 * t.m + 9, t.n + 8, t.k + 8, 2 * ctas),
        Problem(t.m + 1, t.n, 0, ctas),
    ]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "schedule",
    ["coop_128x256", "coop_128x64", "coop_3_groups", "coop_1_group", "tile_per_cta",
     "cluster_2x1", "cluster_2x2", "cluster_tile_per_cta", "cluster_pingpong",
     "pingpong_128x128", "pingpong_64x128"],
)  # fmt: skip
def test_residual(schedule: str) -> None:
    k = kernel(RESIDUAL, schedule)
    for p in problems(k):
        for adversary in ("lazy", "random"):
            d, (a, b, r) = run(k, p, adversary=adversary)
            wanted = (a @ b.T + r).astype(NUMPY["bf16"]).astype(np.float32)
            assert np.array_equal(d, wanted), (p, adversary)


@pytest.mark.sampled
@pytest.mark.parametrize("schedule", ["coop_128x128", "tile_per_cta", "pingpong_64x128"])
@pytest.mark.parametrize("text", [WIDE, WIDE_RESULT, TWO, FOUR])
def test_types_and_numbers_of_inputs(text: str, schedule: str) -> None:
    k = kernel(text, schedule)
    for p in problems(k)[:2]:
        d, (a, b, *more) = run(k, p)
        y = a @ b.T
        wanted = y * more[1] + more[0] if text is TWO else y + sum(more)
        wanted = wanted.astype(NUMPY[TYPES[k.fusion.outputs[0].dtype]]).astype(np.float32)
        assert np.array_equal(d, wanted), p


@pytest.mark.parametrize("stages", [1, 3])
def test_other_numbers_of_stages(stages: int) -> None:
    k = kernel(RESIDUAL, "pingpong_64x128", epilogue_input_stages=stages)
    d, (a, b, r) = run(k, problems(k)[1])
    assert np.array_equal(d, (a @ b.T + r).astype(NUMPY["bf16"]).astype(np.float32))


# --- structure ------------------------------------------------------------------------------------


def load_warps(k: CompiledFusion) -> list[set[str]]:
    """The tensors that each warp of the load role loads."""
    role = next(r for s in k.kernel.body for r in getattr(s, "roles", ()) if r.name == "load")
    warps = [s for s in role.body if isinstance(s, OnWarp)]
    assert [(s.of, s.index) for s in warps] == [("warpgroup.warp", n) for n in range(len(warps))]
    return [{x.src.map for x in walk(s.body) if isinstance(x, TmaLoad)} for s in warps]


def test_a_load_warp_fills_it() -> None:
    """Warp 0 loads the operands, warp 1 the residual; threads read it from shared memory."""
    k = kernel(RESIDUAL, "pingpong_128x128")
    assert load_warps(k) == [{"T0", "T1"}, {"T2"}]
    assert k.kernel.globals == ()
    compute = next(r for s in k.kernel.body for r in getattr(s, "roles", ()) if r.name == "compute")
    reads = [s for s in walk(compute.body) if isinstance(s, (LdMatrix, LdShared))]
    assert [s.src.buffer for s in reads] == ["T13"]
    waits = {s.bar.array for s in walk(compute.body) if isinstance(s, MBarrierWait)}
    assert waits == {"ring_full", "aux_full"}


def test_no_more_inputs_than_load_warps() -> None:
    k = kernel(FOUR, "coop_128x64")
    assert load_warps(k) == [{"T0", "T1"}, {"T3"}, {"T4"}, {"T5"}]
    assert {g.name for g in k.kernel.globals} == {"T2", "T6"}


@pytest.mark.parametrize(
    ("schedule", "changes"), [("coop_128x64", {"epilogue_input_stages": 0}), ("pipelined", {})]
)
def test_threads_read_it_themselves(schedule: str, changes: dict[str, int]) -> None:
    """Where it is asked for, and where there is no load warpgroup."""
    k = kernel(RESIDUAL, schedule, **changes)
    assert {g.name for g in k.kernel.globals} == {"T2"}
    assert any(isinstance(s, FragLoadGlobal) for s in walk(k.kernel.body))
    d, (a, b, r) = run(k, problems(k)[1])
    assert np.array_equal(d, (a @ b.T + r).astype(NUMPY["bf16"]).astype(np.float32))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("text", [RESIDUAL, WIDE])
@pytest.mark.parametrize("schedule", ["coop_128x256", "pingpong_128x128"])
def test_resources_are_clean(schedule: str, text: str) -> None:
    k = kernel(text, schedule)
    assert k.resources.clean, str(k.resources)
