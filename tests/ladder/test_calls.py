"""Calls as a reader sees them."""

from __future__ import annotations

from tests.rungs import scheduled
from wsched import Schedule
from wsched.ladder.calls import lines_of
from wsched.ladder.rungs import DEFINITION


def lines(number: int) -> tuple[str, ...]:
    return lines_of(Schedule(DEFINITION), scheduled(number).history)


def test_tensors_and_loops_have_names(golden: object) -> None:
    assert "".join(f"{x}\n" for x in lines(10)) == golden


def test_a_decision_is_few_lines() -> None:
    """What is the same on both rungs is written in the same way."""
    first, second = map(set, (lines(1), lines(2)))
    assert second - first == {'s[acc].split("K", 64)', 's[a, b].split("K", 64)'}
    staged, deeper = map(set, (lines(7), lines(8)))
    assert [x.partition("(")[0] for x in deeper - staged] == ["s[a, b].circular_buffer"]


def test_calls_are_made_on_the_schedule_that_is_given() -> None:
    start, made = Schedule(DEFINITION), scheduled(1)
    lines_of(start, made.history)
    assert start.fusion == made.fusion
