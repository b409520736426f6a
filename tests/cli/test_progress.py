"""The line that says how far a command is: on a terminal, after two seconds, gone at the end."""

from __future__ import annotations

import os
import pty
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from select import select
from threading import Thread
from typing import Any, TextIO

import pytest

from lowering.ground.progress import What, doing, told
from lowering.machine import run as machine
from wsched.bench.method.bar import progress_bar
from wsched.cli import progress
from wsched.cli.app import app
from wsched.cli.progress import shown, wanted

ERASE = "\r\x1b[K"


class Terminal:
    """A pseudo-terminal: a stream to write to, and what was written to it."""

    def __init__(self) -> None:
        self._mine, theirs = pty.openpty()
        self.stream: TextIO = os.fdopen(theirs, "w", encoding="utf-8")
        self._text = ""

    def read(self, until: str = "", seconds: float = 30.0) -> str:
        """All that was written so far, and more until a text is among it."""
        while select([self._mine], [], [], 0 if until in self._text else seconds)[0]:
            self._text += os.read(self._mine, 1 << 16).decode()
        return self._text

    def close(self) -> None:
        self.stream.close()
        os.close(self._mine)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """One that does not wait for two seconds."""
    monkeypatch.setattr(progress, "AFTER", 0.0)
    monkeypatch.setattr(progress, "EVERY", 0.01)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    found = Terminal()
    yield found
    found.close()


def run(words: list[str], terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a command writes to a terminal, both streams."""
    monkeypatch.setattr(sys, "stdout", terminal.stream)
    monkeypatch.setattr(sys, "stderr", terminal.stream)
    with suppress(SystemExit):
        app(words)
    return terminal.read()


def test_a_listener_hears_nothing_of_what_is_done_behind_it() -> None:
    heard = list[What]()

    class Listener:
        def begins(self, what: What) -> None:
            heard.append(what)

        def ends(self) -> None:
            heard.append("over")

    with told(Listener()):
        with told(None), doing("to nobody"):
            pass
        with doing("inside"):
            pass
    with doing("outside"):
        pass
    assert heard == ["inside", "over"]


def test_work_is_shown_while_it_lasts(terminal: Terminal) -> None:
    count = 0
    with shown(terminal.stream):
        with doing("outer"), doing(lambda: f"step {count} of 2"):
            assert f"{ERASE}0 s  outer, step 0 of 2" in terminal.read("step 0")
            count = 1
            assert "step 1 of 2" in terminal.read("step 1")
        # Results may follow: the line is erased already.
        assert terminal.read().endswith(f" of 2{ERASE}")
    assert terminal.read().endswith(f" of 2{ERASE}")


def test_a_line_never_wraps(terminal: Terminal) -> None:
    with shown(terminal.stream), doing("x" * 200):
        first = terminal.read("xxx").split(ERASE)[1]
    assert len(first) == 79


def test_what_is_over_in_two_seconds_shows_nothing(terminal: Terminal) -> None:
    progress.AFTER = 30.0  # the fixture puts back what was there
    with shown(terminal.stream), doing("short"):
        pass
    assert terminal.read() == ""


def test_work_that_fails_is_erased_too(terminal: Terminal) -> None:
    with pytest.raises(KeyboardInterrupt), shown(terminal.stream), doing("long"):
        terminal.read("long")
        raise KeyboardInterrupt
    assert terminal.read().endswith(ERASE)


def test_a_bar_is_for_terminals(capsys: pytest.CaptureFixture[str]) -> None:
    """Not even an empty line is left in a log."""
    with progress_bar(2) as update:
        update(1, "half")
    assert capsys.readouterr() == ("", "")


def test_nobody_else_pays() -> None:
    """Without a listener, in other threads and under a bar of its own, no text is made."""

    class Never:
        def begins(self, what: object) -> None:
            raise AssertionError(what)

        ends = begins

    def work() -> None:
        with doing("quiet"):
            reached.append(1)

    reached: list[int] = []
    work()
    with told(Never()):  # type: ignore[arg-type]
        other = Thread(target=work)
        other.start()
        other.join()
        with progress_bar(1):
            work()
    assert len(reached) == 3


def test_a_command_on_a_terminal(
    file: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = run(["run", str(file), "--shape", "64x64x64"], terminal, monkeypatch)
    found = re.findall(r"the machine runs CTA (\d+) of (\d+), ", text)
    at = [int(n) for n, _ in found]  # those that ran when somebody looked
    assert at == sorted(at) and set(at) <= {1, 2, 3, 4} and {of for _, of in found} == {"4"}, text
    *_, last = text.split(ERASE)
    assert last.startswith("RIGHT: 64 x 64"), text


def test_the_machine_says_which_cta_it_runs(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it stands in the work that it tells of, asked as each of the four begins."""

    class Asked:
        def begins(self, what: What) -> None:
            self.what = what

        def ends(self) -> None:
            pass

    def together(*args: Any) -> Counter[str]:
        assert callable(asked.what)
        said.append(asked.what().partition(", ")[0])
        return before(*args)

    before, asked, said = machine._run_together, Asked(), list[str]()
    monkeypatch.setattr(machine, "_run_together", together)
    with told(asked), suppress(SystemExit):
        app(["run", str(file), "--shape", "64x64x64", "--json"])
    assert said == [f"the machine runs CTA {n} of 4" for n in (1, 2, 3, 4)]


@pytest.mark.parametrize("case", ["--json", "piped errors", "dumb"])
def test_where_nobody_looks(
    case: str, file: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["run", str(file), "--shape", "64x64x64", *([case] if case == "--json" else [])]
    monkeypatch.setattr(sys, "stdout", terminal.stream)
    monkeypatch.setattr(sys, "stderr", terminal.stream)
    assert wanted([]) and wanted(["--proof"])
    if case == "dumb":
        monkeypatch.setenv("TERM", "dumb")
    with open(os.devnull, "w", encoding="utf-8") as quiet:
        if case == "piped errors":
            monkeypatch.setattr(sys, "stderr", quiet)
        with suppress(SystemExit):
            app(words)
    text = terminal.read("RIGHT")
    assert "RIGHT" in text and "machine runs" not in text and ERASE not in text


def test_results_in_a_pipe_or_a_file(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal.stream)
    ends = os.pipe()
    with open(ends[1], "w", encoding="utf-8") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert not wanted([])
    os.close(ends[0])
    with open(tmp_path / "table", "w", encoding="utf-8") as table:
        monkeypatch.setattr(sys, "stdout", table)
        assert wanted([])
