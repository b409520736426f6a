"""The loop nests of the four kernel classes."""

from __future__ import annotations

import pytest

from tests.batches import batched
from tests.schedule.fusions import CLASSES, PING_PONG, cached, linear, tile
from tests.schedule.relation import load_relation
from tests.schedules import dynamic
from wsched.front.known import import_fusion
from wsched.schedule import (
    loops_text,
    schedule_matmul,
)
from wsched.schedule.loops import side_by_side


@pytest.mark.parametrize("name", CLASSES)
def test_loops(name: str, golden: object) -> None:
    f = schedule_matmul(linear(), CLASSES[name])
    assert loops_text(f) + "\n" + str(load_relation(f)) == golden


def test_mn_major_operands(golden: object) -> None:
    """Stages are K rows by M or N columns; nothing else differs."""
    assert loops_text(schedule_matmul(linear(layout="nt"), PING_PONG)) == golden


def test_fp32_result_is_stored_from_the_accumulator(golden: object) -> None:
    assert loops_text(schedule_matmul(linear("Half", "Float"), PING_PONG)) == golden


def test_a_batch(golden: object) -> None:
    """One loop over the tiles of all matrices; a box is of one."""
    f = schedule_matmul(import_fusion(batched()), CLASSES["cooperative"])
    assert loops_text(f) + "\n" + str(load_relation(f)) == golden


@pytest.mark.parametrize("name", ["cooperative", "ping_pong"])
def test_side_by_side(name: str, golden: object) -> None:
    text = side_by_side(schedule_matmul(linear(), CLASSES[name]))
    assert max(map(len, text.splitlines())) <= 96, "indented by the demo, it fits into 100 columns"
    assert text == golden


@pytest.mark.parametrize("name", ["cooperative", "ping_pong"])
def test_tiles_that_are_dealt_out(name: str, golden: object) -> None:
    """The nests of the static schedule, and a line that says who gets which tile."""
    f = schedule_matmul(linear(), dynamic(CLASSES[name]))
    assert loops_text(f) + "\n" + str(load_relation(f)) == golden
    assert side_by_side(f).splitlines()[-1] in loops_text(f).splitlines()


def test_loops_of_one_label_and_two_extents() -> None:
    """A is loaded 62 of K at a time, B and the sum take 64: no extent hides another."""
    s = cached()
    for tv, step in (("T6", 62), ("T7", 64), ("T4", 64)):
        tile(s, tv, (128, 256, step), strided=True)
    below = side_by_side(s.fusion).split("extents\n")[1].splitlines()
    assert below == [
        "  tiles        = ceildiv(M, 128) * ceildiv(N, 256)",
        "  cta          = %nctaid.x",
        "  tile         = ceildiv(tiles, %nctaid.x)",
        "  k of T6      = ceildiv(K, 62)",
        "  k of T7, T4  = ceildiv(K, 64)",
        "  Mi           = 128",
        "  Ni           = 256",
        "  Ki of T6     = 62",
        "  Ki of T7, T4 = 64",
    ]


def test_merged_dimensions_of_one_label_and_two_extents() -> None:
    """A name that would stand for two extents is not given."""
    s = cached()
    for tv, rows in (("T6", 64), ("T7", 128), ("T4", 128)):
        tile(s, tv, (rows, 256, 64), strided=True)
    assert "tiles" not in side_by_side(s.fusion) + loops_text(s.fusion)
