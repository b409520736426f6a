from __future__ import annotations

import pytest

from lowering.ground.errors import ScheduleError
from lowering.ground.sharing import Sharing
from tests.grouped import FORMS, grouped
from wsched.front.known import import_fusion
from wsched.schedule import Schedule


def test_a_kernel_takes_some_groups() -> None:
    s = Schedule(import_fusion(grouped()))
    s.share_groups([128, 144], 1)
    assert s.fusion.groups is not None and s.fusion.groups.sharing == Sharing((128, 144), 1)
    assert list(map(str, s.history)) == ["share_groups((128, 144), 1)"]


@pytest.mark.parametrize(
    ("lengths", "own", "why"),
    [
        ((128,), 0, "lengths of tiles (128,): of two kernels or more, each at least 1"),
        ((64, 0), 0, "lengths of tiles (64, 0): of two kernels or more, each at least 1"),
        ((64, 64), 0, "tiles of 64 never pad a group less than those in front"),
        ((72, 64, 144), 0, "tiles of 144 never pad a group less than those in front"),
        ((128, 64), 2, "there are kernels 0 to 1, not 2"),
    ],
)  # fmt: skip
def test_refused(lengths: tuple[int, ...], own: int, why: str) -> None:
    s = Schedule(import_fusion(grouped()))
    with pytest.raises(ScheduleError) as e:
        s.share_groups(lengths, own)
    assert (e.value.rule, e.value.why) == ("share_groups", why)


def test_twice() -> None:
    s = Schedule(import_fusion(grouped()))
    s.share_groups((128, 144), 1)
    with pytest.raises(ScheduleError, match="2 kernels share the groups out already"):
        s.share_groups((128, 144), 0)


def test_sums() -> None:
    s = Schedule(import_fusion(grouped(ranks=FORMS["sums"])))
    with pytest.raises(ScheduleError, match="no groups share out rows or columns of the result"):
        s.share_groups((128, 144), 0)


@pytest.mark.parametrize(("lengths", "own"), [(128, 0), ((128, "144"), 0), ((128, 144), True)])
def test_arguments(lengths: object, own: object) -> None:
    s = Schedule(import_fusion(grouped()))
    with pytest.raises(ScheduleError) as e:
        s.share_groups(lengths, own)  # type: ignore[arg-type]
    assert e.value.rule == "argument"
