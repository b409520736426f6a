"""Shapes one after another: what is kept of them when, and how a run ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
import typer

from wsched.bench.method import shapes_run
from wsched.bench.method.shapes_run import INTERRUPTED, TIME_IS_UP, end, run_shapes
from wsched.bench.method.watch import Enough, Job
from wsched.bench.problem import Shape

SHAPES = tuple(Shape(8, 8, k) for k in (8, 16, 24))
NAMES = [str(s) for s in SHAPES]
JOB = Job(SHAPES, "bf16", "tn", {}, {})


class Worker:
    """In place of the process: a shape takes ten seconds; what was done is told in order.

    Args:
        patch: puts it there.
        last: of the shapes, what it raises instead of measuring.
    """

    def __init__(self, patch: pytest.MonkeyPatch, last: BaseException | None = None) -> None:
        self.told, self.now, self.last = list[tuple[Any, ...]](), 0.0, last
        patch.setattr(shapes_run, "run_process", self.run)
        patch.setattr(shapes_run, "progress_bar", self.bar)
        patch.setattr(shapes_run.time, "monotonic", lambda: self.now)

    @contextmanager
    def bar(self, total: int) -> Iterator[Callable[[int, str], None]]:
        yield lambda place, text: self.told.append((f"{place} of {total}", text))

    def run(
        self, job: Job, timeout: float, progress: Any, command: Any, *, finished: Any
    ) -> tuple[dict[str, Any], Job]:
        run: dict[str, Any] = {"complete": False, "environment": {"at": 2}, "shapes": {}}
        assert (timeout, command) == (60.0, ("worker",))
        with suppress(Enough):
            for shape in map(str, job.shapes):
                progress(shape, "cublas", "replay")
                if self.last is not None and shape == NAMES[-1]:
                    raise self.last
                self.now += 10.0
                run["shapes"][shape] = {"us": self.now}
                finished({"at": 1}, shape, run["shapes"][shape])
        run["complete"] = True
        return run, job

    def keep(self, environment: dict[str, Any], shapes: dict[str, dict[str, Any]]) -> None:
        self.told.append((environment["at"], {s: r["us"] for s, r in shapes.items()}))

    def measured(self, seconds: float) -> str:
        return run_shapes(JOB, ("worker",), 5, (seconds, 60.0), self.keep)


def test_each_result_is_kept_at_once_and_all_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Places are among all shapes, of which two were measured before."""
    worker = Worker(monkeypatch)
    assert worker.measured(0.0) == ""
    assert worker.told == [
        ("2 of 5", "8x8x8: cublas replay"), (1, {"8x8x8": 10.0}),
        ("3 of 5", "8x8x16: cublas replay"), (1, {"8x8x16": 20.0}),
        ("4 of 5", "8x8x24: cublas replay"), (1, {"8x8x24": 30.0}),
        (2, {"8x8x8": 10.0, "8x8x16": 20.0, "8x8x24": 30.0}),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("seconds", "shapes", "stopped"),
    [
        (5.0, 1, TIME_IS_UP), (10.0, 2, TIME_IS_UP), (15.0, 2, TIME_IS_UP), (20.0, 3, ""),
        (25.0, 3, ""),  # the last one is not cut off by its own time
    ],
)  # fmt: skip
def test_no_shape_is_begun_behind_the_end_of_the_time(
    seconds: float, shapes: int, stopped: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker(monkeypatch)
    assert worker.measured(seconds) == stopped
    assert [*worker.told[-1][1]] == NAMES[:shapes]


def test_what_was_measured_before_an_interrupt_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(monkeypatch, KeyboardInterrupt())
    assert worker.measured(0.0) == INTERRUPTED
    assert [kept for _, kept in worker.told if isinstance(kept, dict)] == [
        {"8x8x8": 10.0}, {"8x8x16": 20.0},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("stopped", "broken", "status", "said"),
    [
        ("", False, None, ""),
        ("", True, 1, ""),
        (TIME_IS_UP, False, None, "--seconds have passed: 2 of 3\n"),
        (TIME_IS_UP, True, 1, "--seconds have passed: 2 of 3\n"),
        (INTERRUPTED, False, 130, "interrupted: 2 of 3\n"),
        (INTERRUPTED, True, 130, "interrupted: 2 of 3\n"),
    ],
)
def test_the_end_of_a_command(
    stopped: str, broken: bool, status: int | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = None
    try:
        end(stopped, "2 of 3", broken)
    except typer.Exit as leave:
        found = leave.exit_code
    assert (found, capsys.readouterr()) == (status, ("", said))
