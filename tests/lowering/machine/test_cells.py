"""Cells of tensor memory: which columns are whose, and which accesses come behind which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from lowering.kernel.sync import CtaSync
from lowering.machine.cells import Cells, MmaQueue, Ordered, together
from lowering.machine.errors import FaultError
from lowering.machine.order import Events, Known
from lowering.machine.scheduler import Effect, Scheduler
from lowering.target.tensor_memory import TensorMemory

MEMORY = TensorMemory(128, 512, 32)
WHERE = "at `cta.sync`"


@dataclass(frozen=True)
class Someone:
    """Who does something."""

    who: str
    rank: int = 0


def cells(count: int = 1, size: int = 1) -> list[Cells]:
    found = [Cells(MEMORY, Events()) for _ in range(count)]
    together(found, size)
    return found


def scheduler(adversary: str = "eager") -> Scheduler:
    return Scheduler(adversary, "", 1)


def by(them: Cells, who: str) -> int:
    """An access of somebody."""
    actor: Any = Someone(who)
    return them.events.add(actor, CtaSync())


def refused(do: Any, *args: Any) -> str:
    with pytest.raises(FaultError) as raised:
        do(*args)
    return str(raised.value.args[0])


def test_columns_are_given_from_the_end() -> None:
    """As many behind as there are, at multiples of their count; none where there is no room."""
    (them,), at = cells(), scheduler()
    for columns in (64, 32, 256, 128, 32, 32):
        them.ask(columns, at)
    assert [them.granted(n, at) for n in range(6)] == [448, 416, 0, 256, 384, None]
    assert them.allocated == {448: 64, 416: 32, 0: 256, 256: 128, 384: 32}
    assert them.granted(2, at) == 0  # again
    del them.allocated[416]
    assert them.granted(5, at) == 416
    assert them.granted(6, at) is None  # nobody has asked


def test_a_pair_is_given_the_same_columns() -> None:
    """When both have asked, where both have room; who waits may then go on."""
    (one, other, apart, last), at = cells(4, 2), scheduler()
    assert (one.group, apart.group) == ([one, other], [apart, last])
    waiting: Any = Someone("a warp")
    assert one.ask(64, at) == 0 and one.granted(0, at) is None
    one.waiters.append(waiting)
    assert other.ask(64, at) == 0
    assert at.runnable == [waiting] and not one.waiters
    other.waiters.append(waiting)
    assert one.granted(0, at) == other.granted(0, at) == 448
    assert at.runnable == [waiting, waiting]
    assert one.allocated == other.allocated == {448: 64} and not apart.allocated
    other.allocated[384] = 32
    for each in (one, other):
        each.ask(64, at)
    assert other.granted(1, at) == 320 and one.given == [448, 320]
    one.ask(32, at)
    other.ask(64, at)
    assert refused(one.granted, 2, at) == "CTAs of a pair allocate 32 and 64 columns"


def test_columns_that_are_not_allocated() -> None:
    (them,) = cells()
    them.allocated = {32: 64, 96: 32}
    for columns in (range(32, 96), range(32, 33), range(95, 96), range(96, 128)):
        them.require(columns, "who reads")
    for columns in (range(31, 40), range(90, 100), range(128, 129)):
        assert refused(them.require, columns, "who reads") == (
            f"who reads columns {columns.start} .. {columns.stop} of tensor memory, which are not "
            "allocated"
        )


NO_WAIT = ": no wait for a tcgen05.commit behind it with a tcgen05.fence after"


def test_a_product_behind_products_and_loads() -> None:
    (them,) = cells()
    first, load = by(them, "P"), by(them, "L")
    them.write(first, range(32, 64), 0, 0)
    them.write(by(them, "Q"), range(0, 32), 0, 0)  # beside it
    assert refused(them.write, 9, range(63, 65), 0, 0) == (
        f"tensor memory overwrites P {WHERE}{NO_WAIT}"
    )
    them.write(first, range(32, 64), 0, 1 << first)  # the same thread's
    assert refused(them.read, load, range(0, 33), 1 << 3) == (
        f"tensor memory is loaded, but overtakes P {WHERE}{NO_WAIT}"
    )
    them.read(load, range(40, 48), 1 << first)
    second = by(them, "R")
    them.write(second, range(48, 64), 1 << first, 0)
    them.write(second, range(32, 40), 1 << first, 0)
    assert them.reads == [(load, range(40, 48))]
    assert refused(them.write, second, range(47, 48), 1 << first, 1 << load) == (
        f"a product overwrites what L {WHERE} may still read"
    )
    them.read(load, range(40, 48), 1 << first)
    them.write(second, range(40, 41), 1 << first | 1 << load, 0)
    assert not them.reads


def test_columns_that_are_in_use_are_not_freed() -> None:
    (them,) = cells()
    product, load = by(them, "P"), by(them, "L")
    them.write(product, range(0, 32), 0, 0)
    assert refused(them.free, range(0, 32), 0) == (
        f"tensor memory is freed, but in use by P {WHERE}{NO_WAIT}"
    )
    them.free(range(32, 64), 0)
    them.read(load, range(0, 8), 1 << product)
    assert refused(them.free, range(0, 32), 1 << product) == (
        f"tensor memory is freed, but in use by L {WHERE}"
    )
    them.read(load, range(0, 8), 1 << product)
    them.free(range(0, 32), 1 << product | 1 << load)


def test_the_end_of_a_pair() -> None:
    """All is given back, and each knows that the other one has."""
    one, other = cells(2, 2)
    one.allocated = {0: 32, 64: 64}
    assert refused(one.ended, 0) == "the CTA ends with 96 columns of tensor memory allocated"
    order = (
        "the CTA ends, and nothing orders that behind tcgen05.dealloc of the other one of its pair"
    )
    assert refused(other.ended, 1) == order
    one.allocated, one.freed = {}, 3
    assert refused(other.ended, 0b10111) == order
    other.ended(1 << 3)
    one.ended(1)


def test_products_of_a_thread_happen_in_order() -> None:
    at, queue, seen = scheduler("lazy"), MmaQueue(), list[int]()
    someone: Any = Someone("a warp")
    for number in range(3):
        queue.issue(Effect(lambda number=number: seen.append(number), someone, CtaSync()), at)
    for number in range(3):
        assert len(at.effects) == number + 1 and len(queue.flying) == 3 - number
        at.effects[number].apply()
    assert seen == [0, 1, 2] and not queue.flying
    queue.issue(Effect(lambda: seen.append(9), someone, CtaSync()), at)
    assert len(at.effects) == 4


def test_what_threads_know_of_accesses() -> None:
    """The elected thread what it was told of alone, and all of them what all were."""
    state = Ordered()
    state.fence_after(Known(everyone=1, each=2, one=4), True)
    assert (state.known(True), state.known(False)) == (1 | 4, 0)
    state.fence_after(Known(everyone=8, each=32, one=64), False)
    assert (state.known(True), state.known(False)) == (1 | 4 | 8 | 32, 8 | 32)
    state.waited = 16
    for elected, expected in ((False, (16, 0)), (True, (0, 16))):
        told = Known()
        state.fence_before(told, elected)
        assert (told.everyone, told.each, told.one) == (0, *expected)
