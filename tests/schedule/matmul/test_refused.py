"""What the matmul scheduler refuses and what options it gives to kernels: tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import pytest

from lowering.ground.errors import ScheduleError, UnsupportedError
from lowering.target.blackwell import BLACKWELL
from tests.conftest import Golden
from tests.schedules import LAYOUTS, SCHEDULES, definition, in_tensor_memory
from wsched.front.known import import_fusion
from wsched.fusion import DataType
from wsched.schedule.matmul.computed import Computed
from wsched.schedule.matmul.copied import SmemSwizzles, SupportedVectorization, ThreadLoads
from wsched.schedule.matmul.deferred import held_registers, refuse_deferred
from wsched.schedule.matmul.demands import Demands
from wsched.schedule.matmul.instruction import refuse_in_tensor_memory
from wsched.schedule.matmul.kernel_options import kernel_options, thread_bytes
from wsched.schedule.matmul.limits import require_legal_for
from wsched.schedule.matmul.params import (
    BufferingLoopLevel,
    CachePolicies,
    CircularBufferingStrategy,
    GemmTile,
    L2Promotions,
    MatmulParams,
    MatMulTileOptions,
    TilingStrategy,
)
from wsched.schedule.matmul.reductions import Reductions
from wsched.schedule.matmul.thread_loads import thread_load_reasons
from wsched.schedule.options import (
    CachePolicy,
    KernelOptions,
    MmaInputSmemSwizzle,
    TensorMapL2Promotion,
)

PLAIN = in_tensor_memory(128, 128)

IN_TENSOR_MEMORY: dict[str, dict[str, Any]] = {
    "as it is": {},
    "pipelined": {"circular_buffering_strategy": CircularBufferingStrategy.Pipelined},
    "stream-K": {"tiling_strategy": TilingStrategy.DistributeStagesAcrossSMs},
    "one tile for each CTA": {"tiling_strategy": TilingStrategy.OneTilePerCTA},
    "two parts of K": {"splitk_factor": 2},
    "ping-pong": {"buffering_loop_level": BufferingLoopLevel.WarpTiles},
    "two warp tiles side by side": {
        "tile_sizes": MatMulTileOptions(GemmTile(128, 128, 64), GemmTile(128, 64, 64))
    },
    "exchanged": {"exchange_operands": True},
    "loads by threads": {"thread_loads": ThreadLoads(b=2)},
    "registers": {"num_registers": (40, 232)},
    "no registers": {"num_registers": None},
}
DEMANDED: dict[str, dict[str, Any]] = {
    "two products": {"counts": (1, 2)},
    "a reduction": {"reductions": Reductions(over_columns=1)},
    "a computed operand": {"computed": Computed("a", DataType.Int8, 1.0)},
}


def refused(demands: Demands, params: MatmulParams) -> str:
    try:
        refuse_in_tensor_memory(demands, params)
    except UnsupportedError as e:
        return str(e)
    return "taken"


def test_in_tensor_memory(golden: Golden) -> None:
    """Each of what has no kernel there, alone and as little of it as there may be."""
    plain = Demands.of(import_fusion(definition()), BLACKWELL)
    lines = [f"{n}: {refused(plain, replace(PLAIN, **c))}" for n, c in IN_TENSOR_MEMORY.items()]
    lines += [f"{n}: {refused(replace(plain, **c), PLAIN)}" for n, c in DEMANDED.items()]
    hopper = Demands.of(import_fusion(definition()))
    everything = replace(PLAIN, splitk_factor=2, exchange_operands=True)
    assert refused(hopper, everything) == "taken"
    assert "\n".join(lines) == golden


def test_loads_by_threads(golden: Golden) -> None:
    """Bytes of each operand, and rows of a stage that are no whole number for each."""
    lines = []
    for layout in LAYOUTS:
        demands = Demands.of(import_fusion(definition(layout=layout)))
        for a, b, groups in ((1, 0, 1), (0, 32, 1), (2, 16, 1), (4, 4, 3), (0, 4, 5), (4, 0, 0)):
            params = replace(SCHEDULES["coop_k32"], thread_loads=ThreadLoads(a, b, groups))
            found = "; ".join(thread_load_reasons(demands, params)) or "taken"
            lines.append(f"{layout} {params.thread_loads}: {found}")
    tile = MatMulTileOptions(GemmTile(192, 96, 64), GemmTile(64, 96, 64))
    for a, b in ((4, 0), (0, 4)):
        params = replace(SCHEDULES["coop_3_groups"], tile_sizes=tile)
        params = replace(params, thread_loads=ThreadLoads(a, b, 3))
        found = "; ".join(thread_load_reasons(Demands.of(import_fusion(definition())), params))
        lines.append(f"192x96 {params.thread_loads}: {found or 'taken'}")
    assert "\n".join(lines) == golden


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no dependent launch": {"programmatic_dependent_launch": False},
    "reuse": {"promote_prologue_smem_reuse": True},
    "three buffers": {"epilogue_stages": 3},
    "policies": {
        "cache_policies": CachePolicies(
            CachePolicy.EvictLast, CachePolicy.EvictNormal, CachePolicy.EvictFirst
        )
    },
    "promotions": {"l2_promotions": L2Promotions(TensorMapL2Promotion.B64)},
    "spans": {"smem_swizzles": SmemSwizzles(b=MmaInputSmemSwizzle.B64)},
    "loads of a": {"thread_loads": ThreadLoads(a=4)},
    "loads of b": {
        "thread_loads": ThreadLoads(b=16),
        "l2_promotions": L2Promotions(TensorMapL2Promotion.B64, TensorMapL2Promotion.B128),
    },
    "from registers": {
        "use_smem_epilogue": False, "supported_vec_size": SupportedVectorization(1),
    },
}  # fmt: skip


def differing(options: KernelOptions) -> Iterator[str]:
    """What is not as in all options."""
    plain = KernelOptions()
    for field in fields(options):
        if (value := getattr(options, field.name)) != getattr(plain, field.name):
            yield f"{field.name}={value}"


@pytest.mark.parametrize("exchanged", [False, True])
def test_options(exchanged: bool, golden: Golden) -> None:
    lines = []
    for name, changed in OPTIONS.items():
        params = replace(SCHEDULES["coop_128x128"], exchange_operands=exchanged, **changed)
        options = kernel_options(import_fusion(definition()), params)
        found = "; ".join(differing(options))
        lines.append(f"{name}: {found}; threads copy {thread_bytes(params)}")
    assert "\n".join(lines) == golden


DEFERRING: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "taken": ({}, {}),
    "a tile": ({}, {"tiling_strategy": TilingStrategy.OneTilePerCTA}),
    "in turns": ({}, {"buffering_loop_level": BufferingLoopLevel.WarpTiles}),
    "pipelined": ({}, {"circular_buffering_strategy": CircularBufferingStrategy.Pipelined}),
    "from registers": ({}, {"use_smem_epilogue": False}),
    "parts of K": ({}, {"splitk_factor": 2}),
    "stream-K": ({}, {"tiling_strategy": TilingStrategy.DistributeStagesAcrossSMs}),
    "a reduction": ({"reductions": Reductions(over_columns=1)}, {}),
    "fp32": ({"results": (DataType.BFloat16, DataType.Float)}, {}),
    "fp8": ({"results": (DataType.Float8_e4m3fn,)}, {}),
    "a residual": ({"matrices": (DataType.BFloat16,)}, {}),
    "one by threads": ({"matrices": (DataType.BFloat16,)}, {"epilogue_input_stages": 0}),
    "slices": ({}, {"tile_sizes": MatMulTileOptions(GemmTile(64, 64, 128), GemmTile(64, 64, 64))}),
    "tensor memory": ({}, {"mma_macro": PLAIN.mma_macro}),
}
"""What is demanded, and the parameters."""


def test_deferred_stores(golden: Golden) -> None:
    plain, deferring = Demands.of(import_fusion(definition())), SCHEDULES["deferred_cluster"]
    lines = []
    for name, (demanded, changed) in DEFERRING.items():
        demands, params = replace(plain, **demanded), replace(deferring, **changed)
        refuse_deferred(demands, replace(params, deferred_stores=False))
        try:
            refuse_deferred(demands, params)
            lines.append(f"{name}: taken")
        except UnsupportedError as e:
            lines.append(f"{name}: {e}")
    assert "\n".join(lines) == golden


def test_registers_that_hold_a_tile() -> None:
    """128 rows and 256 columns of two bytes, by two warpgroups: 64 registers of a thread."""
    plain, deferring = Demands.of(import_fusion(definition())), SCHEDULES["deferred"]
    assert held_registers(plain, deferring) == 64
    assert held_registers(plain, replace(deferring, deferred_stores=False)) == 0
    assert held_registers(replace(plain, results=plain.results * 2), deferring) == 128
    with pytest.raises(ScheduleError, match=r"128 accumulators and .* registers"):
        require_legal_for(replace(plain, results=plain.results * 2), deferring)
