from __future__ import annotations

import pytest

from lowering.ground.errors import ScheduleError
from tests.grouped import FORMS, grouped
from tests.schedule.fusions import linear
from wsched.front.known import import_fusion
from wsched.schedule import Schedule


def test_small_groups_come_last() -> None:
    s = Schedule(import_fusion(grouped()))
    s.delay_groups(64)
    assert s.fusion.groups is not None and s.fusion.groups.delayed == 64
    assert list(map(str, s.history)) == ["delay_groups(64)"]


@pytest.mark.parametrize("below", [0, -3, 2**16 + 1])
def test_refused(below: int) -> None:
    s = Schedule(import_fusion(grouped()))
    with pytest.raises(ScheduleError) as e:
        s.delay_groups(below)
    why = f"groups of less than {below}: a number from 1 to 65536"
    assert (e.value.rule, e.value.why) == ("delay_groups", why)


def test_twice() -> None:
    s = Schedule(import_fusion(grouped()))
    s.delay_groups(64)
    with pytest.raises(ScheduleError, match="groups of less than 64 are delayed already"):
        s.delay_groups(32)


def test_sums() -> None:
    s = Schedule(import_fusion(grouped(ranks=FORMS["sums"])))
    with pytest.raises(ScheduleError, match="no groups share out rows or columns of the result"):
        s.delay_groups(64)


def test_no_groups() -> None:
    with pytest.raises(ScheduleError, match="no groups share out rows or columns of the result"):
        Schedule(linear()).delay_groups(64)


@pytest.mark.parametrize("below", [True, "64", 6.4])
def test_arguments(below: object) -> None:
    s = Schedule(import_fusion(grouped()))
    with pytest.raises(ScheduleError) as e:
        s.delay_groups(below)  # type: ignore[arg-type]
    assert e.value.rule == "argument"
