"""Numbers and lists that a text computes: each bound from both of its sides."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from wsched.importer.text.arithmetic import (
    BITS,
    LENGTH,
    NESTING,
    POWER,
    NoValueError,
    binary,
    bounded,
)

ADD, MULT, POW = ast.Add(), ast.Mult(), ast.Pow()


def nested(levels: int) -> Any:
    """A list in a list, so many of them."""
    found: Any = 0
    for _ in range(levels):
        found = (found,)
    return found


@pytest.mark.parametrize(
    ("op", "within", "beyond", "supported"),
    [
        (POW, (2, POWER), (2, POWER + 1), f"powers of numbers up to {POWER}"),
        (POW, (POWER, 2), (POWER + 1, 2), f"powers of numbers up to {POWER}"),
        (POW, (2.0, -POWER), (2.0, -POWER - 1), f"powers of numbers up to {POWER}"),
        (MULT, ((0, 1), LENGTH // 2), ((0, 1), LENGTH // 2 + 1), f"lists of at most {LENGTH}"),
        (MULT, (LENGTH // 2, (0, 1)), (LENGTH // 2 + 1, (0, 1)), f"lists of at most {LENGTH}"),
        (ADD, ((0,) * (LENGTH - 1), (1,)), ((0,) * LENGTH, (1,)), f"lists of at most {LENGTH}"),
        (MULT, (2, 2 ** (BITS - 2)), (2, 2 ** (BITS - 1)), f"numbers of at most {BITS} bits"),
    ],
)
def test_the_bounds_of_an_operation(
    op: ast.operator, within: tuple[Any, Any], beyond: tuple[Any, Any], supported: str
) -> None:
    x, y = within
    assert binary(op, x, y) == (x**y if op is POW else x * y if op is MULT else x + y)
    with pytest.raises(NoValueError) as error:
        binary(op, *beyond)
    assert str(error.value) == supported


def test_the_bounds_of_a_value() -> None:
    assert bounded(range(LENGTH)) == tuple(range(LENGTH))
    assert bounded(nested(NESTING)) == nested(NESTING)
    for found in (range(LENGTH + 1), nested(NESTING + 1), 1 << BITS):
        with pytest.raises(NoValueError):
            bounded(found)


class Unmade(tuple[int, ...]):
    """A list that nobody may repeat."""

    def __mul__(self, times: object) -> tuple[int, ...]:
        raise AssertionError(f"repeated {times} times")


@pytest.mark.parametrize("times", [3, LENGTH, 10**30])
def test_a_list_that_is_too_long_is_not_made_first(times: int) -> None:
    """A bound of what has been made is none of the memory that it takes."""
    with pytest.raises(NoValueError, match="lists of at most"):
        binary(MULT, Unmade((0,) * (LENGTH // 2)), times)


@pytest.mark.parametrize(
    ("op", "x", "y"), [(MULT, (1, 2), 1.5), (MULT, (1, 2), 2.0), (ADD, (1, 2), 1), (ADD, 1, (2,))]
)
def test_a_list_is_repeated_by_a_whole_number_and_nothing_else(
    op: ast.operator, x: Any, y: Any
) -> None:
    with pytest.raises(NoValueError, match="lists repeated a whole number of times"):
        binary(op, x, y)
    assert binary(MULT, (1, 2), 2) == binary(MULT, 2, (1, 2)) == (1, 2, 1, 2)
    assert binary(MULT, (1, 2), -1) == ()
