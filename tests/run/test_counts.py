"""Launches whose counters would overflow are refused, with the numbers."""

from __future__ import annotations

import pytest

from lowering.ground.errors import UnsupportedError
from tests.schedules import cooperative, definition, dynamic, stream_k
from wsched.front.known import import_fusion
from wsched.run.counts import LARGEST, require_countable
from wsched.schedule import MatmulParams, Plan, plan_matmul

SMALL = cooperative(64, 16, 16, groups=1, registers=None)
LARGE = {"M": 46336, "N": 46336, "K": 46336}
TILES, STEPS = 724 * 2896, 2896
"""Of the largest problem whose matrices have less than 2**31 elements."""


def of(params: MatmulParams) -> Plan:
    return plan_matmul(import_fusion(definition()), params)


def test_stream_k_counts_the_steps_of_all_tiles() -> None:
    share = -(-TILES * STEPS // 132)
    with pytest.raises(UnsupportedError) as error:
        require_countable(of(stream_k(SMALL)), LARGE, 132)
    assert str(error.value) == (
        "46336 x 46336 x 46336 on 132 CTAs, one of which counts "
        f"{TILES * STEPS + share + 2 * STEPS} steps, is not supported; supported: at most "
        "2147483647. Take larger tiles, or more CTAs where each has tiles of its own"
    )
    require_countable(of(stream_k(cooperative(128, 256))), LARGE, 132)


def test_tiles_of_its_own_are_few() -> None:
    require_countable(of(SMALL), LARGE, 132)
    with pytest.raises(UnsupportedError, match=f"counts {TILES * STEPS} steps"):
        require_countable(of(SMALL), LARGE, 1)


def test_one_cta_may_get_all_tiles() -> None:
    with pytest.raises(UnsupportedError, match=f"counts {TILES * STEPS} steps"):
        require_countable(of(dynamic(SMALL)), LARGE, 132)


def test_the_limit_is_a_number_of_steps() -> None:
    plan, steps = of(SMALL), LARGEST // 2896 // 724
    require_countable(plan, {"M": 46336, "N": 46336, "K": 16 * steps}, 1)
    with pytest.raises(UnsupportedError):
        require_countable(plan, {"M": 46336, "N": 46336, "K": 16 * (steps + 1)}, 1)
