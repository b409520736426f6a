"""parallelize: before, after, refusals."""

from __future__ import annotations

import pytest

from lowering.ground.errors import ScheduleError
from tests.schedule.fusions import COOPERATIVE, linear
from wsched.fusion import ParallelType
from wsched.schedule import parallelize, schedule_matmul


def test_parallelize() -> None:
    f = parallelize(linear(), "T5", 0, ParallelType.BIDx)
    assert str(f.tensor("T5")) == "T5_g___bfloat[ iblockIdx.x13{M}, iS14{N} ]"
    assert str(f.history[0]) == "parallelize('T5', 0, ParallelType.BIDx)"


def test_again_to_serial() -> None:
    f = parallelize(linear(), "T5", 0, ParallelType.BIDx)
    assert parallelize(f, "T5", 0, ParallelType.Serial).tensor("T5") == linear().tensor("T5")


@pytest.mark.parametrize(
    ("axis", "parallel", "why"),
    [
        (3, ParallelType.BIDx, "T4 has axes 0 to 2, not 3"),
        (1, ParallelType.TIDy, "TIDy already runs loop M"),
        (
            2,
            ParallelType.TIDx,
            "K is summed over: each of TIDx would be left with a partial sum, which only BIDz "
            "combines",
        ),
    ],
)
def test_refused(axis: int, parallel: ParallelType, why: str) -> None:
    f = parallelize(linear(), "T4", 0, ParallelType.TIDy)
    with pytest.raises(ScheduleError) as error:
        parallelize(f, "T4", axis, parallel)
    assert (error.value.rule, error.value.why) == ("parallelize", why)


@pytest.mark.parametrize("parallel", [ParallelType.BIDx, ParallelType.BIDy, ParallelType.TIDz])
def test_of_a_sum_is_said_which_ctas_may(parallel: ParallelType) -> None:
    """Unless they have a loop already."""
    for f, legal in (
        (linear(), ("parallelize('T4', 2, ParallelType.BIDz)",)),
        (parallelize(linear(), "T4", 0, ParallelType.BIDz), ()),
    ):
        with pytest.raises(ScheduleError) as error:
            parallelize(f, "T4", 2, parallel)
        assert error.value.legal == legal


def test_other_ctas_may_have_parts_of_a_sum() -> None:
    """Split-K: they combine them."""
    f = parallelize(linear(), "T4", 2, ParallelType.BIDz)
    assert f.tensor("T4").loop[2].parallel is ParallelType.BIDz


def test_buffered_tensor_is_refused() -> None:
    f = schedule_matmul(linear(), COOPERATIVE)
    with pytest.raises(ScheduleError) as error:
        parallelize(f, "T6", 1, ParallelType.Unroll)
    assert error.value.why == "T6 is circular-buffered: its loops are settled"
