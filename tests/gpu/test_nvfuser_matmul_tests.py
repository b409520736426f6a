"""The comparison of nvFuser's tests with and without wsched, on reports and tests of our own."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.gpu import nvfuser_matmul_tests
from tests.gpu.nvfuser_matmul_tests import differences, main, outcomes, run
from wsched.doors.dropin.decide import Known

REPORT = """<testsuites><testsuite>
<testcase classname="python.test_a" name="test_x[1]"/>
<testcase classname="python.test_a" name="test_y"><failure message="m">text</failure></testcase>
<testcase classname="python.test_a" name="test_z"><skipped/><system-out>s</system-out></testcase>
<testcase classname="python.test_b" name="test_x"><error/></testcase>
</testsuite></testsuites>"""


def test_outcomes() -> None:
    assert outcomes(REPORT) == {
        "python.test_a::test_x[1]": "passed",
        "python.test_a::test_y": "failure",
        "python.test_a::test_z": "skipped",
        "python.test_b::test_x": "error",
    }


def test_differences() -> None:
    without = {"a": "passed", "b": "passed", "c": "failure"}
    assert differences(without, dict(without)) == []
    assert differences(without, {"a": "passed", "b": "failure", "d": "passed"}) == [
        "b: passed without wsched, failure with it",
        "c: failure without wsched, not run with it",
        "d: not run without wsched, passed with it",
    ]


@pytest.mark.slow
def test_a_run(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("WORD = 'word'\n")
    (tmp_path / "plugin_of_theirs.py").write_text("import helper\nhelper.WORD = 'other'\n")
    (tmp_path / "test_theirs.py").write_text(
        "from helper import WORD\n"
        "def test_either(): pass\n"
        "def test_only_without(): assert WORD == 'word'\n"
    )
    arguments = [str(tmp_path / "test_theirs.py")]
    without = run(arguments, tmp_path, ())
    assert without == dict.fromkeys(
        ("test_theirs::test_either", "test_theirs::test_only_without"), "passed"
    )
    found = run(arguments, tmp_path, ["plugin_of_theirs"])
    assert found == without | {"test_theirs::test_only_without": "failure"}


def test_status(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    reports = {(): {"a": "passed", "b": "skipped"}, ("tests.gpu.with_wsched",): {"a": "passed"}}
    monkeypatch.setattr(
        nvfuser_matmul_tests, "run", lambda rest, path, plugins: dict(reports[plugins])
    )
    assert main(["some.py"]) == 1
    reports["tests.gpu.with_wsched",]["b"] = "skipped"
    assert main(["some.py", "-k", "x"]) == 0
    reports[()] = {}
    assert main([]) == 2
    assert capsys.readouterr().out.splitlines() == [
        "b: skipped without wsched, not run with it",
        "2 tests, 1 passed without wsched; 1 differ with it",
        "2 tests, 1 passed without wsched; 0 differ with it",
        "a: not run without wsched, passed with it",
        "b: not run without wsched, skipped with it",
        "0 tests, 0 passed without wsched; 2 differ with it",
    ]


def test_the_plugin() -> None:
    """It installs wsched, counts what is decided, and takes itself away."""
    nvfuser = pytest.importorskip("nvfuser_direct", reason="nvFuser is not installed")
    from tests.gpu import with_wsched
    from wsched.doors.dropin import execute

    own, decide = nvfuser.FusionDefinition.execute, execute.decide
    with_wsched.pytest_configure(None)
    try:
        assert nvfuser.FusionDefinition.execute is not own
        execute.decide(Known("no reason"), [])
        execute.decide(Known("no reason"), [], ())  # as a call does that may be taken
        lines: list[str] = []
        with_wsched.pytest_terminal_summary(
            SimpleNamespace(section=lines.append, write_line=lines.append)
        )
        assert lines == ["wsched", "    2 no reason"]
        worker = SimpleNamespace(workeroutput=dict[str, Any]())
        with_wsched.pytest_sessionfinish(SimpleNamespace(config=worker))
        assert worker.workeroutput == {"wsched": {"no reason": 2}}
        with_wsched.pytest_testnodedown(worker)
        with_wsched.pytest_terminal_summary(
            SimpleNamespace(section=lines.append, write_line=lines.append)
        )
        assert lines[-1] == "    4 no reason"
    finally:
        with_wsched.pytest_unconfigure(None)
    assert nvfuser.FusionDefinition.execute is own and execute.decide is decide
