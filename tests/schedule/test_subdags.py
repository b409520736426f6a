"""The parts as text and as a drawing."""

from __future__ import annotations

from tests.schedule.fusions import COOPERATIVE, linear
from wsched.schedule import schedule_matmul, subdags_text, to_dot


def test_text(golden: object) -> None:
    assert subdags_text(schedule_matmul(linear(), COOPERATIVE)) == golden


def test_text_before_anything_is_loaded() -> None:
    lines = subdags_text(linear()).splitlines()
    assert [lines[0], lines[1], lines[-1]] == [
        "compute",
        "  T0_g___bfloat [M, K] = input",
        "  T5_g___bfloat [M, N] = cast(T4)",
    ]


def test_dot(golden: object) -> None:
    assert to_dot(schedule_matmul(linear(), COOPERATIVE)) == golden
