"""mbarriers step by step."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from lowering.machine.barriers import MBarrier, NamedBarrier, heard
from lowering.machine.errors import FaultError
from lowering.machine.order import Known
from lowering.machine.scheduler import Scheduler

SCHEDULER = Scheduler("eager", "", 1)
WARP = cast(Any, SimpleNamespace(known=Known(), elected=True, stmt=None))


def barrier(arrivals: int = 1) -> MBarrier:
    bar = MBarrier("full[0]")
    bar.init(arrivals, WARP)
    bar.fenced = True
    return bar


def fault(call: Any, *args: Any, **kwargs: Any) -> str:
    with pytest.raises(FaultError) as error:
        call(*args, **kwargs)
    return str(error.value)


def test_parity_of_a_fresh_barrier() -> None:
    """Parity 1 passes before anything happened, parity 0 after the first phase."""
    bar = barrier()
    assert bar.passed(1)
    assert not bar.passed(0)
    bar.arrive(1, 0, SCHEDULER)
    assert bar.passed(0)
    assert not bar.passed(1)
    bar.arrive(1, 0, SCHEDULER)
    assert bar.passed(1)


def test_phase_needs_arrivals_and_bytes() -> None:
    bar = barrier(2)
    bar.arrive(1, 0, SCHEDULER, announced=32)
    bar.complete(32, 0, SCHEDULER)
    assert bar.phase == 0
    bar.arrive(1, 0, SCHEDULER)
    assert (bar.phase, bar.pending, bar.missing) == (1, 2, 0)


def test_bytes_may_land_before_they_are_announced() -> None:
    bar = barrier()
    bar.complete(32, 0, SCHEDULER)
    assert bar.missing == -32
    bar.arrive(1, 0, SCHEDULER, announced=48)
    assert bar.text(0) == "full[0] parity 0: phase 0 lacks 0 of 1 arrivals and 16 bytes"
    bar.complete(16, 0, SCHEDULER)
    assert bar.passed(0)


def test_faults() -> None:
    bar = MBarrier("full[0]")
    assert fault(bar.arrive, 1, 0, SCHEDULER) == "full[0] is arrived at but not initialized"
    assert fault(bar.passed, 0) == "full[0] is waited for but not initialized"
    assert fault(bar.inval, WARP) == "full[0] is invalidated but not initialized"
    assert fault(bar.init, 0, WARP) == "full[0] is initialized with 0 arrivals"
    bar.init(1, WARP)
    assert fault(bar.init, 1, WARP) == "full[0] is initialized twice"
    assert fault(bar.complete, 8, 0, SCHEDULER) == (
        "full[0] is signalled by a load before a fence.mbarrier_init after its init"
    )
    assert fault(bar.passed, 2) == "full[0] is waited for with parity 2"
    assert fault(bar.arrive, 2, 0, SCHEDULER) == (
        "2 arrivals at full[0], which awaits 1 of its 1 in phase 0"
    )
    assert fault(bar.arrive, 1, 0, SCHEDULER, announced=1 << 20) == (
        "full[0] misses 1048576 bytes, the limit is 1048575"
    )
    bar.inval(WARP)
    assert fault(bar.inval, WARP) == "full[0] is invalidated but not initialized"


def test_more_bytes_than_announced() -> None:
    bar = barrier()
    bar.arrive(1, 0, SCHEDULER, announced=32)
    assert fault(bar.complete, 48, 0, SCHEDULER) == (
        "16 bytes more than announced landed on full[0] in phase 0"
    )


def test_a_phase_tells_of_what_came_before_its_end() -> None:
    """Not of what is released behind it, until the next one ends; nothing is told of by itself."""
    bar = barrier()
    bar.release(0b100)
    assert bar.told == 0
    bar.arrive(1, 0, SCHEDULER)
    assert bar.told == 0b100
    bar.release(0b1000)
    assert bar.told == 0b100
    bar.arrive(1, 0, SCHEDULER)
    bar.arrive(1, 0, SCHEDULER)
    assert (bar.phase, bar.told) == (3, 0b1100)
    bar.inval(WARP)
    bar.init(1, WARP)
    assert (bar.phase, bar.told) == (0, 0)


def told(**events: int) -> MBarrier:
    bar = MBarrier("full[0]", phase=3)
    bar.told, bar.coming = events.get("told", 0), events.get("coming", 0)
    return bar


@pytest.mark.parametrize(
    ("bars", "known", "said"),
    [
        ([], 0, "no barrier tells of the first yet"),
        ([told(told=0b1011, coming=0b11)], 0b1010, "no barrier tells of the first yet"),
        ([told(coming=0b100)], 0b1011,
         "phase 3 of full[0] will tell of the first, but is not over"),
        ([told(told=0b100), told(coming=0b100)], 0, "full[0] would tell of the first"),
        ([told(told=0b100)], 0b100, "full[0], turn[1] would tell of the first"),
        ([told(coming=0b100)], 0b110, "turn[1] would tell of the first"),
    ],
)  # fmt: skip
def test_who_tells_of_an_event(bars: list[MBarrier], known: int, said: str) -> None:
    """Of number 2: phases that are over first, then those that are not."""
    named = NamedBarrier("turn[1]", 64, known=known)
    assert heard(2, bars, [named, named]) == said
