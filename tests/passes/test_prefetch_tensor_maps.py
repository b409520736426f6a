from __future__ import annotations

import pytest

from lowering.kernel.nodes import PrefetchTensorMap
from lowering.kernel.visit import walk
from passes.prefetch_tensor_maps import prefetch_tensor_maps
from tests.lowering.nest.kernels import SMALL, final
from tests.passes.texts import full, lowered, unchanged

MAPS = """
tensormap A: bf16[512, 512] box 128x64 swizzle 128
tensormap D: bf16[512, 512] box 64x64
"""


def test_one_thread_fetches_all_maps_before_anything_else() -> None:
    assert lowered(prefetch_tensor_maps, MAPS + "cta.sync") == full(
        MAPS
        + """
on %warp 1 {
  elect {
    prefetch.tensormap A
    prefetch.tensormap D
  }
}
cta.sync
"""
    )


def test_without_maps_nothing_changes() -> None:
    assert unchanged(prefetch_tensor_maps, "cta.sync")


@pytest.mark.parametrize("name", SMALL)
def test_final_kernels_fetch_operands_and_result(name: str) -> None:
    kernel = final(name)
    fetched = [s.map.map for s in walk(kernel.body[:1]) if isinstance(s, PrefetchTensorMap)]
    assert fetched == [m.name for m in kernel.tensor_maps]
    assert len(fetched) == 3


def test_each_entry_of_an_array_but_nothing_in_device_memory() -> None:
    maps = MAPS.replace("A:", "A[2]:").replace("D:", "D device:")
    after = lowered(prefetch_tensor_maps, maps + "cta.sync")
    lines = [line.strip() for line in after.splitlines() if "prefetch" in line]
    assert lines == ["prefetch.tensormap A[0]", "prefetch.tensormap A[1]"]
    only_device = maps.replace("A[2]:", "A device:")
    assert unchanged(prefetch_tensor_maps, only_device + "cta.sync")
