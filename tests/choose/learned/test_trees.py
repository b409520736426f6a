"""Trees: what they add up, and files that are none."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowering.ground.errors import InternalError
from wsched.choose.learned.features import FEATURES
from wsched.choose.learned.order import TREES
from wsched.choose.learned.trees import Trees

NAMES = ("wide", "deep")

TWO = Trees(
    names=np.array(NAMES),
    roots=np.array([0, 5]),
    feature=np.array([0, 0, 1, 0, 0, 0], np.uint8),
    most=np.array([10, np.inf, 2.5, np.inf, np.inf, np.inf], np.float32),
    left=np.array([1, 1, 3, 3, 4, 5]),
    right=np.array([2, 1, 4, 3, 4, 5]),
    value=np.array([0, 1, 0, 2, 4, 0.5]),
    depth=np.array(2),
)
"""``wide <= 10: 1, else deep <= 2.5: 2, else 4``, and 0.5 of all."""


def test_trees_are_added_up() -> None:
    rows = np.array([[10, 0], [11, 2.5], [11, 3], [9, 3]], np.float32)
    assert TWO.of(rows).tolist() == [1.5, 2.5, 4.5, 1.5]
    assert TWO.moved(-1).of(rows).tolist() == [0.5, 1.5, 3.5, 0.5]
    assert TWO.of(rows[:0]).tolist() == []


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    TWO.write(tmp_path / "two.npz")
    found = Trees.read(tmp_path / "two.npz", NAMES)
    assert all((getattr(found, f.name) == getattr(TWO, f.name)).all() for f in fields(Trees))


def test_the_file_of_the_package() -> None:
    found = Trees.read(TREES, FEATURES)
    assert 0 < found.depth <= 9 and len(found.roots) == 800


def refusal(path: Path, names: tuple[str, ...] = NAMES) -> str:
    with pytest.raises(InternalError) as error:
        Trees.read(path, names)
    return str(error.value)


def test_what_is_no_file_of_trees(tmp_path: Path) -> None:
    path = tmp_path / "trees.npz"
    assert "cannot be read as trees" in refusal(path)
    path.write_bytes(b"PK\x03\x04 cut off")
    assert "cannot be read as trees" in refusal(path)
    np.savez(path, names=np.array(NAMES))
    assert "cannot be read as trees" in refusal(path)


def test_nothing_in_a_file_is_executed(tmp_path: Path) -> None:
    path = tmp_path / "trees.npz"
    arrays = {f.name: getattr(TWO, f.name) for f in fields(Trees)}
    np.savez(path, **(arrays | {"value": np.array([print] * 6, object)}))
    assert "Object arrays cannot be loaded" in refusal(path)


def test_trees_of_other_features(tmp_path: Path) -> None:
    TWO.write(tmp_path / "two.npz")
    assert "other features" in refusal(tmp_path / "two.npz", ("wide", "long"))


@pytest.mark.parametrize(
    "other",
    [
        {"left": np.array([1, 1, 3, 3, 4, 6])},
        {"right": np.array([-1, 1, 4, 3, 4, 5])},
        {"feature": np.array([0, 0, 2, 0, 0, 0])},
        {"roots": np.array([0, 6])},
        {"roots": np.array([], int)},
        {"most": np.array([1.0])},
        {"depth": np.array([2, 2])},
    ],
    ids=lambda x: next(iter(x)),
)
def test_walks_that_leave_the_nodes(other: dict[str, Any], tmp_path: Path) -> None:
    replace(TWO, **other).write(tmp_path / "two.npz")
    assert "are no trees" in refusal(tmp_path / "two.npz")
