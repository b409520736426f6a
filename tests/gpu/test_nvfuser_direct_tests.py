"""The comparison of all of nvFuser's Python tests, on tests of our own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.gpu import nvfuser_direct_tests
from tests.gpu.nvfuser_direct_tests import Compared, alone, compared, files, main, report

PASSING = "def test_one(): pass\n"


def test_files(tmp_path: Path) -> None:
    for name in ("test_b.py", "test_a.py", "conftest.py", "test_c.txt"):
        (tmp_path / name).write_text("")
    assert [p.name for p in files([tmp_path, tmp_path / "conftest.py"])] == [
        "test_a.py", "test_b.py", "conftest.py"
    ]  # fmt: skip


def test_what_is_known_is_not_run_again() -> None:
    ran = []

    def run(path: Path, plugins: Sequence[str]) -> dict[str, str]:
        ran.append((path.name, bool(plugins)))
        return {"t": "passed"}

    found = compared([Path("a.py"), Path("b.py")], run, {"b.py": {"t": "failure"}}, 1)
    assert ran == [("a.py", False), ("a.py", True), ("b.py", True)]
    assert [c.different for c in found] == [
        [], ["t: failure without wsched, passed with it"]
    ]  # fmt: skip


def test_what_failed_runs_again_alone() -> None:
    """Two were out of memory beside others, in one way and in both; the last one does differ."""
    before = {"d.test_a::t[1]": "passed", "d.test_a.Kind::u": "passed", "d.test_a::v": "skipped"}
    before["d.test_a::w"] = "failure"
    beside = before | {"d.test_a::t[1]": "failure", "d.test_a.Kind::u": "failure"}
    ran = []

    def again(nodes: Sequence[str], plugins: Sequence[str]) -> dict[str, str]:
        ran.append((list(nodes), tuple(plugins)))
        alike = {"d.test_a::t[1]": "passed", "d.test_a::w": "passed"}
        return alike | {"d.test_a.Kind::u": "error" if plugins else "passed"}

    path = Path("d/test_a.py")
    found = alone(Compared("test_a.py", before, beside), path, again)
    nodes = ["d/test_a.py::t[1]", "d/test_a.py::Kind::u", "d/test_a.py::w"]
    assert ran == [(nodes, ()), (nodes, nvfuser_direct_tests.PLUGINS)]
    assert found.different == ["d.test_a.Kind::u: passed without wsched, error with it"]
    assert found.without["d.test_a::w"] == found.with_wsched["d.test_a::w"] == "passed"
    well = before | {"d.test_a::w": "passed"}
    same, none = Compared("test_a.py", well, well), Compared("test_a.py", before, {})
    assert [alone(c, path, again) for c in (same, none)] == [same, none] and len(ran) == 2


@pytest.mark.slow
def test_memory_goes_back_after_a_tests_fixtures(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest, torch

        told = []

        @pytest.fixture(scope="module", autouse=True)
        def a_gpu():
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(torch.cuda, "is_available", lambda: True)
                patch.setattr(torch.cuda, "empty_cache", lambda: told.append("returned"))
                yield

        @pytest.fixture
        def held():
            yield
            told.append("let go")

        def test_one(held): pass

        def test_two(): assert told == ["let go", "returned"]
    """)
    ran = pytester.runpytest_inprocess("-p", "tests.gpu.memory_returned")
    ran.assert_outcomes(passed=2)


def test_the_report() -> None:
    found = [
        Compared("a.py", {"t": "passed", "u": "skipped"}, {"t": "passed", "u": "skipped"}),
        Compared("b.py", {"t": "passed"}, {}),
        Compared("c.py", {}, {}),
    ]
    assert report(found).splitlines() == [
        "a.py: 2 tests, 1 passed, 1 skipped without wsched; 0 differ with it",
        "b.py: 1 tests, 1 passed without wsched; 1 differ with it",
        "c.py: no outcomes without wsched; 0 with it",
        "b.py: no outcomes with wsched",
        "3 files, 3 tests; 1 differ",
    ]


@pytest.mark.slow
def test_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One passes, one crashes, one does not end."""
    (tmp_path / "plugin_of_theirs.py").write_text("")
    (tmp_path / "test_a.py").write_text(PASSING)
    (tmp_path / "test_b.py").write_text("import os\ndef test_one(): os._exit(3)\n")
    (tmp_path / "test_c.py").write_text("import time\ndef test_one(): time.sleep(600)\n")
    monkeypatch.setattr(nvfuser_direct_tests, "PLUGINS", ("plugin_of_theirs",))
    kept = tmp_path / "without.json"
    words = ["--path", str(tmp_path), "--jobs", "1", "--without", str(kept)]
    assert main([str(tmp_path / "test_a.py"), str(tmp_path / "test_b.py"), *words]) == 0
    told, ends = capsys.readouterr()
    assert "test_a.py: 1 tests, 1 passed without wsched; 0 differ with it" in told
    assert "ended: test_b.py: no outcomes without wsched; 0 with it" in ends
    assert "test_b.py: no outcomes without wsched; 0 with it" in told
    assert json.loads(kept.read_text()) == {"test_a.py": {"test_a::test_one": "passed"}}
    assert main([str(tmp_path / "test_c.py"), *words, "--seconds", "3"]) == 2
    monkeypatch.setattr(nvfuser_direct_tests, "PLUGINS", ("no_such_plugin",))
    assert main([str(tmp_path / "test_a.py"), *words]) == 1
