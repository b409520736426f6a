"""A small tree whose mutants are judged in forks, and its mutations."""

from __future__ import annotations

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


def only(x):
    x += 0
    return sorted(
        [x],
        reverse=True,
    )
"""

TESTS = """\
import time
import os
import subprocess
import sys
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

def test_only():
    assert c.only(1) == [1]

def test_process():
    subprocess.run([sys.executable, "-c", "import code_of_it as c; c.unseen()"], check=True)

def test_skipped():
    c.unseen()
    pytest.skip("not here")

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
