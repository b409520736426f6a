"""Frozen dataclasses: their values by name, and other ones in some fields."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, replace
from inspect import signature

import pytest

from lowering.ground.expr import ScalarType, Var
from lowering.ground.frozen import fields_of, quick, replaced, values_of


@dataclass(frozen=True, slots=True)
class Pair:
    first: int
    second: str = "b"


@quick
@dataclass(frozen=True, slots=True)
class Quick:
    first: int
    second: str = "b"

    def __post_init__(self) -> None:
        if self.first < 0:
            raise ValueError(self.first)


@dataclass(frozen=True, slots=True)
class Alone:
    only: int


def test_values_by_name() -> None:
    assert values_of(Alone(3)) == {"only": 3}
    assert values_of(Pair(1)) == {"first": 1, "second": "b"}
    assert list(values_of(Var("n"))) == ["name", "type"]
    assert (fields_of(Alone(3)), fields_of(Pair(1))) == ((3,), (1, "b"))


def test_as_the_standard_library_does() -> None:
    old = Pair(1, "a")
    assert replaced(old, second="c") == replace(old, second="c") == Pair(1, "c")
    assert replaced(old) == old
    assert replaced(Var("n"), type=ScalarType.I64) == Var("n", ScalarType.I64)
    with pytest.raises(TypeError, match=r"^Pair has no field third$"):
        replaced(old, third=0)


def test_a_quick_dataclass_is_a_dataclass() -> None:
    """Its ``__init__`` takes the same, checks the same, and nothing else sets a field."""
    made = Quick(1)
    assert made == Quick(first=1, second="b") == replace(Quick(2), first=1) != Quick(2)
    assert hash(made) == hash(Quick(1)) and repr(made) == "Quick(first=1, second='b')"
    assert made == pickle.loads(pickle.dumps(made)) == copy.copy(made)
    assert [*signature(Quick).parameters] == [*signature(Pair).parameters]
    with pytest.raises(FrozenInstanceError):
        made.first = 2  # type: ignore[misc]
    with pytest.raises(ValueError, match="-1"):
        Quick(-1)
    with pytest.raises(TypeError, match="first"):
        Quick()  # type: ignore[call-arg]


def test_a_default_that_is_made_anew() -> None:
    @quick
    @dataclass(frozen=True, slots=True)
    class Made:
        first: int
        items: list[int] = field(default_factory=list)

    one, other = Made(1), Made(1)
    assert one == other == Made(1, []) and one.items is not other.items
    assert Made(first=2, items=one.items).items is one.items


def test_a_field_that_is_no_argument_is_not_for_a_quick_dataclass() -> None:
    @dataclass(frozen=True, slots=True)
    class Made:
        first: int = field(default=1, init=False)

    with pytest.raises(TypeError, match=r"Made\.first: no argument"):
        quick(Made)


def test_replaced_by_the_same_values_is_the_same() -> None:
    made = Quick(1)
    assert replaced(made, first=made.first, second=made.second) is made
    assert replaced(made, first=2) == Quick(2)
