"""What is changed around the edges after they fit: the rest of compute's nest."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lowering.ground.errors import ScheduleError
from tests.schedule.fusions import LOADS, NON_PERSISTENT, PING_PONG, linear
from wsched.fusion import MemoryType, ParallelType
from wsched.schedule import MatmulParams, Schedule, make_plan, schedule_matmul


def schedule(params: MatmulParams = PING_PONG) -> Schedule:
    """The built-in schedule, all primitives done."""
    return Schedule(schedule_matmul(linear(), params))


def serial_cta(s: Schedule) -> None:
    s.parallelize("T5", 0, ParallelType.Serial)


def group_before_tile(s: Schedule) -> None:
    s.reorder("T5", {1: 2})


def load_in_registers(s: Schedule) -> None:
    s.set_memory_type(LOADS[0], MemoryType.Local)


def staged_in_registers(s: Schedule) -> None:
    s.set_memory_type("T8", MemoryType.Local)


def fragments_in_shared_memory(s: Schedule) -> None:
    s.set_memory_type("T9", MemoryType.Shared)


def result_of_another_group(s: Schedule) -> None:
    """Nothing is inlined, and the other axis counts the groups of the result."""
    for tv in ("T4", "T9", "T8"):
        s.inline_at(tv, 0)
    s.parallelize("T5", 2, ParallelType.TIDz)


def all_tiles_at_once(s: Schedule) -> None:
    s.inline_at("T4", 1)


def three_tiles_in_a_turn(s: Schedule) -> None:
    """Sums of three tiles have a size that is known; but every other tile is another's."""
    for tv in ("T8", "T9", "T4"):
        s.inline_at(tv, 0)
    for tv in ("T4", "T9", "T8", "T5"):
        s.split(tv, 1, 3, labels=("three", "tile"))
    s.inline_at("T8", 4)
    s.inline_at("T9", 4)
    s.inline_at("T4", 2)


REFUSED: dict[str, Callable[[Schedule], None]] = {
    f.__name__: f
    for f in (
        serial_cta, group_before_tile, load_in_registers, staged_in_registers,
        fragments_in_shared_memory, result_of_another_group, all_tiles_at_once,
        three_tiles_in_a_turn,
    )
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, golden: object) -> None:
    s = schedule()
    make_plan(s.fusion)
    REFUSED[name](s)
    with pytest.raises(ScheduleError) as error:
        make_plan(s.fusion)
    assert str(error.value) == golden


def test_one_tile_needs_no_inlining() -> None:
    """Loops on CTAs and warpgroups part what is held all the same."""
    s = schedule(NON_PERSISTENT)
    for tv in ("T4", "T9", "T8"):
        s.inline_at(tv, 0)
    assert make_plan(s.fusion).operands.outside == 0
