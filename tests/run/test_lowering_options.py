"""What the passes are told of what a schedule is told: all of it."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from lowering.ground.types import Swizzle
from passes.options import LoweringOptions
from tests.on_machine import kernel as compiled
from tests.schedules import cooperative
from wsched.run.compiled import CompiledFusion
from wsched.run.lowering_options import lowering_options
from wsched.schedule.options import (
    CachePolicy,
    KernelOptions,
    MmaInputSmemSwizzle,
    TensorMapL2Promotion,
)

OTHERS: dict[str, tuple[Any, str, Any]] = {
    "epilogue_stages": (4, "epilogue_stages", 4),
    "programmatic_dependent_launch": (False, "programmatic_dependent_launch", False),
    "cache_policies": (
        (("T0", CachePolicy.EvictFirst), ("T1", CachePolicy.EvictLast)),
        "cache_policies", (("T0", "evict_first"), ("T1", "evict_last")),
    ),
    "l2_promotions": (
        (("T0", TensorMapL2Promotion.B128),), "l2_promotions", (("T0", 128),)
    ),
    "smem_swizzles": (
        (("T0", MmaInputSmemSwizzle.B64),), "smem_swizzles", (("T0", Swizzle.B64),)
    ),
    "promote_prologue_smem_reuse": (True, "promote_prologue_smem_reuse", True),
    "deferred_stores": (True, "deferred_stores", True),
    "vector_registers": (24, "vector_registers", 24),
    "prefetched_steps": (2, "prefetched_steps", 2),
    "slice_groups": (2, "slice_groups", 2),
    "slice_registers": ((40, 232), "slice_registers", (40, 232)),
}  # fmt: skip
"""Of each option another value, and what the passes are told then, and how they call it."""

NOT_FOR_PASSES = {"vector", "copied_bytes", "prints"}
"""What is in the tile-level kernel already."""


@pytest.fixture(scope="module")
def made() -> CompiledFusion:
    return compiled(cooperative(64, 16, 16, stages=3, groups=1, registers=None))


@pytest.mark.parametrize("name", OTHERS)
def test_each_option_is_one_of_the_passes(name: str, made: CompiledFusion) -> None:
    value, told, wanted = OTHERS[name]
    plain = lowering_options(made.plan, KernelOptions())
    found = lowering_options(made.plan, KernelOptions(**{name: value}))
    assert getattr(plain, told) != getattr(found, told) == wanted
    others = {f.name for f in fields(LoweringOptions)} - {told}
    assert all(getattr(plain, other) == getattr(found, other) for other in others)


def test_no_option_is_forgotten() -> None:
    assert {f.name for f in fields(KernelOptions)} == {*OTHERS} | NOT_FOR_PASSES
