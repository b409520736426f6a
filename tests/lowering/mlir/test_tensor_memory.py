"""``tcgen05`` in MLIR: modules become cubins for sm_100a, and what the instructions are told."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from lowering.cuda.emit import emit_cuda
from lowering.cuda.nvrtc import compile_ptx
from lowering.cuda.resources import read_resources
from lowering.ground.errors import InternalError
from lowering.kernel.descriptor import MatrixDescriptor, tile_byte
from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel
from lowering.mlir.emit import emit_mlir
from lowering.mlir.toolchain import compile_mlir, lowered
from tests import pairs
from tests.blackwell import NOT_FINAL, Tile, final
from tests.lowering.cuda.test_tensor_memory import TILES
from tests.lowering.mlir.interpreter import Thread, run
from tests.lowering.mlir.test_bindings import jaxlib, triton_prints
from tests.lowering.mlir.test_toolchain import COUNTED

__all__ = ["jaxlib"]  # a fixture

ARCH = "sm_100a"
TCGEN05 = tuple(
    f"tcgen05.{name}"
    for name in ("alloc", "relinquish", "dealloc", "mma", "commit", "ld", "wait", "fence")
)

with_triton = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")


def require_clean(kernel: Kernel) -> None:
    name = kernel.name
    resources = read_resources(compile_mlir(emit_mlir(kernel), name, ARCH), name)
    assert resources.clean, resources


@pytest.mark.sampled
@with_triton
@pytest.mark.parametrize("tile", TILES.values(), ids=TILES)
def test_cubin(tile: Tile) -> None:
    require_clean(final(tile))


@with_triton
@pytest.mark.parametrize("name", ["v9", "v10"])
def test_cubin_of_pairs(name: str) -> None:
    require_clean(pairs.final(pairs.PAIRS[name]))


@with_triton
def test_ptx_of_pairs_has_the_instructions_of_the_cuda_way() -> None:
    kernel = pairs.final(pairs.CLUSTERS["4x2-pairs"])
    ours = lowered(emit_mlir(kernel), "pairs", ARCH)
    theirs = compile_ptx(emit_cuda(kernel), "pairs", arch=ARCH)
    words = (*COUNTED, *TCGEN05, "cta_group::1", "cta_group::2", "multicast::cluster", "mapa")
    assert counts(ours, words) == counts(theirs, words)
    assert counts(ours, ("cta_group::1",))["cta_group::1"] == 0


@with_triton
@pytest.mark.parametrize("name", ["tma", "two-warpgroups"])
def test_ptx_has_the_instructions_of_the_cuda_way(name: str) -> None:
    kernel = final(TILES[name])
    ours = lowered(emit_mlir(kernel), name, ARCH)
    theirs = compile_ptx(emit_cuda(kernel), name, arch=ARCH)
    words = *COUNTED, *TCGEN05
    assert counts(ours, words) == counts(theirs, words)
    assert all(counts(ours, TCGEN05).values())


def counts(ptx: str, words: tuple[str, ...]) -> dict[str, int]:
    return {w: len(re.findall(rf"\b{re.escape(w)}", ptx)) for w in words}


@pytest.mark.sampled
@pytest.mark.parametrize("tile", TILES.values(), ids=TILES)
def test_bindings_read_it_the_same_again(tile: Tile, jaxlib: Any) -> None:
    once = jaxlib(emit_mlir(final(tile)))
    assert jaxlib(once) == once
    assert once.count("nvvm.tcgen05.alloc") == 1


def test_bindings_read_pairs_the_same_again(jaxlib: Any) -> None:
    once = jaxlib(emit_mlir(pairs.final(pairs.CLUSTERS["4x2-pairs"])))
    assert jaxlib(once) == once
    assert "group = <cta_2>" in once
    assert "group = cta_2" in once  # of loads


@with_triton
def test_triton_reads_it_the_same_again(tmp_path: Path) -> None:
    once = triton_prints(emit_mlir(final()), tmp_path)
    assert triton_prints(once, tmp_path) == once


# --- what the instructions are told --------------------------------------------------------------

BASE, CELLS = 1 << 24 | 1024, 5 << 5
KERNEL = """
kernel k threads 128 cluster 1 target sm_100a grid 1 {
  param cells: i32
  param k: i32
  shared A: bf16[2][128x64] swizzle 128 at 0
  shared B: bf16[2][64x64] swizzle 128 at 32768
  tensor D: f32[2][256x64] column 32
  tcgen05.base cells
  tcgen05.mma D[1, 128, 0], A[1, 0, 48], B[0, 0, 16], 64, accumulate=0 < k
  flying: frag<f32, 128x24, span 2, below 2, async> = tcgen05.ld D[1, 0, 32]
  v: frag<f32, 128x24, span 2, below 2> = tcgen05.wait.ld flying
}
"""


def executed(tid: int = 0) -> Thread:
    given = {"%smem": BASE, "%cells": CELLS, "%k": 0, "tid.x": tid}
    return run(emit_mlir(parse_kernel(KERNEL)).splitlines(), given)


def test_what_a_product_is_told() -> None:
    (call,) = executed().of("tcgen05.mma")
    cells, *descriptors, told, accumulate = call.values
    assert cells == CELLS + 32 + 128 + 64  # a stage has two blocks of 64 columns
    kernel = parse_kernel(KERNEL)
    for name, at, found in zip("AB", ((1, 0, 48), (0, 0, 16)), descriptors, strict=True):
        buffer = kernel.buffer(name)
        assert buffer.offset is not None
        assert isinstance(found, int)
        place = BASE + buffer.offset + tile_byte(buffer, *at)
        assert found % (1 << 64) == MatrixDescriptor.of(buffer, False).at(place, 1)
    assert (told, accumulate) == (0x8100490, False)


def test_columns_that_are_no_power_of_two_are_several_loads() -> None:
    """And each warp reads its own 32 lanes, 16 at a time."""
    calls = executed(tid=70).of("tcgen05.ld")
    assert [re.findall(r"x\d(?=\.b32)", call.text) for call in calls] == [["x2"], ["x1"]] * 2
    first = CELLS + 32 + 128 + 32 + (64 << 16)
    assert [call.values[-1] for call in calls] == [first + lanes + col for lanes in (0, 16 << 16)
                                                   for col in (0, 16)]  # fmt: skip


def test_registers_are_taken_behind_the_wait() -> None:
    lines = emit_mlir(parse_kernel(KERNEL)).splitlines()
    wait = next(i for i, line in enumerate(lines) if "nvvm.tcgen05.wait <load>" in line)
    taken = [i for i, line in enumerate(lines) if "llvm.extractvalue" in line]
    assert len(taken) == 24
    assert min(taken) > wait
    assert sum('att "", "=f' in line for line in lines[wait:]) == 2  # a pin of each block


@pytest.mark.parametrize("fault", NOT_FINAL)
def test_what_is_no_final_kernel(fault: str) -> None:
    with pytest.raises(InternalError, match=re.escape(fault)):
        emit_mlir(NOT_FINAL[fault]())
