"""reorder: before, after, refusals."""

from __future__ import annotations

import pytest

from lowering.ground.errors import ScheduleError
from tests.schedule.fusions import COOPERATIVE, linear
from wsched.schedule import reorder, schedule_matmul


def test_reorder() -> None:
    f = reorder(linear(), "T4", {2: 0})
    assert [d.label for d in f.tensor("T4").loop] == ["K", "M", "N"]
    assert [d.label for d in f.tensor("T4").logical] == ["M", "N", "K"]
    assert str(f.history[0]) == "reorder('T4', {2: 0})"


@pytest.mark.parametrize(
    ("old2new", "why"),
    [
        ({0: 5}, "T4 has axes 0 to 2, not 5"),
        ({0: 1, 2: 1}, "two loops go to position 1"),
    ],
)
def test_refused(old2new: dict[int, int], why: str) -> None:
    with pytest.raises(ScheduleError) as error:
        reorder(linear(), "T4", old2new)
    assert (error.value.rule, error.value.why) == ("reorder", why)


def test_shared_and_buffered_loops_are_refused() -> None:
    f = schedule_matmul(linear(), COOPERATIVE)
    with pytest.raises(ScheduleError) as error:
        reorder(f, "T4", {4: 1})
    assert error.value.why == "T4 is inlined at 3: its outer loops are shared"
    assert reorder(f, "T4", {4: 5}).tensor("T4").loop[4].label == "m64"
    with pytest.raises(ScheduleError) as error:
        reorder(f, "T6", {2: 3})
    assert error.value.why == "T6 is circular-buffered: its loops are settled"
