from __future__ import annotations

import pytest

from lowering.ground.errors import ScheduleError
from passes.set_l2_promotions import set_l2_promotions
from tests.passes.texts import full, lowered, unchanged

BEFORE = """
tensormap A: bf16[512, 512] box 64x64 swizzle 128
tensormap B: bf16[512, 512] box 64x64 swizzle 128
tensormap D: bf16[512, 512] box 64x64
shared S: bf16[1][64x64] swizzle 128
mbarrier full[1] arrivals 1
elect {
  tma.load S[0, 0, 0], A[0, 0], bar=full[0]
  tma.load S[0, 0, 0], B[0, 0], bar=full[0]
}
"""


def test_maps_of_the_named_tensors() -> None:
    after = BEFORE.replace(
        "B: bf16[512, 512] box 64x64 swizzle 128",
        "B: bf16[512, 512] box 64x64 swizzle 128 promotion 128",
    ).replace("D: bf16[512, 512] box 64x64", "D: bf16[512, 512] box 64x64 promotion 0")
    asked = (("B", 128), ("D", 0))
    assert lowered(set_l2_promotions, BEFORE, l2_promotions=asked) == full(after)


def test_without_promotions_nothing_changes() -> None:
    assert unchanged(set_l2_promotions, BEFORE)


def test_a_tensor_that_the_kernel_does_not_have() -> None:
    with pytest.raises(ScheduleError) as error:
        lowered(set_l2_promotions, BEFORE, l2_promotions=(("C", 64),))
    assert str(error.value) == (
        "ScheduleError[l2-promotion]: l2_promotions: C 64: no TMA copies C\n  legal here: A; B; D"
    )
