"""Records: their values by name, and other ones in some fields."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from lowering.ground.expr import ScalarType, Var
from lowering.ground.records import replaced, values_of


@dataclass(frozen=True, slots=True)
class Pair:
    first: int
    second: str = "b"


def test_values_by_name() -> None:
    assert values_of(Pair(1)) == {"first": 1, "second": "b"}
    assert list(values_of(Var("n"))) == ["name", "type"]


def test_as_the_standard_library_does() -> None:
    old = Pair(1, "a")
    assert replaced(old, second="c") == replace(old, second="c") == Pair(1, "c")
    assert replaced(old) == old
    assert replaced(Var("n"), type=ScalarType.I64) == Var("n", ScalarType.I64)
    with pytest.raises(TypeError, match="third"):
        replaced(old, third=0)
