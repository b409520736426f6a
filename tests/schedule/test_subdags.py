"""The cut and its drawings."""

from __future__ import annotations

import pytest

from lowering.ground.errors import ScheduleError
from tests.schedule.fusions import COOPERATIVE, linear
from wsched.schedule import SubDags, schedule_matmul, subdags, subdags_text, to_dot


def test_cut() -> None:
    assert subdags(schedule_matmul(linear(), COOPERATIVE)) == SubDags(
        load=("T0", "T1", "T2", "T3", "T6", "T7"),
        compute=("T4", "T9", "T8", "T5"),
        cut=("T6", "T7"),
    )


def test_text(golden: object) -> None:
    assert subdags_text(schedule_matmul(linear(), COOPERATIVE)) == golden


def test_dot(golden: object) -> None:
    assert to_dot(schedule_matmul(linear(), COOPERATIVE)) == golden


def test_nothing_to_cut_at() -> None:
    with pytest.raises(ScheduleError) as error:
        subdags(linear())
    assert str(error.value).splitlines()[:2] == [
        "ScheduleError[subdags]: subdags: no tensor is loaded by TMA, there is nothing to cut at",
        "  legal here: cache_after('T2', LoadStoreOpType.CpAsyncBulkTensorTile); "
        "cache_after('T3', LoadStoreOpType.CpAsyncBulkTensorTile)",
    ]
