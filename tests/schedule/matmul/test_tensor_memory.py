"""The matmul scheduler for a GPU that sums up in tensor memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lowering.cuda.emit import emit_cuda
from lowering.cuda.nvrtc import compile_cubin
from lowering.cuda.resources import read_resources
from lowering.ground.errors import ScheduleError, UnsupportedError
from lowering.nest.lower import lower
from lowering.target.blackwell import BLACKWELL
from lowering.target.hopper import HOPPER
from tests.blackwell import Tile, scheduled
from tests.on_machine import Problem, operands, run
from tests.schedules import definition, dynamic
from tests.schedules import in_tensor_memory as params
from wsched.front.known import import_fusion
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.schedule.matmul.params import (
    CircularBufferingStrategy,
    GemmTile,
    MatmulParams,
    MatMulTileOptions,
    MmaArch,
    MmaMacro,
    SmemSwizzles,
    TilingStrategy,
)
from wsched.schedule.options import MmaInputSmemSwizzle
from wsched.schedule.plan import make_plan

TILES = {
    "128x64": params(128, 64, epilogue_stages=1),
    "128x256": params(128, 256),
    "256x128": params(256, 128),
    "256x256": params(256, 256, 32, use_smem_epilogue=False),
    "128x96": params(128, 96, epilogue_stages=3),
    "direct": params(128, 64, epilogue_stages=1, use_smem_epilogue=False),
    "queue": dynamic(params(128, 64, epilogue_stages=1)),
    "queue of two warpgroups": dynamic(params(256, 128)),
}


def made(p: MatmulParams, result: str = "bf16", layout: str = "tn") -> CompiledFusion:
    return compile_fusion(import_fusion(definition("bf16", result, layout=layout)), p)


@pytest.mark.sampled
@pytest.mark.parametrize("name", TILES)
def test_right_at_odd_sizes(name: str) -> None:
    problem = Problem(300, 104, 136, 2)
    kernel = made(TILES[name])
    assert kernel.kernel.target is BLACKWELL
    a, b = operands(problem, "bf16", 0, integer=True)
    d = run(kernel, problem, a, b, "bf16")
    assert (d.astype(float) == (a.astype(float) @ b.astype(float).T)).all()


@pytest.mark.parametrize("layout", ["tn", "nt", "nn", "tt"])
def test_operands_by_columns(layout: str) -> None:
    problem = Problem(136, 72, 104, 2)
    a, b = operands(problem, "bf16", 1, integer=True)
    d = run(made(TILES["128x64"], "f32", layout), problem, a, b, "f32")
    assert (d == a.astype(float) @ b.astype(float).T).all()


@pytest.mark.sampled
@pytest.mark.parametrize("name", TILES)
@pytest.mark.parametrize("layout", ["tn", "nt"])
def test_cubins(name: str, layout: str) -> None:
    kernel = made(TILES[name], layout=layout).kernel
    compiled = compile_cubin(emit_cuda(kernel), arch=kernel.target.arch)
    assert read_resources(compiled, kernel.name).clean


def test_two_stages_of_sums_where_they_fit() -> None:
    def columns(p: MatmulParams) -> list[tuple[int, tuple[int, ...]]]:
        return [(t.stages, t.shape) for t in made(p).kernel.tensors]

    assert columns(TILES["256x128"]) == [(2, (256, 128))]
    assert columns(TILES["256x256"]) == [(1, (256, 256))]


def test_the_macro_says_the_target() -> None:
    macro = TILES["128x64"].mma_macro
    assert macro.target is BLACKWELL and MmaMacro().target is HOPPER
    assert str(macro) == "Blackwell1CTA_128_64_16"
    fusion = import_fusion(definition())
    for given, target, why in (
        (TILES["128x64"], HOPPER, "Blackwell1CTA_128_64_16 is no instruction of sm_90a, whose are "
         "Hopper"),
        (MatmulParams(), BLACKWELL, "is no instruction of sm_100a, whose are Blackwell1CTA"),
    ):  # fmt: skip
        with pytest.raises(ScheduleError, match=why):
            compile_fusion(fusion, given, target)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"mma_macro": MmaMacro(64, 64, arch=MmaArch.Blackwell1CTA)},
         "tcgen05.mma of 16-bit operands is m128 and k16"),
        ({"mma_macro": MmaMacro(128, 24, arch=MmaArch.Blackwell1CTA)},
         "tcgen05.mma's n is a multiple of 16 from 16 to 256"),
        ({"tile_sizes": MatMulTileOptions(GemmTile(384, 256, 64), GemmTile(128, 256, 64)),
          "mma_macro": MmaMacro(128, 256, arch=MmaArch.Blackwell1CTA)},
         "a tile of 384x256x64 takes 768 columns of tensor memory, an SM has 512"),
    ],
)  # fmt: skip
def test_illegal(change: dict[str, Any], why: str) -> None:
    with pytest.raises(ScheduleError) as error:
        made(replace(TILES["128x64"], **change))
    assert why in error.value.why


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"circular_buffering_strategy": CircularBufferingStrategy.Pipelined}, "Pipelined loads"),
        ({"tiling_strategy": TilingStrategy.OneTilePerCTA}, "OneTilePerCTA"),
        ({"splitk_factor": 2}, "splitk_factor=2"),
        ({"exchange_operands": True}, "exchange_operands=True"),
        ({"num_registers": (40, 232)}, r"num_registers=\(40, 232\)"),
    ],
)
def test_refused_by_name(change: dict[str, Any], what: str) -> None:
    where = "with accumulators in the tensor memory of sm_100a is not supported"
    with pytest.raises(UnsupportedError, match=f"{what} {where}"):
        made(replace(TILES["128x64"], **change))


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["tn", "nt"])
def test_operands_in_other_spans(layout: str) -> None:
    """Descriptors without a swizzle are this target's, too."""
    spans = SmemSwizzles(MmaInputSmemSwizzle.NoSwizzle, MmaInputSmemSwizzle.B32)
    kernel = made(replace(TILES["128x64"], smem_swizzles=spans), layout=layout)
    problem = Problem(136, 72, 104, 2)
    a, b = operands(problem, "bf16", 2, integer=True)
    d = run(kernel, problem, a, b, "bf16", races=True)
    assert (d.astype(float) == (a.astype(float) @ b.astype(float).T)).all()
    assert kernel.proof().proved and kernel.resources.clean


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (definition("f32", "f32").replace("Float", "TF32"), "multiplies tf32 by tf32 into f32"),
        (definition("f32", "f32").replace("Float", "Int8"), "multiplies s8 by s8 into f32"),
    ],
)
def test_types_that_the_target_does_not_multiply(text: str, why: str) -> None:
    """Illegal as parameters, and without a kernel in a schedule by calls."""
    with pytest.raises(ScheduleError, match=f"no tcgen05.mma {why}"):
        compile_fusion(import_fusion(text), TILES["128x64"])
    with pytest.raises(UnsupportedError, match="supported: f16 by f16 into f32"):
        cast = "e = fd.ops.cast(d, dtype=DataType.BFloat16)\n    fd.add_output(e)"
        fusion = scheduled(Tile(), text.replace("fd.add_output(d)", cast))
        lower(make_plan(fusion, target=BLACKWELL), "linear")
