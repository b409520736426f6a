"""The fixture ``golden`` itself, on small suites of its own, and no orphans in this one."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

CONFTEST = Path(__file__).with_name("conftest.py")


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # seconds a run, and not needed
    pytester.makeini("[pytest]\nmarkers = gpu\naddopts = -p no:cacheprovider\n")
    (pytester.mkdir("tests") / "conftest.py").write_text(CONFTEST.read_text())
    (pytester.path / "tests" / "passes").mkdir()
    return pytester


def write(suite: pytest.Pytester, body: str, name: str = "tests/passes/test_a.py") -> None:
    (suite.path / name).write_text(body)


def put(suite: pytest.Pytester, name: str, text: str) -> Path:
    path = suite.path / "tests" / "golden" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


ONE = "def test_one(golden):\n    assert 'a\\nb' == golden\n"
ORPHANS = "def test_orphans(golden_orphans):\n    assert golden_orphans == []\n"


def test_equal_text_passes_whatever_its_last_line_end(suite: pytest.Pytester) -> None:
    write(suite, ONE + "def test_two(golden):\n    assert golden == 'a\\n'\n")
    put(suite, "passes/test_a/test_one.txt", "a\nb\n")
    put(suite, "passes/test_a/test_two.txt", "a\n")
    suite.runpytest().assert_outcomes(passed=2)


def test_a_difference_is_shown_as_a_diff(suite: pytest.Pytester) -> None:
    write(suite, ONE)
    put(suite, "passes/test_a/test_one.txt", "a\nc\n")
    result = suite.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*differs from tests/golden/passes/test_a/test_one.txt",
            "*-c",
            "*+b",
            "*pytest --update-golden 'tests/passes/test_a.py::test_one'",
        ]
    )


def test_a_missing_file_fails_with_the_command(suite: pytest.Pytester) -> None:
    write(suite, ONE)
    result = suite.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "tests/golden/passes/test_a/test_one.txt does not exist; look at the text and write*",
            "    pytest --update-golden 'tests/passes/test_a.py::test_one'",
        ]
    )


def test_update_writes_and_then_compares_equal(suite: pytest.Pytester) -> None:
    write(suite, ONE)
    suite.runpytest("--update-golden").assert_outcomes(passed=1)
    path = suite.path / "tests/golden/passes/test_a/test_one.txt"
    assert path.read_text() == "a\nb\n"
    suite.runpytest().assert_outcomes(passed=1)


def test_update_is_refused_in_ci(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    write(suite, ONE)
    monkeypatch.setenv("CI", "true")
    result = suite.runpytest("--update-golden")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--update-golden is refused where CI is set"])
    assert not (suite.path / "tests/golden").exists()


def test_parameters_classes_and_names_have_files_of_their_own(suite: pytest.Pytester) -> None:
    write(
        suite,
        "import pytest\n"
        "@pytest.mark.parametrize('x', ['a/b', 'a:b', 'ab'])\n"
        "def test_p(golden, x):\n    assert x == golden\n"
        "class TestC:\n"
        "    def test_m(self, golden):\n"
        "        assert 'm' == golden\n"
        "        assert 'cuda' == golden.named('cuda')\n" + ORPHANS,
    )
    suite.runpytest("--update-golden").assert_outcomes(passed=5)
    suite.runpytest().assert_outcomes(passed=5)
    names = sorted(p.name for p in (suite.path / "tests/golden/passes/test_a").iterdir())
    assert len(names) == 5
    assert {"TestC-test_m.txt", "TestC-test_m.cuda.txt", "test_p--ab.txt"} < set(names)


def test_something_other_than_text_is_not_compared(suite: pytest.Pytester) -> None:
    write(suite, "def test_one(golden):\n    assert 3 == golden\n")
    put(suite, "passes/test_a/test_one.txt", "3\n")
    result = suite.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*a golden file holds text, not int; compare str(...)"])


@pytest.mark.parametrize("name", ["passes/test_a/test_gone.txt", "test_none/test_x.txt", "x.md"])
def test_an_orphan_is_found(suite: pytest.Pytester, name: str) -> None:
    write(suite, ONE + ORPHANS)
    put(suite, "passes/test_a/test_one.txt", "a\nb\n")
    suite.runpytest().assert_outcomes(passed=2)
    put(suite, name, "a\n")
    result = suite.runpytest()
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines([f"*tests/golden/{name}*"])


def test_a_part_of_a_module_finds_no_false_orphans(suite: pytest.Pytester) -> None:
    write(suite, ONE + ORPHANS)
    put(suite, "passes/test_a/test_one.txt", "a\nb\n")
    suite.runpytest("tests/passes/test_a.py::test_orphans").assert_outcomes(passed=1)
    suite.runpytest("-k", "orphans").assert_outcomes(passed=1, deselected=1)


def test_gpu_tests_are_skipped_with_the_reason(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_driver(name: str) -> None:
        raise OSError(name)

    write(suite, "import pytest\n@pytest.mark.gpu\ndef test_g():\n    assert 0\n")
    monkeypatch.setattr("ctypes.CDLL", no_driver)
    result = suite.runpytest("-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*needs a GPU: there is no CUDA driver (libcuda.so.1)"])


@pytest.mark.parametrize(("mark", "sees"), [("", False), ("@pytest.mark.gpu\n", True)])
def test_only_gpu_tests_see_a_gpu(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, mark: str, sees: bool
) -> None:
    """On a machine that has one."""
    there = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: True))
    monkeypatch.setitem(sys.modules, "torch", there)
    monkeypatch.setattr("lowering.cuda.driver.has_driver", lambda: True)
    body = f"def test_g():\n    assert torch.cuda.is_available() is {sees}\n"
    write(suite, f"import pytest, torch\n{mark}{body}")
    suite.runpytest().assert_outcomes(passed=1)


def test_no_golden_file_of_this_suite_is_an_orphan(golden_orphans: list[str]) -> None:
    assert golden_orphans == [], "remove them with git rm, or give the test its old name"
