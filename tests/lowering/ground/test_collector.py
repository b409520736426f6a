from __future__ import annotations

import gc
from collections.abc import Iterator
from threading import Event, Thread

import pytest

from lowering.ground.collector import paused
from tests.epilogues import GELU
from tests.schedules import SCHEDULES
from wsched.importer import build_fusion, record_text
from wsched.run.compiled import compile_fusion


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """As it was, whatever a test does."""
    ran = gc.isenabled()
    gc.enable()
    yield
    (gc.enable if ran else gc.disable)()


def test_it_runs_again_behind_the_outermost_block() -> None:
    with paused():
        with paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_behind_an_error() -> None:
    with pytest.raises(ValueError, match="why"), paused():
        raise ValueError("why")
    assert gc.isenabled()


def test_who_turned_it_off_keeps_it_off() -> None:
    gc.disable()
    with paused():
        pass
    assert not gc.isenabled()


def test_another_thread_is_still_in_its_block() -> None:
    entered, leave = Event(), Event()

    def other() -> None:
        with paused():
            entered.set()
            leave.wait()

    thread = Thread(target=other)
    thread.start()
    entered.wait()
    with paused():
        pass
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled()


def test_nothing_is_collected_while_a_kernel_is_made() -> None:
    fusion = build_fusion(record_text(GELU))
    phases: list[str] = []
    gc.collect()
    gc.callbacks.append(lambda phase, _: phases.append(phase))
    try:
        made = compile_fusion(fusion, SCHEDULES["pingpong_128x128"])
        within = len(phases)
        assert made.source
    finally:
        gc.callbacks.pop()
    assert within <= 2  # the one, at most, that was due before it began or behind its end
