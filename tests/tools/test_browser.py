"""The set-up's Chromium: found, installed in CI, or said to be missing."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

import browser
import pytest

WITHOUT = "going without the tests that open a page: no Chromium on PATH"


class Machine:
    """What is on PATH, and what was run."""

    def __init__(self, *programs: str, succeeds: bool = True) -> None:
        self.programs, self.succeeds = set(programs), succeeds
        self.ran: list[Sequence[str]] = []

    def which(self, name: str) -> str | None:
        return f"/usr/bin/{name}" if name in self.programs else None

    def run(self, cmd: Sequence[str], seconds: int) -> bool:
        self.ran.append(cmd)
        if self.succeeds and "chromium" in cmd:
            self.programs.add("chromium")
        return self.succeeds


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(browser.os, "geteuid", lambda: 0)
    return monkeypatch


def ensure(machine: Machine, monkeypatch: pytest.MonkeyPatch, ci: bool = True) -> str:
    monkeypatch.setattr(shutil, "which", machine.which)
    monkeypatch.setattr(browser, "run", machine.run)
    return browser.ensure_chromium({"CI": "true"} if ci else {})


@pytest.mark.parametrize("name", browser.CHROMIUM)
def test_one_that_is_there_is_taken(name: str, root: pytest.MonkeyPatch) -> None:
    machine = Machine(name, "apt-get")
    assert ensure(machine, root) == "" and machine.ran == []
    assert browser.find_chromium() == f"/usr/bin/{name}"


def test_ci_installs_debians(root: pytest.MonkeyPatch) -> None:
    machine = Machine("apt-get")
    assert ensure(machine, root) == ""
    assert [cmd[:2] for cmd in machine.ran] == [["apt-get", "update"], ["apt-get", "install"]]
    assert machine.ran[1][-1] == "chromium"


def test_elsewhere_nothing_is_installed(root: pytest.MonkeyPatch) -> None:
    machine = Machine("apt-get")
    assert ensure(machine, root, ci=False) == f"{WITHOUT} (apt-get install chromium)"
    assert machine.ran == []


def test_where_it_cannot_be_installed(root: pytest.MonkeyPatch) -> None:
    failing = Machine("apt-get", succeeds=False)
    assert ensure(failing, root) == f"{WITHOUT}, it could not be installed"
    assert len(failing.ran) == 1
    nowhere = f"{WITHOUT}, and no apt-get as root to install it"
    assert ensure(Machine(), root) == nowhere
    root.setattr(browser.os, "geteuid", lambda: 1000)
    assert ensure(Machine("apt-get"), root) == nowhere
