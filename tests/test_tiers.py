"""Which tests are slow, and that the end of a run names those that are not marked so."""

from __future__ import annotations

import pytest

from tests.tiers import dealt, in_tiers

BUSY = """
import time
import pytest

def work(seconds):
    begin = time.process_time()
    while time.process_time() - begin < seconds:
        pass

@pytest.fixture
def prepared():
    work(0.2)

def test_quick():
    time.sleep(0.3)

def test_of_a_fixture(prepared):
    pass

@pytest.mark.slow
def test_marked():
    work(0.2)

@pytest.mark.parametrize("name", in_tiers(["a", "b", "c"], {"b"}))
def test_some(name):
    work(0.2 * (name == "b"))
"""
HEAD = "from tests.tiers import in_tiers\n"


@pytest.fixture
def run(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeini("[pytest]\nmarkers =\n    slow: takes long\n")
    pytester.makepyfile(HEAD + BUSY)
    return pytester


@pytest.mark.parametrize(
    "workers",
    [
        pytest.param((), id="here"),
        pytest.param(("-n", "1"), id="in a worker", marks=pytest.mark.slow),
    ],
)
def test_those_without_a_mark_are_named(
    run: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, workers: tuple[str, ...]
) -> None:
    monkeypatch.setattr("tests.tiers.LIMIT", 0.15)
    done = run.runpytest_inprocess("-p", "tests.tiers", *workers)
    done.assert_outcomes(passed=6)
    listed = [line for line in done.outlines if " s  test_" in line]
    assert sorted(line.partition("::")[2] for line in listed) == [
        "test_of_a_fixture",
        "test_some[b]",
    ]
    assert any("2 tests are slow and not marked so" in line for line in done.outlines)


def test_what_each_took_is_written(run: pytest.Pytester) -> None:
    file = run.path / "seconds"
    run.runpytest_inprocess("-p", "tests.tiers", f"--seconds={file}").assert_outcomes(passed=6)
    found = [line.split() for line in file.read_text().splitlines()]
    dear, cheap = found[:3], found[3:]
    assert sorted(test.partition("::")[2] for _, test in dear) == [
        "test_marked", "test_of_a_fixture", "test_some[b]"
    ]  # fmt: skip
    assert all(float(s) > 0.15 for s, _ in dear) and all(float(s) < 0.15 for s, _ in cheap)
    assert len(cheap) == 3


def test_marks(run: pytest.Pytester) -> None:
    done = run.runpytest_inprocess("-p", "tests.tiers", "-m", "not slow")
    done.assert_outcomes(passed=3, deselected=3)


def test_parameters() -> None:
    first, second = in_tiers(["a", "b"], {"a"})
    assert first == "a"
    assert (second.values, [m.name for m in second.marks]) == (("b",), ["slow"])


def test_pairs_are_dealt_out_in_turn() -> None:
    """Each of the first is quick once, so is each of the second that there are turns for."""
    found = dealt(["a", ("b", 1), "c"], [10, 20])
    assert [p.values for p in found] == [
        ("a", 10), ("a", 20), ("b", 1, 10), ("b", 1, 20), ("c", 10), ("c", 20)
    ]  # fmt: skip
    assert [p.values for p in found if not p.marks] == [("a", 10), ("b", 1, 20), ("c", 10)]
