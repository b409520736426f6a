"""The command: lines of JSON, going on, one kernel again, and what hangs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from typer.testing import CliRunner

from lowering.ground.errors import ScheduleError, UnsupportedError
from wsched.cli.app import app
from wsched.stress import command, run
from wsched.stress.launches import Where
from wsched.stress.results import Failure, Row, read_rows, summary
from wsched.stress.run import Plan, rows

torch = pytest.importorskip("torch", reason="torch is not installed")

ROOT = Path(__file__).resolve().parents[2]
QUICK = ["stress", "--largest", "40", "--each", "1"]


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_device", lambda: "cpu")


def stress(*arguments: str) -> Any:
    return CliRunner().invoke(app, [*QUICK, *arguments])


def test_a_run_and_its_second_half(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    done = stress("--count", "2", "--json", str(path))
    assert done.exit_code == 0, done.output
    assert "2 launches of 2 kernels in" in done.output
    assert "none wrong" in done.output
    done = stress("--count", "1", "--json", str(path), "--resume")
    assert done.exit_code == 0, done.output
    assert "before: 2 launches of 2 kernels" in done.output
    head, *found = map(json.loads, path.read_text().splitlines())
    assert head["command"] == {"seed": 0, "device": "cpu", "largest": 40}
    assert [r["kernel"] for r in found] == [0, 1, 2]
    assert all(r["launches"] == 1 and r["failures"] == [] for r in found)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("more", "text"),
    [
        (["--json", "{}"], "is not supported; supported: a new file, or --resume"),
        (["--json", "{}", "--resume", "--seed", "5"], "of a run with other options"),
        (["--resume"], "--resume without --json is not supported"),
        (["--only", "x"], "--only x: numbers of a kernel and a launch, 12.3 or 12"),
        (["--only", "3."], "--only 3.: numbers of a kernel and a launch, 12.3 or 12"),
        (["--only", "9" * 5000], "9: numbers of a kernel and a launch, 12.3 or 12"),
    ],
)
def test_what_is_refused(more: list[str], text: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    assert stress("--count", "1", "--json", str(path)).exit_code == 0
    done = stress(*(a.format(path) for a in more))
    assert done.exit_code != 0
    assert text in " ".join(f"{done.output} {done.exception}".replace("│", "").split())


def test_one_again() -> None:
    done = stress("--only", "1.0")
    assert done.exit_code == 0, done.output
    assert "def nvfuser_fusion(fd : FusionDefinition) -> None :" in done.output
    assert "tiling_strategy: " in done.output
    assert "1 launches of 1 kernels" in done.output


def test_a_failure_says_how_to_draw_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    failure = Failure(3, "8x8x8, rows 0 elements apart", "2 elements are beyond the bound")
    monkeypatch.setattr(
        run, "judged", lambda _, worked, numbers: Row(worked.number, "k", 1, 0, 0.1, (failure,))
    )
    done = stress("--count", "1", "--seed", "9")
    assert done.exit_code == 1
    assert (
        "WRONG k on 8x8x8, rows 0 elements apart: 2 elements are beyond the bound "
        "(--seed 9 --largest 40 --only 0.3)\n"
    ) in done.output
    assert "1 WRONG" in done.output


def test_what_is_refused_is_told_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "rows.json"
    row = Row(0, "k", 1, 2, 0.1, (), untaken=(3, "this is not supported; supported: that"))
    unmade = Row(1, "", 0, 0, 0.0, (), "ScheduleError[smem]: this: why")
    monkeypatch.setattr(command, "rows", lambda *_: iter((row, unmade)))
    done = stress("--count", "1", "--json", str(path))
    assert done.exit_code == 0, done.output
    assert (
        "2 refused by k: this is not supported; supported: that "
        "(--seed 0 --largest 40 --only 0.3)\n"
        "unmade: ScheduleError[smem]: this: why (--seed 0 --largest 40 --only 1)\n"
    ) in done.output
    assert "none wrong, 2 refused, 1 kernels unmade" in done.output
    assert read_rows(path, {"seed": 0, "device": "cpu", "largest": 40}) == [row, unmade]


@pytest.mark.parametrize("error", [ScheduleError("smem", "this", "why"), KeyError("a defect")])
def test_a_kernel_that_is_not_made(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(where: Where, number: int) -> None:
        raise error

    monkeypatch.setattr(run, "drawn_kernel", refuse)
    plan = Plan(Where("cpu", 40, 0), 1, 0.5, 1, 1)
    first = next(iter(rows(plan, ())))
    if isinstance(error, ScheduleError):
        assert (first.unmade, first.failures) == ("ScheduleError[smem]: this: why", ())
    else:
        assert [f.wrong for f in first.failures] == ["KeyError: 'a defect'"]


def test_a_device_that_is_lost_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    failure = Failure(-1, "", "RuntimeError: CUDA error")
    monkeypatch.setattr(run, "lives", lambda where: False)
    monkeypatch.setattr(
        run, "judged", lambda _, worked, numbers: Row(worked.number, "k", 1, 0, 0.1, (failure,))
    )
    assert len(list(rows(Plan(Where("cpu", 40, 0), 100, 60, 1, 1), ()))) == 1


def test_each_kernel_is_told_before_its_first_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done already is neither told nor run; the last one has the launches that are left."""
    seen: list[tuple[str, int, int]] = []

    def judged(_: Where, made: Any, numbers: range) -> Row:
        seen.append(("runs", made.number, len(numbers)))
        return Row(made.number, "k", len(numbers), 0, 0.1, ())

    monkeypatch.setattr(run, "Worked", SimpleNamespace)
    monkeypatch.setattr(
        run, "drawn_kernel", lambda _, number: SimpleNamespace(number=number, kernel=None)
    )
    monkeypatch.setattr(run, "judged", judged)
    found = rows(
        Plan(Where("cpu", 40, 0), 5, 60, 3, 2), (1,), lambda n: seen.append(("told", n, 0))
    )
    assert [(r.kernel, r.launches) for r in found] == [(0, 3), (2, 2)]
    assert seen == [("told", 0, 0), ("runs", 0, 3), ("told", 2, 0), ("runs", 2, 2)]


def test_a_kernel_that_does_not_load_is_not_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unloaded(SimpleNamespace):
        source, compiled = "", None

        @property
        def loaded(self) -> None:
            raise RuntimeError("no such entry")

    monkeypatch.setattr(run, "Worked", SimpleNamespace)
    monkeypatch.setattr(
        run, "drawn_kernel", lambda _, number: SimpleNamespace(number=number, kernel=Unloaded())
    )
    monkeypatch.setattr(run, "lives", lambda where: False)
    told: list[int] = []
    (row,) = rows(Plan(Where("cuda", 40, 0), 5, 60, 3, 1), (), told.append)
    assert row.failures == (Failure(-1, "", "RuntimeError: no such entry"),) and not told


class Made:
    """A kernel that nobody needs the cubin of, which takes until the run ends.

    Args:
        number: which.
        begun: numbers of those whose cubins are being made, of all.
        under_way: set with the first of them.
        ended: set when the run ends.
    """

    source = loaded = ""

    def __init__(self, number: int, begun: list[int], under_way: Event, ended: Event) -> None:
        self.number, self.begun, self.under_way, self.ended = number, begun, under_way, ended
        self.kernel = self

    @property
    def compiled(self) -> None:
        self.begun.append(self.number)
        self.under_way.set()
        assert self.ended.wait(60)


def test_cubins_that_nobody_waits_for_any_more_are_not_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One is under way while the run ends, and is waited for; the one behind it never begins."""
    begun, under_way, ended = list[int](), Event(), Event()

    def judged(_: Where, made: Made, __: range) -> Row:
        assert under_way.wait(60)
        return Row(made.number, "k", 1, 0, 0.1, ())

    class Pool(ThreadPoolExecutor):
        def shutdown(self, *given: Any, **named: Any) -> None:
            super().shutdown(*given, **named | {"wait": False})
            ended.set()
            super().shutdown()

    monkeypatch.setattr(run, "ThreadPoolExecutor", Pool)
    monkeypatch.setattr(run, "drawn_kernel", lambda _, n: Made(n, begun, under_way, ended))
    monkeypatch.setattr(run, "Worked", Made)
    monkeypatch.setattr(run, "judged", judged)
    found = list(rows(Plan(Where("cuda", 40, 0), 2, 60, 1, 1), ()))
    assert [r.kernel for r in found] == [0, 1]
    assert begun == [0]


@pytest.mark.slow
def test_a_hang_ends_the_process_and_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    code = f"""
import time
from wsched.stress import command, run
from wsched.stress.command import stress
from pathlib import Path
command._device = lambda: "cpu"
run.judged = lambda *_: time.sleep(30)
stress(count=1, largest=40, each=1, hang=1, json=Path({str(path)!r}))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == command.HUNG, done.stderr
    assert "WRONG no kernel: no end after 1 s (--seed 0 --largest 40 --only 0)" in done.stdout
    (row,) = read_rows(path, {"seed": 0, "device": "cpu", "largest": 40})
    assert row.failures == (Failure(-1, "", "no end after 1 s"),)


class Timer:
    """Records what is done to it; ends nothing by itself."""

    made: ClassVar[list[Timer]] = []

    def __init__(self, seconds: float, end: Callable[[int], None], told: tuple[int]) -> None:
        self.seconds, self.end, self.told, self.daemon, self.state = seconds, end, told, False, ""
        self.made.append(self)

    def start(self) -> None:
        assert self.daemon
        self.state = "started"

    def cancel(self) -> None:
        self.state = "cancelled"


def test_one_kernel_is_watched_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command.threading, "Timer", Timer)
    monkeypatch.setattr(Timer, "made", [])
    monkeypatch.setattr(command.os, "_exit", sys.exit)
    kept: list[Row] = []
    with command._watchdog(2.5, kept.append) as watch:
        watch(3)
        watch(None)
        watch(4)
        watch(5)
        assert [t.state for t in Timer.made] == ["cancelled", "cancelled", "started"]
    last = Timer.made[-1]
    assert (last.state, last.seconds, last.told) == ("cancelled", 2.5, (5,))
    with pytest.raises(SystemExit) as ended:
        last.end(*last.told)
    assert ended.value.code == command.HUNG
    assert kept == [Row(5, "", 0, 0, 2.5, (Failure(-1, "", "no end after 2.5 s"),))]


def test_the_summary() -> None:
    found = [Row(0, "a", 250, 6, 1.0, ()), Row(1, "", 0, 0, 0.0, (), "no")]
    assert summary(found, 2.0) == (
        "250 launches of 1 kernels in 2 s, 125 a second, none wrong, 6 refused, 1 kernels unmade"
    )


@pytest.mark.parametrize(
    ("error", "refused", "failures"),
    [
        (UnsupportedError("this", "that"), "this is not supported; supported: that", 0),
        (ScheduleError("rule", "a call", "why"), "ScheduleError[rule]: a call: why", 0),
        (ValueError("a fault"), "", 1),
    ],
    ids=str,
)
def test_a_kernel_that_there_is_not(
    error: Exception, refused: str, failures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Is a row without launches, for what it was refused; a fault is its own."""

    def drawn(where: Any, number: int) -> Any:
        raise error

    monkeypatch.setattr(run, "drawn_kernel", drawn)
    where: Any = None
    pool: Any = None
    row = run._made(where, 7, pool)
    assert isinstance(row, Row)
    assert (row.kernel, row.name, row.launches, row.refused, row.seconds) == (7, "", 0, 0, 0.0)
    assert row.unmade == refused and len(row.failures) == failures
