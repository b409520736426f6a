"""Warpgroups that share slices of K: right on the machine, proved, clean machine code; refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lowering.cuda.emit import emit_cuda
from lowering.cuda.nvrtc import compile_cubin
from lowering.cuda.resources import read_resources
from lowering.ground.errors import ScheduleError
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.proof.prove import prove
from tests.computed import by_rows, cast, drawn, fusion, weights
from tests.proofs import proved
from wsched.fusion import Fusion
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.run.counts import admitted_by
from wsched.schedule.matmul.demands import Demands
from wsched.schedule.matmul.limits import require_legal
from wsched.schedule.matmul.params import (
    Accumulators,
    BufferingLoopLevel,
    CircularBufferingStrategy,
    ClusterDims,
    GemmTile,
    MatmulParams,
    MatMulTileOptions,
    MmaArch,
    MmaMacro,
    TilingStrategy,
)
from wsched.schedule.matmul.reductions import Reductions
from wsched.schedule.matmul.slice_limits import slice_reasons
from wsched.schedule.matmul.tiles import tile_choice, with_tile

torch = pytest.importorskip("torch", reason="torch is not installed")

M, N, K = 40, 200, 208
"""No multiples of a tile."""

BARE = weights("BFloat16").replace("linear(x, w)", "linear(x, q)")
"""Nothing is computed: A is in shared memory."""


def made(f: Fusion, n: int, k: int, groups: int, **params: Any) -> CompiledFusion:
    """A kernel whose tiles have 64 rows, which so many warpgroups compute together."""
    base = MatmulParams(**{"exchange_operands": True, **params})
    choice = tile_choice(f, base, GemmTile(64, n, k), groups, False, along_k=groups)
    assert choice.legal, choice.reason
    return compile_fusion(f, choice.params)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("text", "n", "k", "groups", "more"),
    [
        (cast("Int8"), 40, 128, 2, {}), (cast("Int8"), 16, 256, 4, {}),
        (cast("Int8"), 48, 192, 3, {}), (by_rows("Float8_e4m3fn"), 40, 256, 2, {}),
        (cast("Float"), 40, 64, 2, {}), (BARE, 40, 128, 2, {}), (BARE, 16, 256, 4, {}),
        (BARE, 64, 128, 2, {"exchange_operands": False}),
        (cast("Int8"), 16, 256, 2, {"cluster_dims": ClusterDims(2, 1)}),
        (cast("Int8"), 40, 128, 2, {"tiling_strategy": TilingStrategy.OneTilePerCTA}),
        (cast("Int8"), 40, 128, 2, {"tiling_strategy": TilingStrategy.DistributeTilesDynamically}),
        (cast("Int8"), 40, 128, 2, {"use_smem_epilogue": False}),
        (cast("Int8"), 40, 128, 2, {"num_registers": None}),
    ],
)  # fmt: skip
def test_every_way(text: str, n: int, k: int, groups: int, more: dict[str, Any]) -> None:
    kernel = made(fusion(text), n, k, groups, **more)
    proved(kernel.kernel, kernel.plan)
    given = kernel.fusion.inputs[1].dtype.element.torch
    x, q, v = drawn("bfloat16", M, K), drawn(given, N, K, 1), torch.rand(N) + 0.5
    wide, rows = q.bfloat16(), ()
    if len(kernel.fusion.inputs) == 3:
        wide, rows = (q.float() * v[:, None]).bfloat16(), (v,)
    (result,) = kernel(x, q, *rows)
    wanted = x.double() @ wide.double().T
    assert float((result.double() - wanted).norm() / wanted.norm()) < 3e-3
    compiled = compile_cubin(emit_cuda(kernel.kernel))
    assert read_resources(compiled, kernel.kernel.name).clean
    assert "shared" in kernel.kernel.name


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("frag.pointwise add, whole2, part", "frag.pointwise add, whole2, whole2"),
        ("T8[stage_k, 0, share * 64]", "T8[stage_k, 0, 0]"),
        ("T7[stage_k, 0, share * 64 + 16]", "T7[stage_k, 0, 16]"),
        ("if 0 < share {", "if 0 <= share {"),
        ("bar.sync sums_sync[0]\n        part:", "part:"),
        ("bar.sync sums_sync[0]\n        if share", "if share"),
    ],
)
def test_the_proof_tells_shares_apart(old: str, new: str) -> None:
    """And a store while others load."""
    kernel = made(fusion(cast("Int8")), 16, 128, 2)
    text = print_kernel(kernel.kernel)
    assert old in text
    wrong = parse_kernel(text.replace(old, new))
    assert not prove(wrong, admitted_by(kernel.plan)).proved


def test_all_bits_are_alike_whoever_shares() -> None:
    """Sums are added in one order, whatever the launch is."""
    kernel = made(fusion(cast("Int8")), 16, 256, 4)
    x, q = drawn("bfloat16", M, K), drawn("int8", N, K, 1)
    (first,), (again,) = kernel(x, q), kernel(x[:16], q)
    assert torch.equal(first[:16], again)


SAID = "the warp tile's k 64 beside the CTA tile's 128: 2 warpgroups share each slice"


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"splitk_factor": 2}, "parts of tiles on several CTAs"),
        ({"circular_buffering_strategy": CircularBufferingStrategy.Pipelined}, "Pipelined loads"),
    ],
)
def test_what_nobody_has_built(change: dict[str, Any], what: str) -> None:
    base = MatmulParams(exchange_operands=True, **change)
    params = with_tile(base, GemmTile(64, 16, 128), 2, False, along_k=2)
    with pytest.raises(ScheduleError) as e:
        require_legal(fusion(cast("Int8")), params)
    assert f"{SAID}, which nobody has built for {what}" in e.value.why


@pytest.mark.parametrize(
    ("demanded", "change", "what"),
    [
        ({"counts": (1, 2)}, {}, "2 products"),
        ({"promotion": 128}, {}, "sums that are promoted after 128 of K"),
        ({"reductions": Reductions(over_rows=1)}, {}, "results that are reduced"),
        ({}, {"accumulators": Accumulators.Half}, "accumulators=Half"),
        ({}, {"buffering_loop_level": BufferingLoopLevel.WarpTiles}, "WarpTiles"),
        ({}, {"mma_macro": MmaMacro(128, 16, 16, MmaArch.Blackwell1CTA)}, "sums in tensor memory"),
    ],
)
def test_what_else_nobody_has_built(
    demanded: dict[str, Any], change: dict[str, Any], what: str
) -> None:
    tiles = MatMulTileOptions(GemmTile(64, 16, 128), GemmTile(64, 16, 64))
    params = MatmulParams(**{"tile_sizes": tiles, **change})
    demands = replace(Demands.of(fusion(BARE)), **demanded)
    assert f"{SAID}, which nobody has built for {what}" in slice_reasons(demands, params)


def test_several_warp_tiles() -> None:
    params = with_tile(MatmulParams(), GemmTile(128, 64, 128), 4, False, along_k=2)
    with pytest.raises(ScheduleError) as e:
        require_legal(fusion(BARE), params)
    assert f"{SAID}, which nobody has built for 2 warp tiles in a tile" in e.value.why


def test_slices_that_do_not_come_out_even() -> None:
    params = with_tile(MatmulParams(), GemmTile(64, 64, 64), 1, False)
    tiles = replace(params.tile_sizes, warp_tile=GemmTile(64, 64, 48))
    with pytest.raises(ScheduleError) as e:
        require_legal(fusion(BARE), replace(params, tile_sizes=tiles))
    assert e.value.why == "the CTA tile's k 64 is no multiple of the warp tile's 48"
