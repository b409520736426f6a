"""Columns of tensor memory, and who allocates them."""

from __future__ import annotations

import pytest

from lowering.ground.errors import InternalError, ScheduleError
from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel, print_kernel
from passes.allocate_tensor_memory import allocate_tensor_memory
from passes.options import LoweringOptions


def kernel(buffers: str, body: str = "cta.sync\n  roles { }\n  cta.sync") -> Kernel:
    return parse_kernel(
        f"kernel k threads 128 cluster 1 target sm_100a grid 1 {{\n  {buffers}\n  {body}\n}}\n"
    )


def allocated(k: Kernel) -> Kernel:
    return allocate_tensor_memory(k, LoweringOptions())


def test_buffers_lie_behind_each_other() -> None:
    two = "tensor a: f32[2][128x96]\n  tensor b: f32[1][256x16]"
    assert (
        print_kernel(allocated(kernel(two)))
        == """\
kernel k threads 128 cluster 1 target sm_100a grid 1 {
  shared cells: s32[1][1x1]
  tensor a: f32[2][128x96] column 0
  tensor b: f32[1][256x16] column 192
  on %warp 0 {
    tcgen05.alloc cells[0, 0, 0], 256
    tcgen05.relinquish
  }
  tcgen05.fence before
  cta.sync
  tcgen05.fence after
  cells_at: i32 = ld.word cells[0, 0, 0]
  tcgen05.base cells_at
  roles {
  }
  tcgen05.fence before
  cta.sync
  tcgen05.fence after
  on %warp 0 {
    tcgen05.dealloc 256
  }
}
"""
    )


def test_without_any_nothing_changes() -> None:
    plain = kernel("param M: i32")
    assert allocated(plain) is plain


def test_more_than_there_is() -> None:
    with pytest.raises(ScheduleError) as error:
        allocated(kernel("tensor a: f32[3][128x192]"))
    assert error.value.rule == "tensor-memory"
    assert error.value.why == "a 3 x 192 = 576 columns of tensor memory, an SM has 512"
    assert error.value.legal == ("stages=1", "stages=2")


def test_where_there_is_none() -> None:
    text = print_kernel(kernel("tensor a: f32[1][128x16]")).replace(" target sm_100a", "")
    with pytest.raises(InternalError, match="sm_90a has none"):
        allocated(parse_kernel(text))


@pytest.mark.parametrize("body", ["roles { }\n  cta.sync", "cta.sync\n  roles { }"])
def test_a_sync_on_either_side(body: str) -> None:
    with pytest.raises(InternalError, match="no sync in front of its roles, or none behind"):
        allocated(kernel("tensor a: f32[1][128x16]", body))
