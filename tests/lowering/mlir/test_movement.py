"""Where each thread moves what: addresses, executed and compared with where the buffer has it."""

from __future__ import annotations

import re
from itertools import product

import pytest

from lowering.ground.errors import InternalError
from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel
from lowering.mlir.emit import emit_mlir
from tests.lowering.mlir.interpreter import Thread, run

BASE = 1 << 24 | 2048
"""A shared address as another CTA of a cluster has it."""

THREADS = [(w, lane) for w in range(4) for lane in range(32)]


def kernel(body: str, dtype: str = "bf16", swizzle: int = 128) -> Kernel:
    return parse_kernel(
        f"""
        kernel k threads 128 cluster 2 grid 1 {{
          param K: i32
          tensormap T: {dtype}[K, K] box 64x32 swizzle {swizzle}
          tensormap E[2]: {dtype}[K, K] box 64x32 swizzle {swizzle}
          shared S: {dtype}[2][128x128] swizzle {swizzle} at 4096
          shared W: s32[2][1] at 200000
          mbarrier full[2] arrivals 1 at 190000
          {body}
        }}
        """
    )


def thread(k: Kernel, warp: int = 0, lane: int = 0, **given: object) -> Thread:
    lines = emit_mlir(k).splitlines()
    registers = {"tid.x": 32 * warp + lane, "cluster.ctarank": 1}
    return run(lines, {"%smem": BASE, "%K": 300, **registers, **given})


def address(k: Kernel, stage: int, row: int, col: int) -> int:
    buffer = k.buffer("S")
    assert buffer.offset is not None
    return BASE + buffer.offset + buffer.byte(stage, row, col)


MATRICES = "v: frag<bf16, 128x32> = ldmatrix S[1, 0, 32]\n stmatrix S[0, 0, 64], v"


@pytest.mark.parametrize("swizzle", [64, 128])
def test_matrices_lie_where_the_buffer_has_them(swizzle: int) -> None:
    k = kernel(MATRICES, swizzle=swizzle)
    for warp, lane in THREADS[::5]:
        found = thread(k, warp, lane)
        for word, stage, first in (("ldmatrix", 1, 32), ("stmatrix", 0, 64)):
            expected = [
                address(k, stage, 64 * b + 16 * warp + lane % 16, first + 16 * s + lane // 16 * 8)
                for b, s in product(range(2), range(2))
            ]
            assert [c.values[0] for c in found.of(f"nvvm.{word}")] == expected


def test_what_is_loaded_is_stored() -> None:
    calls = thread(kernel(MATRICES)).of("llvm.extractvalue")
    stores = thread(kernel(MATRICES)).of("nvvm.stmatrix")
    taken = [(c.text.partition(" = ")[0], c.text.partition("[")[2][0]) for c in calls]
    order = dict(taken)
    for store in stores:
        registers = re.findall(r"%\d+", store.text)[1:5]
        assert [order[r] for r in registers] == ["0", "1", "2", "3"]


def test_a_narrow_tile_goes_two_matrices_at_a_time() -> None:
    found = thread(kernel("v: frag<bf16, 64x24> = ldmatrix S[0, 0, 0]"), 1, 19)
    at = [c.values[0] for c in found.of("nvvm.ldmatrix")]
    k = kernel("")
    assert at == [address(k, 0, 16 + 3, 8 * s) for s in range(3)]
    assert all("num = 2" in c.text for c in found.of("nvvm.ldmatrix"))


def test_transposed_columns_become_lines() -> None:
    k = kernel("v: frag<bf16, 64x32> = frag.fill 1.0\n stmatrix S[1, 32, 64], v, trans=true")
    for warp, lane in THREADS[::7]:
        found = thread(k, warp, lane).of("nvvm.stmatrix")
        right = 64 + 16 * warp + lane // 8 % 2 * 8
        rows = [32 + 16 * s + lane % 8 + lane // 16 * 8 for s in range(2)]
        assert [c.values[0] for c in found] == [address(k, 1, row, right) for row in rows]
        assert all("mma_layout<col>" in c.text for c in found)


@pytest.mark.parametrize("word", ["st.shared", "ld.shared"])
def test_pairs_of_fp32(word: str) -> None:
    moved = {
        "st.shared": "v: frag<f32, 64x32> = frag.fill 1.0\n st.shared S[0, 0, 32], v",
        "ld.shared": "v: frag<f32, 64x32> = ld.shared S[0, 0, 32]",
    }
    k = kernel(moved[word], "f32")
    for warp, lane in THREADS[::11]:
        found = [c.values[0] for c in thread(k, warp, lane).of(f"{word}.v2.f32")]
        expected = [
            address(k, 0, 16 * warp + lane // 4 + 8 * half, 32 + 8 * j + 2 * (lane % 4))
            for j, half in product(range(4), range(2))
        ]
        assert found == expected


def test_tma_has_the_innermost_coordinate_first() -> None:
    k = kernel(
        """
        elect {
          tma.load S[1, 64, 64], T[K, 7], bar=full[1], multicast=3, ctas=2, cache=evict_last
          tma.store T[K, 9], S[0, 0, 0]
        }
        """
    )
    found = thread(k)
    (load,), (store,) = found.of("cluster.global"), found.of("global.shared.cta")
    assert load.values[0] == address(k, 1, 64, 64)
    assert load.values[2:6] == (7, 300, BASE + 190000 + 8, 3)
    # Destination, map, coordinates, barrier, no offsets, mask, policy, no predicate.
    assert "operandSegmentSizes = array<i32: 1, 1, 2, 1, 0, 1, 1, 0>" in load.text
    assert (store.values[1], *store.values[2:4]) == (address(k, 0, 0, 0), 9, 300)
    assert "l2_cache_hint" not in store.text
    (policy,) = found.of("createpolicy.fractional.L2::evict_last")
    assert "has_side_effects" not in policy.text  # it may be moved out of loops


def test_words_in_this_cta_and_in_another() -> None:
    k = kernel(
        """
        elect {
          st.word W[K % 2, 0], K
          st.word W[1, 0], 5, cta=%cluster.ctarank
        }
        w: i32 = ld.word W[1, 0]
        """
    )
    found = thread(k)
    own, other = found.of("st.shared")
    assert own.values[-2:] == (BASE + 200000, 300)
    assert other.values[-3:] == (BASE + 200004, 5, 1)
    assert "mapa.shared::cluster" in other.text
    assert found.of("ld.shared.u32")[0].values[-1] == BASE + 200004


def test_what_straddles_boxes_is_refused() -> None:
    with pytest.raises(InternalError, match="ldmatrix of"):
        emit_mlir(kernel("v: frag<bf16, 64x64> = ldmatrix S[0, 0, 32]"))


def test_shared_memory_of_other_ctas() -> None:
    body = """
    v: frag<f32, 64x32> = ld.shared S[0, 0, 0], cta=1
    st.shared S[1, 0, 0], v, cta=0
    st.async S[0, 64, 0], v, full[1], 1
    elect { bulk.copy S[0, 0, 0], S[1, 0, 0], full[0], 1 }
    """
    found = thread(kernel(body, "f32"), 1, 9)
    maps = [c.values[-2:] for c in found.of("mapa.shared::cluster.u32 $0, $1, $2;")]
    k = kernel("", "f32")
    row = 16 + 9 // 4
    line = [address(k, 0, row, 0) // 128 * 128, address(k, 1, row, 0) // 128 * 128]
    bars = [BASE + 190000 + 8 * i for i in (0, 1)]
    assert maps[:2] == [(line[0], 1), (line[1], 0)]
    assert maps[2:4] == [(bars[1], 1), (address(k, 0, 64 + row, 0) // 128 * 128, 1)]
    assert maps[4:] == [(address(k, 0, 0, 0), 1), (bars[0], 1)]
    assert [len(found.of(w)) for w in ("ld.shared::cluster.v2", "st.shared::cluster.v2")] == [8, 8]
    assert len(found.of("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32")) == 8
    (copy,) = found.of("cp.async.bulk.shared::cluster.shared::cta")
    assert copy.values[1:3] == (address(k, 1, 0, 0), k.buffer("S").stage_bytes)


def test_copies_of_threads_arrive() -> None:
    (call,) = thread(kernel("cp.async.mbarrier.arrive.noinc full[1]")).of("arrive.noinc")
    assert call.values[-1] == BASE + 190000 + 8
