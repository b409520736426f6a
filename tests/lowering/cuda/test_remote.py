"""Access to a peer's shared memory, as CUDA C++."""

from __future__ import annotations

import pytest

from lowering.cuda.emit import emit_cuda
from lowering.cuda.nvrtc import compile_cubin
from lowering.kernel.text import parse_kernel
from tests.lowering.remotes import ALL

CALLS = {
    "st.shared": ("st.shared::cluster.v2.f32 [%0], {%1, %2};", "mapa.shared::cluster.u32"),
    "st.async": ("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32",),
    "bulk.copy": ("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes",),
    "ld.shared": ("ld.shared::cluster.v2.f32 {%0, %1}, [%2];", "mapa.shared::cluster.u32"),
}


@pytest.mark.sampled
@pytest.mark.parametrize("way", ALL)
def test_it_compiles(way: str) -> None:
    text = emit_cuda(parse_kernel(ALL[way]))
    assert all(call in text for call in CALLS[way])
    assert compile_cubin(text).cubin


def test_integers() -> None:
    text = """kernel words threads 128 cluster 2 grid 2 {
      shared tile: s32[1][64x16] swizzle 64 at 0
      cluster.sync
      ones: frag<s32, 64x16> = frag.fill 1.0
      st.shared tile[0, 0, 0], ones, cta=1 - %cluster.ctarank
      cluster.sync
      again: frag<s32, 64x16> = ld.shared tile[0, 0, 0], cta=1 - %cluster.ctarank
      st.shared tile[0, 0, 0], again
      cluster.sync
    }"""
    found = emit_cuda(parse_kernel(text))
    assert "st.shared::cluster.v2.s32" in found and "ld.shared::cluster.v2.s32" in found
    assert compile_cubin(found).cubin


def test_the_swizzle_is_that_of_our_own_address() -> None:
    """Only the line is mapped; the bits that are permuted come from the address in our memory."""
    lines = emit_cuda(parse_kernel(ALL["st.shared"])).splitlines()
    at = next(i for i, line in enumerate(lines) if "map_shared(line" in line)
    assert "^ (((line" in lines[at - 1] and "st_shared_cluster_v2_f32(remote" in "".join(
        lines[at : at + 6]
    )
