from __future__ import annotations

import pytest

from lowering.ground.errors import ScheduleError
from passes.set_cache_policies import set_cache_policies
from tests.passes.texts import full, lowered, unchanged

BEFORE = """
tensormap A: bf16[512, 512] box 64x64 swizzle 128
tensormap B: bf16[512, 512] box 64x64 swizzle 128
tensormap D: bf16[512, 512] box 64x64 swizzle 128
shared S: bf16[1][64x64] swizzle 128
mbarrier full[1] arrivals 1
elect {
  for k in 0 .. 8 {
    tma.load S[0, 0, 0], A[0, k], bar=full[0]
    tma.load S[0, 0, 0], B[0, k], bar=full[0], multicast=3, ctas=2
  }
  tma.store D[0, 0], S[0, 0, 0]
}
"""


def test_copies_of_the_named_tensors() -> None:
    after = BEFORE.replace("multicast=3, ctas=2", "multicast=3, ctas=2, cache=evict_last").replace(
        "tma.store D[0, 0], S[0, 0, 0]", "tma.store D[0, 0], S[0, 0, 0], cache=evict_first"
    )
    policies = (("B", "evict_last"), ("D", "evict_first"))
    assert lowered(set_cache_policies, BEFORE, cache_policies=policies) == full(after)


def test_without_policies_nothing_changes() -> None:
    assert unchanged(set_cache_policies, BEFORE)


def test_a_tensor_that_the_kernel_does_not_have() -> None:
    with pytest.raises(ScheduleError) as error:
        lowered(set_cache_policies, BEFORE, cache_policies=(("C", "evict_last"),))
    assert str(error.value) == (
        "ScheduleError[cache-policy]: cache_policies: C evict_last: no TMA copies C\n"
        "  legal here: A; B; D"
    )
