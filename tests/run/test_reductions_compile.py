"""Kernels with reductions through NVRTC, without a GPU: nothing spills."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.lowering.cuda.opcodes import count_opcodes
from tests.reductions import ALL, Reduced, definition
from tests.schedules import SCHEDULES, for_result
from wsched.bench.reductions import REDUCTIONS
from wsched.bench.reductions import definition as linear_with
from wsched.front.known import import_fusion
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.run.registers import compile_clean
from wsched.schedule.matmul.params import GemmTile, MatmulParams
from wsched.schedule.matmul.reductions import Reductions
from wsched.schedule.matmul.tiles import tile_choice

SUMS = (Reduced("sum", (0,)),)
"""What warpgroups side by side can have."""

WAYS = {
    "coop_128x256": ALL[:3], "coop_256x128": ALL[:3], "coop_3_groups": ALL[:2],
    "across_128x256": SUMS, "pipelined": ALL[:3], "pingpong_64x256": ALL[:3],
    "pingpong_128x128": ALL[:3], "dynamic": ALL[:2], "split_2": ALL[:2],
    "stream_k_pingpong": ALL[:2], "exchanged_boxes": ALL, "exchanged_pingpong": ALL[:2],
    "exchanged_pipelined": ALL[:3], "exchanged_stream_k": ALL[:3],
}  # fmt: skip


def kernel(name: str, reduced: tuple[Reduced, ...]) -> CompiledFusion:
    fusion = import_fusion(definition(reduced))
    params = for_result(SCHEDULES[name], "bf16", reductions=Reductions.of(fusion))
    return compile_fusion(fusion, params)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", WAYS)
def test_nothing_spills(name: str) -> None:
    found = kernel(name, WAYS[name]).resources
    assert (found.spill_stores, found.spill_loads, found.stack, found.warnings) == (0, 0, 0, ())


WIDEST = ((True, 208), (True, 192), (False, 192))
"""Whether tiles are exchanged, and columns of 128 rows in turns that leave a reduction room."""


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("turned", "columns", "reduction"), [(*tile, r) for tile in WIDEST for r in REDUCTIONS]
)
def test_nothing_spills_of_what_is_made_of_sums(turned: bool, columns: int, reduction: str) -> None:
    fusion, base = import_fusion(linear_with(reduction)), MatmulParams(exchange_operands=turned)
    found = tile_choice(fusion, base, GemmTile(128, columns, 64), 2, True)
    assert found.legal and compile_fusion(fusion, found.params).resources.clean


GRADIENT = """\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    h = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    w = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    f = fd.ops.cast(h, dtype=DataType.Float)
    half = fd.ops.mul(0.5, f)
    square = fd.ops.mul(f, f)
    cube = fd.ops.mul(square, f)
    inner = fd.ops.add(f, fd.ops.mul(0.044715, cube))
    t = fd.ops.tanh(fd.ops.mul(0.797885, inner))
    one = fd.ops.add(1.0, t)
    gelu = fd.ops.mul(half, one)
    fd.add_output(fd.ops.cast(gelu, dtype=DataType.BFloat16))
    y = fd.ops.cast(fd.ops.matmul(x, w), dtype=DataType.Float)
    a = fd.ops.mul(fd.ops.mul(half, y), fd.ops.sub(1.0, fd.ops.mul(t, t)))
    b = fd.ops.mul(0.797885, a)
    c = fd.ops.add(b, fd.ops.mul(0.5, fd.ops.mul(one, y)))
    d = fd.ops.mul(0.044715, b)
    e = fd.ops.add(c, fd.ops.mul(square, d))
    g = fd.ops.mul(f, fd.ops.mul(f, d))
    dh = fd.ops.add(fd.ops.add(e, g), g)
    fd.add_output(fd.ops.cast(dh, dtype=DataType.BFloat16))
    fd.add_output(fd.ops.sum(dh, dims=[0], dtype=DataType.Float))
"""
"""``gelu(h)`` beside its derivative at ``h``, whose columns are summed."""


@pytest.mark.slow
def test_nothing_spills_of_what_is_made_beside() -> None:
    """With ``gelu`` made behind the reduction, its factors held until then, 104 bytes did."""
    fusion = import_fusion(GRADIENT)
    found = tile_choice(fusion, MatmulParams(), GemmTile(128, 176, 64), 2, True)
    params = replace(found.params, num_registers="auto")
    assert found.legal and compile_clean(fusion, params).resources.clean


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("reduction", "opcode", "least"),
    [("squares", "FFMA", 32), ("amax", "FMNMX", 32), ("columns", "STS", 1)],
)
def test_reductions_run_beside_stores(reduction: str, opcode: str, least: int) -> None:
    """Each chunk is reduced behind a store, none in front of the first or behind the last one.

    NVVM would move what has no effect but its value behind all stores, to where it is read.
    """
    fusion = import_fusion(linear_with(reduction))
    params = for_result(SCHEDULES["pingpong_128x128"], "bf16", reductions=Reductions.of(fusion))
    sass = compile_fusion(fusion, params).dump("sass")
    first, *between, last = [count_opcodes(part)[opcode] for part in sass.split("UTMASTG")]
    assert (first, last) == (0, 0) and len(between) == 3
    assert all(count >= least for count in between) and sum(between) >= 4 * least
