"""Workers that prepare beside each other and measure alone."""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

import pytest

from tests.bench.fakes import FakeSampler
from wsched.bench.gemm.worker import measure_each
from wsched.bench.method.shapes_run import TIME_IS_UP, run_beside
from wsched.bench.method.turns import Enough, Turns
from wsched.bench.method.watch import BenchError, Job
from wsched.bench.problem import Shape

SHAPES = tuple(Shape(8, 8, k) for k in (8, 16, 24))
NAMES = [str(s) for s in SHAPES]
WITHIN_S = 60.0


class Workers:
    """Threads that go through their turns when they are told to; what they did in order."""

    def __init__(self, count: int, at_once: int) -> None:
        self.turns, self.told = Turns(count, at_once), list[str]()
        self.prepared, self.measured = ([threading.Event() for _ in range(count)] for _ in "ab")
        self._changed = threading.Condition()
        self._threads = [threading.Thread(target=self._run, args=(i,)) for i in range(count)]

    def __enter__(self) -> Workers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for event in (*self.prepared, *self.measured):
            event.set()
        for thread in self._threads:
            thread.join(WITHIN_S)

    def _tell(self, what: str) -> None:
        with self._changed:
            self.told.append(what)
            self._changed.notify_all()

    def _run(self, place: int) -> None:
        try:
            with self.turns.of(place) as turn:
                self._tell(f"{place} prepares")
                self.prepared[place].wait(WITHIN_S)
                turn.come()
                self._tell(f"{place} measures")
                self.measured[place].wait(WITHIN_S)
                turn.come()  # a second time, for a worker that was started anew: nothing waits
        except Enough:
            self._tell(f"{place} is left")

    def heard(self, *what: str) -> bool:
        """Whether all of it was told within the time."""
        with self._changed:
            return self._changed.wait_for(lambda: {*what} <= {*self.told}, WITHIN_S)


def test_nobody_measures_while_others_prepare() -> None:
    with Workers(3, 2) as w:
        assert w.heard("0 prepares", "1 prepares") or w.heard("0 prepares", "2 prepares")
        assert len(w.told) == 2  # two at a time
        for event in w.prepared[:2]:
            event.set()
        assert w.heard("0 prepares", "1 prepares", "2 prepares")
        assert len(w.told) == 3  # two are prepared, the third still prepares
        w.prepared[2].set()
        for event in w.measured:
            event.set()
        assert w.heard(*(f"{i} measures" for i in range(3)))


def test_one_measures_at_a_time() -> None:
    with Workers(2, 2) as w:
        for event in w.prepared:
            event.set()
        assert w.heard("0 prepares", "1 prepares")
        with w._changed:
            assert w._changed.wait_for(lambda: len(w.told) == 3, WITHIN_S)
        first = int(w.told[-1][0])
        w.measured[first].set()
        assert w.heard(f"{1 - first} measures")


def test_who_is_not_prepared_is_left_and_the_others_measure() -> None:
    with Workers(3, 2) as w:
        with w._changed:
            assert w._changed.wait_for(lambda: len(w.told) == 2, WITHIN_S)
        first, second = (int(t[0]) for t in w.told)
        w.prepared[first].set()
        third = 3 - first - second
        assert w.heard(f"{third} prepares")
        assert w.turns.leave_unprepared()
        for place in (second, third):
            assert f"{first} measures" not in w.told  # before their processes have ended
            w.prepared[place].set()
            assert w.heard(f"{place} is left")
        assert w.heard(f"{first} measures")
        assert not w.turns.leave_unprepared()


def test_a_worker_waits_for_its_turn_behind_what_it_prepares(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events: list[dict[str, Any]] = []

    class Said:
        def readline(self) -> str:
            events.append({"event": "waits"})
            return "\n"

    monkeypatch.setattr(sys, "stdin", Said())
    job = {"shapes": [(8, 8, 8)], "excluded": {}}
    for turns, between in ((True, ["prepared", "waits"]), (False, [])):
        events.clear()
        measure_each(job | {"turns": turns}, events.append, Shape, lambda *_: dict)
        assert [e["event"] for e in events] == ["step", *between, "shape"]


def run(
    spec: dict[str, Any], seconds: float = 0.0, at_once: int = 2
) -> tuple[str, dict[str, dict[str, Any]], int]:
    """How a run of fake workers ends, the results, and how many tellings there were."""
    spec = {"times": {"cublas": 10.0, "wsched": 8.0}, **spec}
    job = Job(SHAPES, "bf16", "tn", dict.fromkeys(spec["times"]), {"rounds": 2, "replay_ms": 0.1})
    found: dict[str, dict[str, Any]] = {}
    calls = 0

    def keep(environment: dict[str, Any], shapes: dict[str, dict[str, Any]]) -> None:
        nonlocal calls
        calls += 1
        assert environment == {"gpu": {"name": "fake"}}
        found.update(shapes)

    command = (sys.executable, "-m", "tests.bench.fakes", json.dumps(spec))
    return run_beside(job, command, 5, (seconds, 30.0), at_once, keep), found, calls


@pytest.mark.slow
def test_a_process_for_each_shape() -> None:
    stopped, found, calls = run({})
    assert (stopped, sorted(found), calls) == ("", sorted(NAMES), 6)
    assert {r["systems"]["wsched"]["status"] for r in found.values()} == {"ok"}
    assert found[NAMES[0]]["clocks"] == FakeSampler().stop()


@pytest.mark.slow
def test_who_breaks_in_its_turn_measures_in_a_fresh_process() -> None:
    stopped, found, _ = run({"bad": {"wsched": "broken"}})
    assert (stopped, sorted(found)) == ("", sorted(NAMES))
    for result in found.values():
        assert result["systems"]["cublas"]["status"] == "ok"
        assert result["systems"]["wsched"]["status"] == "failed"


@pytest.mark.slow
def test_what_is_not_prepared_in_time_is_left() -> None:
    stopped, found, _ = run({}, seconds=1e-6)
    assert (stopped, found) == (TIME_IS_UP, {})


@pytest.mark.slow
def test_an_error_of_no_system_is_told_behind_the_others() -> None:
    with pytest.raises(BenchError, match="no random numbers"):
        run({"bad": {"": "draw"}})
