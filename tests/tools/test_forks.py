"""What becomes of mutants that are judged in forks."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import mutate
import pytest
from forks import Forks, Verdict

from tests.tools.mutants import CODE, FILE, TEST, TESTS, change


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tree")
    (root / FILE).write_text(CODE)
    (root / TEST).write_text(TESTS)
    (root / "pytest.ini").write_text("[pytest]\nmarkers =\n  slow\n  gpu\n")
    return root


@pytest.fixture(scope="module")
def forks(tree: Path) -> Iterator[Forks]:
    found = Forks(tree, packages=["code_of_it"], room=1)
    yield found
    found.close()


def judged(forks: Forks, kind: str, line: str, *tests: str, files: bool = True) -> Verdict | str:
    timed = {f"{TEST}::{test}": 0.01 for test in tests}
    return forks.judge(FILE, change(kind, line), timed, [TEST] * files, 60)


@pytest.mark.parametrize(
    ("kind", "line", "test"),
    [
        ("boolean", "least < x and", "below"),
        ("binary", "x + x", "twice"),
        ("keyword", "lambda y", "third"),
        ("number", "return function", "third"),
        ("binary", "self.x + 1", "point"),
        ("binary", "6 - 5", "kept"),
    ],
)
def test_a_mutant_is_killed_by_the_first_test_that_fails(
    forks: Forks, kind: str, line: str, test: str
) -> None:
    found = judged(forks, kind, line, "test_unseen", f"test_{test}")
    if test == "below":  # x is 2: only a slow test of the file sees it, behind all quick ones
        assert found == Verdict(f"FAILED {TEST}::test_not_below - assert not True", 13, 13)
    else:
        assert isinstance(found, Verdict) and found.tests == 2
        assert (found.by or "").startswith(f"FAILED {TEST}::test_{test} - ")


def test_a_mutant_lives_that_no_test_sees(forks: Forks) -> None:
    """Each child has its own folders; a test that fails as it is kills nobody."""
    assert judged(forks, "binary", "8 % 3") == Verdict(None, 13, 13)
    assert judged(forks, "binary", "8 % 3", "test_unseen", files=False) == Verdict(None, 1, 1)


def test_children_at_the_same_time_do_not_meet(forks: Forks) -> None:
    with ThreadPoolExecutor(6) as pool:
        each = [pool.submit(judged, forks, "binary", "8 % 3", "test_unseen") for _ in range(6)]
    assert {e.result() for e in each} == {Verdict(None, 13, 13)}


@pytest.mark.slow
def test_a_mutant_never_ends(forks: Forks) -> None:
    found = judged(forks, "statement", "n -= 1", "test_count")
    assert found == Verdict(f"no end of {TEST}::test_count, or the process died", 1, 14)


def test_values_that_were_made_before_the_fork_stay(forks: Forks) -> None:
    found = judged(forks, "binary", "7 + 1", "test_made", files=False)
    assert found == Verdict(None, 1, 1, sure=False)


@pytest.mark.parametrize(
    ("tests", "sure"),
    [
        (("test_unseen",), True),
        (("test_process",), False),
        (("test_skipped",), False),
        (("test_process", "test_unseen"), False),
        (("test_unseen", "test_skipped"), False),
        (("test_unseen", "test_of_another_machine"), False),
        (("test_unseen", "test_fails_as_it_is"), False),
    ],
)
def test_a_mutant_lives_for_sure_that_all_tests_of_its_line_see(
    forks: Forks, tests: tuple[str, ...], sure: bool
) -> None:
    found = judged(forks, "binary", "8 % 3", *tests, files=False)
    there = set(tests) - {"test_of_another_machine", "test_fails_as_it_is"}
    assert found == Verdict(None, len(there), len(there), sure)


@pytest.mark.parametrize(("kind", "line"), [("keyword", "reverse"), ("statement", "x += 0")])
def test_what_is_left_of_a_change_is_seen_to_run(forks: Forks, kind: str, line: str) -> None:
    """Where a keyword was nothing is left on the line, and ``pass`` where a statement was."""
    assert judged(forks, kind, line, "test_only", files=False) == Verdict(None, 1, 1)


@pytest.mark.parametrize(
    ("kind", "line", "why"),
    [
        ("number", "LIMIT = 3", "not within the body of a function"),
        ("return", "super().__repr__()", "Point.told has other free variables"),
    ],
)
def test_no_fork_can_be_a_mutant(forks: Forks, kind: str, line: str, why: str) -> None:
    assert judged(forks, kind, line, "test_below") == why


def test_no_test_is_begun_when_time_is_over(forks: Forks) -> None:
    timed = {f"{TEST}::test_unseen": 0.01}
    assert forks.judge(FILE, change("binary", "8 % 3"), timed, [], 0) == Verdict(
        None, 0, 1, sure=False
    )


@pytest.mark.slow
def test_tests_that_cannot_be_collected(tmp_path: Path) -> None:
    (tmp_path / TEST).write_text("import nothing_of_this_name\n")
    forks = Forks(tmp_path, packages=[])
    try:
        with pytest.raises(RuntimeError, match="nothing_of_this_name"):
            forks.judge(FILE, change("binary", "8 % 3"), {}, [], 1)
    finally:
        forks.close()


@pytest.mark.slow
@pytest.mark.parametrize("forked", ["no", "first", "only"])
def test_who_judges(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forked: str
) -> None:
    """Processes judge what no fork can, and what a fork is not sure of."""
    for name in ("mutate.ROOT", "reached.ROOT"):
        monkeypatch.setattr(name, tree)
    monkeypatch.setattr(mutate, "git", lambda *_: f"{FILE}\0{TEST}\0pytest.ini")
    monkeypatch.setattr(mutate, "Forks", lambda *a: Forks(*a, packages=["code_of_it"]))
    judges = mutate.Judges(tmp_path, 1, [], forked, 60)

    def fate(kind: str, line: str, test: str) -> tuple[bool, bool, int] | None:
        reached = [mutate.Reached(f"{TEST}::{test}", 0.1, 1)]
        found = judges.judged(FILE, change(kind, line), reached)
        return found and (found.killed, found.sure, found.of)

    try:
        by_fork = 0 if forked == "no" else 14
        assert fate("binary", "x + x", "test_twice") == (True, True, by_fork)
        early = (False, False, 13) if forked == "only" else (True, True, 0)
        assert fate("binary", "7 + 1", "test_made") == early
        module = None if forked == "only" else (True, True, 0)
        assert fate("number", "LIMIT = 3", "test_not_below") == module
    finally:
        judges.close()
