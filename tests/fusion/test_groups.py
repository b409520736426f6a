"""Kernels that share groups out: each row of a group is exactly one kernel's."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from lowering.ground.expr import Expr, Var, evaluate
from lowering.ground.sharing import EXPRESSIONS, FEWEST, SAVED, Part, Sharing
from tests.lowering.ground.expressions import budget

SIZE = Var("size")
LENGTHS = st.lists(st.integers(1, 40).map(lambda n: 8 * n), min_size=2, max_size=5)


@lru_cache
def told(lengths: tuple[int, ...], own: int) -> tuple[list[tuple[str, Expr]], Part]:
    """What a kernel computes of a group's size, and its part."""
    named = list[tuple[str, Expr]]()

    def let(name: str, value: Expr) -> Expr:
        named.append((f"{name}_{len(named)}", value))
        return Var(named[-1][0])

    return named, Sharing(lengths, own).part(SIZE, replace(EXPRESSIONS, let=let))


def parts(lengths: tuple[int, ...], size: int) -> dict[int, tuple[int, int]]:
    """The kernels that have some of a group, with where their parts begin and end."""
    found = dict[int, tuple[int, int]]()
    for own in range(len(lengths)):
        named, part = told(lengths, own)
        env = {"size": size}
        for name, value in named:
            env[name] = evaluate(value, env)
        begin, rows = (evaluate(e, env) for e in (part.begin, part.size))
        if rows or begin:
            found[own] = begin, begin + rows
    return found


def takers(lengths: tuple[int, ...], size: int) -> list[int]:
    return list(parts(lengths, size))


def padded(size: int, length: int) -> int:
    return -(-size // length) * length


@drawn(LENGTHS.map(tuple), st.integers(1, 5000))
@budget(300)
def test_each_row_is_one_kernels(lengths: tuple[int, ...], size: int) -> None:
    """All of a group is the one's that pads it least, of equals the first; or the front is one's
    and the rest the next one's, and these pad it less by what two kernels have to gain.
    """
    found = parts(lengths, size)
    alone = min(padded(size, n) for n in lengths)
    if len(found) == 1:
        ((own, part),) = found.items()
        assert part == (0, size)
        assert own == [padded(size, n) for n in lengths].index(alone)
        return
    (one, front), (other, rest) = sorted(found.items())
    assert (front[0], front[1], rest[1]) == (0, rest[0], size)
    assert other == one + 1
    assert lengths[one] > lengths[other]
    whole, more = divmod(front[1], lengths[one])
    behind = -(-(rest[1] - rest[0]) // lengths[other])
    assert (more, min(whole, behind) >= FEWEST) == (0, True)
    assert evaluate(Sharing(lengths, one).part(SIZE).size, {"size": size}) == front[1]
    assert front[1] + padded(size - front[1], lengths[other]) <= alone - SAVED


def test_nothing_is_nobodys() -> None:
    assert parts((144, 128), 0) == {}


def test_every_size_of_a_few_lengths() -> None:
    """The parts follow each other."""
    for lengths in ((128, 144, 168), (168, 144, 128), (64, 64), (8, 16), (128, 104, 96, 88)):
        for size in range(1, 2100):
            ends = sorted(parts(lengths, size).values())
            assert [b for b, _ in ends] == [0, *(e for _, e in ends[:-1])]
            assert ends[-1][1] == size


@pytest.mark.parametrize(
    ("lengths", "size", "wanted"),
    [
        ((104, 96, 88), 1073, {0: (0, 312), 1: (312, 1073)}),  # 1080; 1144 by 104 rows alone
        ((128, 104, 96, 88), 2616, {0: (0, 2304), 1: (2304, 2616)}),
        ((104, 96, 88), 1040, {0: (0, 1040)}),
        ((104, 96, 88), 448, {1: (0, 192), 2: (192, 448)}),  # two of 96, one would do as well
        ((104, 96, 88), 544, {1: (0, 192), 2: (192, 544)}),  # two, with three at least none
        ((104, 96, 88), 600, {0: (0, 312), 1: (312, 600)}),  # 16 less than 7 of 88, behind it
        ((104, 96, 88), 368, {1: (0, 368)}),  # 16 less than 4 of 96, in front of it, do not do
        ((104, 96, 88), 361, {1: (0, 361)}),
        ((104, 96, 88), 353, {1: (0, 353)}),  # with one of 96 at least: 360
        ((96, 104), 1073, {1: (0, 1073)}),  # what is behind is shorter
        ((128, 64), 1100, {0: (0, 1100)}),  # never as many as two
    ],
)
def test_parts(lengths: tuple[int, ...], size: int, wanted: dict[int, tuple[int, int]]) -> None:
    assert parts(lengths, size) == wanted


@pytest.mark.parametrize("lengths", [(144, 128, 64), (64, 128), (72, 64, 144), (8, 8)])
def test_each_kernel_takes_some_group_or_is_refused(lengths: tuple[int, ...]) -> None:
    taken = {own for size in range(1, 2100) for own in takers(lengths, size)}
    idle = [n for own, n in enumerate(lengths) if own not in taken]
    wanted = f"tiles of {idle[0]} never pad a group less than those in front" if idle else ""
    assert Sharing(lengths).problem == wanted


def test_alone_there_is_nothing_to_share() -> None:
    assert not Sharing()
    assert takers((64,), 17) == [0]
