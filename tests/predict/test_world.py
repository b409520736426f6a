"""Which CTAs stand for all of a launch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from lowering.ground.errors import UnsupportedError
from lowering.target.hopper import HOPPER
from tests.schedules import SCHEDULES, cooperative, definition
from wsched import Schedule
from wsched.front.own import kernel_of
from wsched.front.sizes import Extents, kernel_for
from wsched.predict.world import World, resident, world_of
from wsched.schedule.matmul.params import MatmulParams

SIZES = Extents(2048, 2048, 1024)


def world(params: MatmulParams, extents: Extents = SIZES, sms: int = 132) -> World:
    kernel = kernel_for(definition(), extents, sms, params)
    return world_of(kernel, extents, extents.problem(kernel.fusion, sms))


def test_the_first_cta_has_most_tiles() -> None:
    found = world(SCHEDULES["coop_128x128"])
    assert (found.grid, found.resident, found.about) == (132, 1, "CTA 0 of 132, on an SM")
    assert found.extents == {"B": 1, "H": 1, "M": 2048, "N": 2048, "K": 1024, "1": 1}


@pytest.mark.parametrize(("most", "whole"), [(None, True), (32, True), (31, False)])
def test_with_more_steps_than_asked_for_a_smaller_problem_stands_for_it(
    most: int | None, whole: bool
) -> None:
    """A CTA has two tiles of 16 steps at most."""
    kernel = kernel_for(definition(), SIZES, 132, SCHEDULES["coop_128x128"])
    found = world_of(kernel, SIZES, SIZES.problem(kernel.fusion, 132), most)
    assert (found.resident == 1, found.extents["M"] == 2048) == (whole, whole)


def test_a_cluster_runs_on_as_many_sms() -> None:
    found = world(SCHEDULES["cluster_2x2"])
    assert (found.grid, found.resident) == (120, 1)  # 30 clusters of four find a place
    assert found.about == "CTAs 0 to 3 of 120, on 4 SMs"


def test_more_ctas_than_sms_share_one() -> None:
    """Registers and shared memory say how many are there together, and not more than come."""
    small = cooperative(128, 64, stages=2, persistent=False, registers=None)
    assert world(small, sms=400).resident == 2  # 512 CTAs
    found = world(small, sms=100)
    assert found.resident is not None and 2 <= found.resident <= 6
    assert found.about.startswith(f"CTAs 0 to {found.resident - 1} of 512, on an SM")
    alone = world(cooperative(128, 256, persistent=False), sms=50)
    assert (alone.resident, alone.about) == (1, "CTA 0 of 128, on an SM, the first of 3 rounds")


@pytest.mark.parametrize(
    ("name", "m", "n", "ctas"),
    [
        ("dynamic", 128, 256, 1),  # one round of 128 tiles
        ("dynamic_1_group", 64, 512, 1),  # 512 tiles are four rounds
        ("dynamic_cluster_2x2", 256, 768, 4),  # 64 clusters of tiles for 30 places
        ("exchanged_dynamic", 64, 512, 1),  # 512 of 128 columns by 64 rows
        ("split_2", 128, 512, 2),  # 512 parts are four rounds of 66 tiles
        ("split_cluster", 256, 512, 4),
        ("stream_k", 128, 256, 1),  # 256 tiles by 132 are 1.94 each
        ("stream_k_1_group", 64, 1984, 4),  # 512 by 132 are 3.88: 31 / 8, or 4 / 1 as well
    ],
)
def test_where_ctas_meet_a_smaller_problem_has_as_many_tiles(
    name: str, m: int, n: int, ctas: int
) -> None:
    found = world(SCHEDULES[name])
    assert found.resident is None and (found.extents["M"], found.extents["N"]) == (m, n)
    assert found.extents["K"] == 1024
    word = "CTAs" if ctas > 1 else "CTA"
    assert found.about == f"{ctas} {word} of {m}x{n}x1024 stand for those of 2048x2048x1024"


def test_no_more_rows_than_the_problem_has_where_columns_suffice() -> None:
    found = world(SCHEDULES["dynamic"], Extents(8, 256 * 132 * 3, 64))
    assert (found.extents["M"], found.extents["N"]) == (8, 768)
    found = world(SCHEDULES["dynamic"], Extents(8192, 8, 64), sms=20)
    assert (found.extents["M"], found.extents["N"]) == (512, 8)
    found = world(SCHEDULES["dynamic"], Extents(384, 768, 64), sms=2)  # 5 tiles of 3 by 3
    assert (found.extents["M"], found.extents["N"]) == (640, 256)


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "ctas"),
    [
        (128, 32, 0, 16),
        (1024, 32, 0, 2),
        (256, 64, 0, 4),
        (128, 33, 0, 12),
        (128, 40, 0, 12),
        (128, 41, 0, 10),
        (128, 32, 115712, 2),
        (128, 32, 115713, 1),
        (384, 168, 199 * 1024, 1),
    ],
)
def test_so_many_ctas_fit_an_sm(threads: int, registers: int, shared: int, ctas: int) -> None:
    """2048 threads, 65536 registers that a thread has in steps of 8, 228 KiB of which each CTA
    takes one more.
    """
    kernel = SimpleNamespace(threads=threads, shared_bytes=shared, target=HOPPER, tensor_columns=0)
    made = SimpleNamespace(kernel=kernel, resources=SimpleNamespace(registers=registers))
    assert resident(cast(Any, made)) == ctas


def test_what_no_rule_picks() -> None:
    schedule = Schedule.of(definition(), SCHEDULES["split_2"])
    kernel = kernel_of(schedule)
    with pytest.raises(UnsupportedError, match="written call by call, whose CTAs meet is not"):
        world_of(kernel, SIZES, SIZES.problem(kernel.fusion, 132))
    with pytest.raises(UnsupportedError, match="a time line of 0x64x64, which has no element"):
        world(SCHEDULES["coop_128x128"], Extents(0, 64, 64))
