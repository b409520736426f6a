"""Launches whose counters would overflow are refused, with the numbers."""

from __future__ import annotations

import pytest

from lowering.ground.dtypes import DType
from lowering.ground.errors import UnsupportedError
from tests.legality.builder import P, matmul
from tests.schedules import cooperative, definition, dynamic, stream_k
from wsched.front.known import import_fusion
from wsched.run.arguments import extents_of
from wsched.run.counts import LARGEST, ctas_of, require_countable
from wsched.run.row_kernel import row_kernel
from wsched.schedule import MatmulParams, Plan, plan_matmul
from wsched.schedule.plan import make_plan

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
        "2130706431. Take larger tiles, or more CTAs where each has tiles of its own"
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


def by_hand(traversal: int = 0, *, persistent: bool = True) -> Plan:
    m = matmul()
    m.tile(64, 64, 32)
    if persistent:
        m.deal(traversal=traversal)
        last, steps = "cta tile", "tile k"
    else:
        m.merge(m.every, "Mo No", "tiles", traversal)
        m.run(m.every, "tiles", P.BIDx)
        m.order(m.every, "tiles k")
        last, steps = "tiles", "k"
    m.steps(steps)
    m.stage()
    m.order(m.compute, last)
    m.fragments(last.split()[-1])
    m.inline(last.split()[-1])
    return make_plan(m.s.fusion)


def test_what_a_traversal_factor_comes_to() -> None:
    plan = by_hand(2**30)
    require_countable(plan, {"M": 64, "N": 64, "K": 64}, 2)
    with pytest.raises(UnsupportedError) as error:
        require_countable(plan, {"M": 64, "N": 128, "K": 64}, 2)
    assert str(error.value) == (
        "64 x 128 x 64 on 2 CTAs, where ceildiv(N, 64) * 1073741824 is 2147483648, is not "
        "supported; supported: at most 2130706431. Take smaller factors, or larger tiles"
    )


def test_ctas_along_x() -> None:
    plan, side = by_hand(persistent=False), 64 * 46159
    require_countable(plan, {"M": side, "N": side, "K": 64}, 46159**2)
    with pytest.raises(UnsupportedError) as error:
        require_countable(plan, {"M": side + 64, "N": side + 64, "K": 64}, 46160**2)
    assert str(error.value) == (
        "2954240 x 2954240 x 64 on 2130745600 CTAs, where ceildiv(M, 64) * ceildiv(N, 64) is "
        "2130745600, is not supported; supported: at most 2130706431. Take smaller factors, or "
        "larger tiles"
    )


def test_a_kernel_without_a_plan() -> None:
    """A copy of rows: 64 rows and 128 columns for each CTA."""
    kernel = row_kernel(DType.BF16)
    assert ctas_of(kernel, {"B": 3, "R": 65, "C": 129}) == 12
    assert ctas_of(kernel, {"B": 1, "R": LARGEST, "C": 1}) == -(-LARGEST // 64)
    with pytest.raises(UnsupportedError, match=rf"^R = {LARGEST + 1} is not supported"):
        ctas_of(kernel, {"B": 1, "R": LARGEST + 1, "C": 1})
    with pytest.raises(UnsupportedError, match=rf"^a grid of {2**31} CTAs is not supported"):
        ctas_of(kernel, {"B": 2**20, "R": 2**17, "C": 128})


def test_tensors_of_more_rows_than_a_coordinate_reaches() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    fusion = import_fusion(definition())
    w = torch.empty((8, 16), device="meta")
    x, y = (torch.empty((n, 16), device="meta") for n in (LARGEST, LARGEST + 1))
    assert extents_of(fusion, [x, w])["M"] == LARGEST
    with pytest.raises(UnsupportedError) as error:
        extents_of(fusion, [y, w])
    assert str(error.value) == (
        f"M = {LARGEST + 1} is not supported; supported: sizes of at most {LARGEST}"
    )
