"""Which tests are slow, and that the end of a run names those that are not marked so."""

from __future__ import annotations

import pytest

from tests.tiers import WITHOUT_A_QUICK_CASE, chosen, dealt, in_tiers

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
SAMPLED = """
import pytest

@pytest.mark.sampled
@pytest.mark.parametrize("one", "abcde")
def test_two(one):
    pass

@pytest.mark.sampled(1)
@pytest.mark.parametrize("one", [pytest.param("a", marks=pytest.mark.slow), "b", "c", "d"])
def test_one(one):
    pass

@pytest.mark.sampled
@pytest.mark.parametrize("one", "a")
def test_fewer(one):
    pass

@pytest.mark.parametrize("one", [pytest.param("a", marks=pytest.mark.slow)])
def test_bare(one):
    pass

@pytest.mark.slow
@pytest.mark.parametrize("one", "ab")
def test_whole(one):
    pass

def test_none(request):
    from tests.tiers import WITHOUT_A_QUICK_CASE
    assert request.config.stash[WITHOUT_A_QUICK_CASE] == ["test_sampled.py::test_bare"]
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Without plugins that some environment has: what they say is nobody's here."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeini("[pytest]\nmarkers =\n    slow: takes long\n    sampled(n=2): some\n")
    pytester.makepyfile(HEAD + BUSY)
    return pytester


@pytest.mark.parametrize(
    "workers",
    [
        pytest.param((), id="here"),
        pytest.param(("-p", "xdist", "-n", "1"), id="in a worker", marks=pytest.mark.slow),
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


def test_of_sampled_tests_some_cases_are_quick(run: pytest.Pytester) -> None:
    """Two, or as many as are asked for, or all there are; those that are slow do not count."""
    run.makepyfile(test_sampled=SAMPLED)
    args = "-p", "tests.tiers", "-v", "test_sampled.py"
    run.runpytest_inprocess(*args).assert_outcomes(passed=14)
    done = run.runpytest_inprocess(*args, "-m", "not slow")
    done.assert_outcomes(passed=5, deselected=9)
    names = [line.partition("::")[2].partition(" ")[0] for line in done.outlines if "PASS" in line]
    assert [n for n in names if n.startswith("test_two")] == ["test_two[b]", "test_two[e]"]
    assert [n for n in names if n.startswith("test_one")] == ["test_one[d]"]


def test_files_take_turns() -> None:
    """Of ten cases each is some file's, and two are half the list apart."""
    found = [chosen(f"tests/test_{i}.py", 10) for i in range(50)]
    assert set().union(*found) == set(range(10))
    assert all(len(f) == 2 and max(f) - min(f) == 5 for f in found)
    assert chosen("tests/test_0.py", 1) == {0}
    assert chosen("tests/test_0.py", 3, 3) == {0, 1, 2}


def test_each_test_has_a_quick_case_or_is_slow(request: pytest.FixtureRequest) -> None:
    assert request.config.stash[WITHOUT_A_QUICK_CASE] == []


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
