"""circular_buffer: before, after, refusals."""

from __future__ import annotations

import pytest

from lowering.ground.errors import ScheduleError
from tests.schedule.fusions import ON_TIDY, cached, tile, tiled
from tests.schedules import SCHEDULES, definition
from wsched.front.known import import_fusion
from wsched.fusion import (
    CircularBuffer,
    CircularBufferType,
    ParallelType,
    Pipelined,
    WarpSpecialized,
)
from wsched.schedule import Schedule
from wsched.schedule.matmul.scheduler import schedule_matmul
from wsched.schedule.primitives.circular_buffer import circular_buffer


def merged() -> Schedule:
    s = tiled()
    s.merge("T6", 1)
    return s


def test_circular_buffer() -> None:
    s = merged()
    s.circular_buffer("T6", 4, 2, WarpSpecialized(ParallelType.TIDy, (40, 232), 2))
    assert s.tensor("T6").circular_buffer == CircularBuffer(
        4, 2, WarpSpecialized(ParallelType.TIDy, (40, 232), 2)
    )
    assert str(s.fusion.history[-1]) == (
        "circular_buffer('T6', 4, 2, WarpSpecialized(on=ParallelType.TIDy, "
        "num_registers=(40, 232), stage_slice_position=2))"
    )


def test_missing_merge() -> None:
    with pytest.raises(ScheduleError) as error:
        tiled().circular_buffer("T6", 4, 2, ON_TIDY)
    assert str(error.value).splitlines()[:3] == [
        "ScheduleError[circular_buffer]: circular_buffer('T6', 4, 2, "
        "WarpSpecialized(on=ParallelType.TIDy)): "
        "T6 has 2 serial loops left of position 3 (tile, k), a ring of stages is stepped through "
        "by one",
        "  legal here: merge('T6', 1, 2)",
        "  in:",
    ]


def offered(s: Schedule, kind: CircularBufferType = ON_TIDY) -> tuple[str, ...]:
    with pytest.raises(ScheduleError) as error:
        s.circular_buffer("T6", 4, 2, kind)
    return error.value.legal


def test_missing_box() -> None:
    """What the refusal offers is legal, and enough."""
    s = cached()
    tile(s, "T6", (128, 256, 64), strided=True)
    assert offered(s) == (
        "parallelize('T6', [3, 4, 5], ParallelType.Bulk)",
        "merge('T6', 1, 2)",
    )
    assert offered(s, Pipelined()) == offered(s)
    s.parallelize("T6", [3, 4, 5], ParallelType.Bulk)
    s.merge("T6", 1, 2)
    s.circular_buffer("T6", 4, 2, ON_TIDY)


def test_missing_part_of_a_box() -> None:
    s = merged()
    s.parallelize("T6", 2, ParallelType.Serial)
    assert offered(s) == ("parallelize('T6', [2], ParallelType.Bulk)",)


def test_chunks_of_a_dimension_are_no_box() -> None:
    """Of two parts of a dimension the inner one is in the box, the other one steps."""
    s = cached()
    tile(s, "T6", (128, 256, 64), strided=True)
    s.merge("T6", 1, 2)
    s.split("T6", 3, 64, labels=("chunk", "Ni"))
    s.reorder("T6", {3: 2})
    assert offered(s) == (
        "parallelize('T6', [3, 4, 5], ParallelType.Bulk)",
        "merge('T6', 1, 2)",
    )


def test_no_box_where_the_stage_is_said_to_begin() -> None:
    s = merged()
    for axis in (2, 3, 4):
        s.parallelize("T6", axis, ParallelType.Serial)
    assert offered(s, WarpSpecialized(ParallelType.TIDy, None, 3)) == ("merge('T6', 1, 2)",)


@pytest.mark.parametrize(
    ("stages", "prefetch", "kind", "why"),
    [
        (0, 0, ON_TIDY, "0 stages make no ring here, at least 1 do"),
        (1, 0, Pipelined(), "1 stages make no ring here, at least 2 do"),
        (4, 4, ON_TIDY, "prefetch 4 is not in 0 .. 3"),
        (4, 0, Pipelined(), "prefetch 0 is not in 1 .. 3"),
        (
            4,
            2,
            WarpSpecialized(ParallelType.BIDx),
            "warps cannot be specialized on BIDx, only on TIDx, TIDy or TIDz",
        ),
        (
            4,
            2,
            WarpSpecialized(ParallelType.TIDy, (20, 250)),
            "setmaxnreg takes multiples of 8 from 24 to 240, not 20; "
            "setmaxnreg takes multiples of 8 from 24 to 240, not 250",
        ),
        (
            4,
            2,
            WarpSpecialized(ParallelType.TIDy, (232, 40)),
            "the load warpgroup has 232 registers, more than 40 to compute",
        ),
        (
            4,
            2,
            WarpSpecialized(ParallelType.TIDy, None, 9),
            "the slice position 9 is not in 1 .. 5",
        ),
        (
            4,
            2,
            WarpSpecialized(ParallelType.TIDy, None, 0),
            "the slice position 0 is not in 1 .. 5",
        ),
        (
            4,
            2,
            WarpSpecialized(ParallelType.TIDy, None, 3),
            "loop Mi [Bulk] is left of the slice position 3",
        ),
        (
            4,
            2,
            WarpSpecialized(ParallelType.TIDy, None, 1),
            "T6 has 0 serial loops left of position 1 (none), a ring of stages is stepped through "
            "by one",
        ),
    ],
)
def test_refused(stages: int, prefetch: int, kind: CircularBufferType, why: str) -> None:
    with pytest.raises(ScheduleError) as error:
        merged().circular_buffer("T6", stages, prefetch, kind)
    assert (error.value.rule, error.value.why) == ("circular_buffer", why)


def test_only_loads_are_buffered_and_once() -> None:
    s = tiled()
    with pytest.raises(ScheduleError) as error:
        s.circular_buffer("T4", 4, 2, WarpSpecialized(ParallelType.TIDy, None, 2))
    assert error.value.why == (
        "T4 is no copy in shared memory: neither a TMA load or Set of global memory, nor StMatrix "
        "or Set of registers"
    )
    s = merged()
    s.circular_buffer("T6", 4, 2, ON_TIDY)
    with pytest.raises(ScheduleError) as error:
        s.circular_buffer("T6", 4, 2, ON_TIDY)
    assert error.value.why == "T6 is circular-buffered already"


def test_inlined_tensor_is_refused() -> None:
    s = tiled()
    s.inline_at("T6", 1)
    s.merge("T6", 1)
    with pytest.raises(ScheduleError) as error:
        s.circular_buffer("T6", 4, 2, ON_TIDY)
    assert error.value.why == (
        "T6 is inlined at 1: a load warpgroup shares no loop with the compute warpgroups"
    )


def test_cta_loop_inside_a_stage_is_refused() -> None:
    s = merged()
    s.reorder("T6", {0: 1})
    with pytest.raises(ScheduleError) as error:
        s.circular_buffer("T6", 4, 2, WarpSpecialized(ParallelType.TIDy, None, 1))
    assert error.value.why == "loop cta [BIDx] lies in a stage"


@pytest.mark.parametrize("name", ["coop_128x128", "pingpong_64x128"])
def test_of_what_warpgroups_hold_nothing_is_legal_instead(name: str) -> None:
    """Refused in words for every tensor of a whole schedule; no call of one with [Mma] helps."""
    fusion = schedule_matmul(import_fusion(definition()), SCHEDULES[name])
    for t in fusion.tensors:
        with pytest.raises(ScheduleError) as error:
            circular_buffer(fusion, t.name, 0, 5, WarpSpecialized(ParallelType.TIDy))
        if ParallelType.Mma in {d.parallel for d in t.loop}:
            assert error.value.legal == ()
        assert all(isinstance(call, str) for call in error.value.legal)
