"""What a fork replaces, and what it watches."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import forked
import pytest
from mutations import mutations

from tests.tools.mutants import CODE, FILE, change


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


STATEMENTS = """\
def f(x):
    @cache
    def g(y):
        return (y +
                1)
    if (x and
            y):
        pass
    elif z: return 2
    try:
        z()
    except E:
        x = 3
    for i in range(
        4
    ):
        with open(i,
                  5):
            z(6)
"""


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("cache", [2, 3]),
        ("y +", [4, 5]),
        ("1)", [4, 5]),
        ("and", [6, 7]),
        ("pass", [8]),
        ("elif z", [9]),
        ("return 2", [9]),
        ("E:", [12]),
        ("3", [13]),
        ("4", [14, 15, 16]),
        ("5", [17, 18]),
        ("z(6)", [19]),
    ],
)
def test_the_statement_around_a_change(text: str, lines: list[int]) -> None:
    begin = STATEMENTS.index(text)
    assert [*forked.statement(STATEMENTS, begin, begin + len(text))] == lines


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
