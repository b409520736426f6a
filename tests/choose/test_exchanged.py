"""The transposed product: whatever is said of a side is said of the other one, and nothing else."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from typing import Any

import pytest

from wsched.choose.gpus import H200_SMS
from wsched.choose.problem import Problem
from wsched.fusion import DataType
from wsched.schedule.matmul.computed import Computed
from wsched.schedule.matmul.demands import Demands
from wsched.schedule.matmul.reductions import Reductions

HALF = DataType.Half
ONE = Computed("b", DataType.Int8, 2.0)
PROBLEM = Problem(256, 512, 1024, HALF, (HALF,), H200_SMS)
DEMANDS = Demands(HALF, (HALF,), (), False, True, False, (1, 2), computed=ONE)

OTHER = {"m": "n", "n": "m", "a": "b", "b": "a"}
"""Letters of the sides in the names of fields."""


def partner(name: str) -> str:
    """The field that says of the other side what a field says of one; itself, if it is of both."""
    return "_".join(OTHER.get(word, word) for word in name.split("_"))


@pytest.mark.parametrize("made", [PROBLEM, DEMANDS], ids=lambda made: type(made).__name__)
def test_every_field_of_a_side_goes_to_the_other(made: Any) -> None:
    sides = {f.name for f in fields(made) if partner(f.name) != f.name}
    assert {partner(name) for name in sides} == sides >= {"m_major", "n_major"}
    marked = replace(made, **{name: f"what is {name}" for name in sides})
    turned = marked.exchanged
    assert {name: getattr(turned, name) for name in sides} == {
        name: f"what is {partner(name)}" for name in sides
    }
    assert turned.exchanged == marked


def test_what_is_of_both_sides_names_the_other_one() -> None:
    assert ONE.exchanged == Computed("a", DataType.Int8, 2.0) and ONE.exchanged.exchanged == ONE
    for made in (DEMANDS, replace(PROBLEM, computed=ONE)):
        assert made.exchanged.computed == ONE.exchanged and made.exchanged.exchanged == made
    assert DEMANDS.exchanged.counts == (2, 1)
    grouped = {letter: replace(PROBLEM, grouped=letter).exchanged.grouped for letter in ("m", "n")}
    assert grouped == {"m": "n", "n": "m"}


def test_rows_that_are_reduced_are_columns() -> None:
    found = Reductions(over_rows=2, over_columns=4, over_both=1, of_sums=True)
    for made in (replace(PROBLEM, **asdict(found)), replace(DEMANDS, reductions=found)):
        assert made.exchanged.reductions == found.exchanged
        assert made.exchanged.exchanged == made


def test_the_rest_stays() -> None:
    """What is along K, and of results that are matrices."""
    many = replace(PROBLEM, k_entries=(512, 512), batch=3, work=5, grouped="k")
    assert many.exchanged == replace(many, m=many.n, n=many.m)
