"""The loop nests of the four kernel classes."""

from __future__ import annotations

import pytest

from tests.schedule.fusions import CLASSES, PING_PONG, linear
from wsched.schedule import load_relation, loops_text, schedule_matmul


@pytest.mark.parametrize("name", CLASSES)
def test_loops(name: str, golden: object) -> None:
    f = schedule_matmul(linear(), CLASSES[name])
    assert loops_text(f) + "\n" + str(load_relation(f)) == golden


def test_fp32_result_is_stored_from_the_accumulator(golden: object) -> None:
    assert loops_text(schedule_matmul(linear("Half", "Float"), PING_PONG)) == golden
