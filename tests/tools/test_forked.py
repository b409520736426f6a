"""Mutants that are judged in forks: what is replaced, and what becomes of them."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import forked
import mutate
import pytest
from forks import Forks, Verdict
from mutations import Mutation, mutations

CODE = """\
from dataclasses import dataclass
from functools import cache, cached_property

LIMIT = 3


def below(x, least=1):
    return least < x and x < LIMIT


@cache
def twice(x):
    return x + x


def logged(function):
    def inner(*args):
        return function(*args), 1
    return inner


@logged
def third(x):
    found = sorted(
        [x, 2, 1], key=lambda y: -y,
    )
    return [y for y in found if y > 0][
        2
    ]


@dataclass(frozen=True, slots=True)
class Point:
    x: int = 4

    @property
    def next(self):
        return self.x + 1

    @staticmethod
    def zero():
        return Point(0 * 5)

    def told(self):
        return super().__repr__() if self.x > 9 else "small"


class Kept:
    @cached_property
    def value(self):
        return 6 - 5


def count(n):
    while n > 0:
        n -= 1
    return n


def made():
    return 7 + 1


EIGHT = made()


def unseen():
    return 8 % 3
"""

TESTS = """\
import time
import os
import pytest
import code_of_it as c

def test_below():
    assert c.below(2)

@pytest.mark.slow
def test_not_below():
    assert not c.below(3)

def test_twice():
    assert c.twice(3) == 6

def test_third():
    assert c.third(5) == (1, 1)

def test_point():
    assert c.Point().next == 5 and c.Point.zero().x == 0 and c.Point().told() == "small"

def test_kept():
    assert c.Kept().value == 1

def test_count():
    assert c.count(4) == 0

def test_made():
    assert c.EIGHT == 8

def test_unseen():
    c.unseen()

def test_own_folders(tmp_path):
    assert os.listdir(tmp_path) == [] and not os.path.exists(os.environ["WSCHED_CACHE_DIR"])
    assert tmp_path.parent.parent == type(tmp_path)(os.environ["WSCHED_CACHE_DIR"]).parent
    time.sleep(0.05)
    assert tmp_path.is_dir()

def test_fails_as_it_is():
    assert not c
"""

FILE, TEST = "code_of_it.py", "test_it.py"


def change(kind: str, line: str) -> Mutation:
    """The mutation of a kind in the line that holds a text."""
    (number,) = (i for i, text in enumerate(CODE.splitlines(), 1) if line in text)
    return next(m for m in mutations(CODE) if (m.kind, m.line) == (kind, number))


# --- what is replaced ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "line", "name"),
    [
        ("binary", "x + x", "twice"),
        ("keyword", "lambda y", "third"),
        ("return", "return function", "logged"),
        ("binary", "0 * 5", "Point.zero"),
        ("number", "LIMIT = 3", None),
        ("number", "def below", None),
        ("number", "x: int = 4", None),
    ],
)
def test_the_function_around_a_change(kind: str, line: str, name: str | None) -> None:
    mutation = change(kind, line)
    if name is None:
        with pytest.raises(forked.UnableError, match=r"^not within the body of a function$"):
            forked.around(CODE, mutation.begin, mutation.end)
        return
    found, first = forked.around(CODE, mutation.begin, mutation.end)
    assert found == name
    path = "/code.py"
    assert forked.code_of(CODE, path, found, first).co_qualname == name


def test_characters_of_several_bytes_are_no_columns() -> None:
    text = 'def f(x="××××"): return x + "×", 1 < 2\n'
    (default,) = (m for m in mutations('def f(x="××", y=3): return x\n') if m.kind == "number")
    with pytest.raises(forked.UnableError):
        forked.around('def f(x="××", y=3): return x\n', default.begin, default.end)
    for mutation in mutations(text):
        assert forked.around(text, mutation.begin, mutation.end) == ("f", 1)


@pytest.fixture
def module(tmp_path: Path) -> Iterator[types.ModuleType]:
    """The code, imported."""
    found = types.ModuleType("code_of_it")
    sys.modules["code_of_it"] = found
    exec(compile(CODE, str(tmp_path / FILE), "exec"), found.__dict__)
    yield found
    del sys.modules["code_of_it"]


def replaced(tmp_path: Path, kind: str, line: str) -> None:
    functions, mutation = forked.Functions(tmp_path), change(kind, line)
    new = mutation.apply(CODE)
    functions.replace(str(tmp_path / FILE), CODE, new, mutation.begin, mutation.end)
    functions.forget()


def test_what_is_kept_is_forgotten(tmp_path: Path, module: types.ModuleType) -> None:
    assert module.twice(3) == 6
    assert isinstance(module.twice, functools._lru_cache_wrapper)
    replaced(tmp_path, "binary", "x + x")
    assert module.twice(3) == 0


def test_functions_within_others_are_replaced_too(tmp_path: Path, module: types.ModuleType) -> None:
    """The inner one is alive already, as that of a decorator."""
    assert module.third(5) == (1, 1)
    replaced(tmp_path, "number", "return function")
    assert module.third(5) == (1, 2)


def test_a_change_of_lines_moves_nothing(tmp_path: Path, module: types.ModuleType) -> None:
    replaced(tmp_path, "return", "return [y for y in found")
    assert module.third(5) == (None, 1)
    assert module.below(2) and module.Point().next == 5


def test_methods_of_classes_that_were_made_twice(tmp_path: Path, module: types.ModuleType) -> None:
    replaced(tmp_path, "binary", "self.x + 1")
    assert module.Point().next == 3


def test_a_function_that_holds_other_names_cannot_be_replaced(
    tmp_path: Path, module: types.ModuleType
) -> None:
    with pytest.raises(forked.UnableError, match=r"^Point\.told has other free variables$"):
        replaced(tmp_path, "return", "super().__repr__()")
    assert module.Point().told() == "small"


def test_a_function_that_nobody_has_cannot_be_replaced(
    tmp_path: Path, module: types.ModuleType
) -> None:
    del module.unseen
    with pytest.raises(forked.UnableError, match=r"^no function unseen$"):
        replaced(tmp_path, "binary", "8 % 3")


# --- what becomes of mutants ---------------------------------------------------------------------


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
        assert found == Verdict(f"FAILED {TEST}::test_not_below - assert not True", 10, 10)
    else:
        assert isinstance(found, Verdict) and found.tests == 2
        assert (found.by or "").startswith(f"FAILED {TEST}::test_{test} - ")


def test_a_mutant_lives_that_no_test_sees(forks: Forks) -> None:
    """Each child has its own folders; a test that fails as it is kills nobody."""
    assert judged(forks, "binary", "8 % 3") == Verdict(None, 10, 10)
    assert judged(forks, "binary", "8 % 3", "test_unseen", files=False) == Verdict(None, 1, 1)


def test_children_at_the_same_time_do_not_meet(forks: Forks) -> None:
    with ThreadPoolExecutor(6) as pool:
        each = [pool.submit(judged, forks, "binary", "8 % 3", "test_own_folders") for _ in range(6)]
    assert {e.result() for e in each} == {Verdict(None, 10, 10)}


@pytest.mark.slow
def test_a_mutant_never_ends(forks: Forks) -> None:
    found = judged(forks, "statement", "n -= 1", "test_count")
    assert found == Verdict(f"no end of {TEST}::test_count, or the process died", 1, 11)


def test_values_that_were_made_before_the_fork_stay(forks: Forks) -> None:
    found = judged(forks, "binary", "7 + 1", "test_made", files=False)
    assert found == Verdict(None, 1, 1, early=True)


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
    assert forks.judge(FILE, change("binary", "8 % 3"), timed, [], 0) == Verdict(None, 0, 1)


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
        by_fork = 0 if forked == "no" else 11
        assert fate("binary", "x + x", "test_twice") == (True, True, by_fork)
        early = (False, False, 10) if forked == "only" else (True, True, 0)
        assert fate("binary", "7 + 1", "test_made") == early
        module = None if forked == "only" else (True, True, 0)
        assert fate("number", "LIMIT = 3", "test_not_below") == module
    finally:
        judges.close()
