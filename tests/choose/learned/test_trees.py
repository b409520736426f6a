"""Trees: what they add up, and files that are none."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

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
    probes=np.array([[9, 3], [11, 2.5], [10, 0]], np.float32),
)
"""``wide <= 10: 1, else deep <= 2.5: 2, else 4``, and 0.5 of all."""


def same(one: Trees, other: Trees) -> bool:
    return all((getattr(one, f.name) == getattr(other, f.name)).all() for f in fields(Trees))


def test_trees_are_added_up() -> None:
    rows = np.array([[10, 0], [11, 2.5], [11, 3], [9, 3]], np.float32)
    assert TWO.of(rows).tolist() == [1.5, 2.5, 4.5, 1.5]
    assert TWO.moved(-1).of(rows).tolist() == [0.5, 1.5, 3.5, 0.5]
    assert TWO.of(rows[:0]).tolist() == []


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    TWO.write(tmp_path / "two.npz")
    assert same(Trees.read(tmp_path / "two.npz", NAMES), TWO)


def test_the_file_of_the_package() -> None:
    found = Trees.read(TREES, FEATURES)
    assert 0 < found.depth <= 9 and len(found.roots) == 900


def test_what_a_row_is_told_depends_on_no_other() -> None:
    trees = Trees.read(TREES, FEATURES)
    rows = trees.probes.astype(np.float32)
    alone = [float(trees.of(row[None])[0]) for row in rows]
    assert trees.of(rows).tolist() == alone


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
    path.write_bytes(b"")
    assert "cannot be read as trees" in refusal(path)
    with path.open("wb") as file:
        np.save(file, TWO.value)
    assert "cannot be read as trees" in refusal(path)


def test_a_damaged_file(tmp_path: Path) -> None:
    """Where a byte is another one: it is refused, or nothing was changed that is read."""
    path = tmp_path / "two.npz"
    TWO.write(path)
    whole, refused = path.read_bytes(), 0
    for at in range(0, len(whole), 4):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            assert same(Trees.read(path, NAMES), TWO)
        except InternalError:
            refused += 1
    assert refused > len(whole) / 8


def test_a_member_that_is_no_array(tmp_path: Path) -> None:
    path = tmp_path / "two.npz"
    TWO.write(path)
    with ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    for name in members:
        with ZipFile(path, "w") as file:
            for other, data in members.items():
                file.writestr(other, b"none" if other == name else data)
        assert refusal(path)


def test_nothing_in_a_file_is_executed(tmp_path: Path) -> None:
    path = tmp_path / "trees.npz"
    arrays = {f.name: getattr(TWO, f.name) for f in fields(Trees)}
    np.savez(path, **(arrays | {"value": np.array([print] * 6, object)}))
    assert "Object arrays cannot be loaded" in refusal(path)


def test_trees_of_other_features(tmp_path: Path) -> None:
    TWO.write(tmp_path / "two.npz")
    assert "other features" in refusal(tmp_path / "two.npz", ("wide", "long"))


REFUSED: dict[str, dict[str, Any]] = {
    "left: no node": {"left": np.array([1, 1, 3, 3, 4, 6])},
    "left: in front": {"left": np.array([1, 1, 0, 3, 4, 5])},
    "left: a leaf's only": {"left": np.array([1, 1, 3, 3, 5, 5])},
    "left: round about": {
        "left": np.array([1, 2, 3, 3, 4, 5]),
        "right": np.array([2, 0, 4, 3, 4, 5]),
    },
    "left: floats": {"left": TWO.left.astype(float)},
    "left: a matrix": {"left": np.stack([TWO.left] * 6)},
    "left: fewer": {"left": np.array([1, 1, 3, 3, 4])},
    "right: no node": {"right": np.array([-1, 1, 4, 3, 4, 5])},
    "feature: none": {"feature": np.array([0, 0, 2, 0, 0, 0])},
    "feature: bools": {"feature": np.zeros(6, bool)},
    "roots: no node": {"roots": np.array([0, 6])},
    "roots: none": {"roots": np.array([], int)},
    "roots: one number": {"roots": np.array(0)},
    "roots: texts": {"roots": np.array(["0", "5"])},
    "most: one": {"most": np.array([1.0])},
    "most: no number": {"most": np.array([np.nan] * 6)},
    "value: texts": {"value": np.array(["1"] * 6)},
    "value: a matrix": {"value": np.zeros((6, 2))},
    "value: a column": {"value": np.zeros((6, 1))},
    "value: no number": {"value": np.array([0, 1, 0, 2, np.nan, 0.5])},
    "value: infinite": {"value": np.array([0, 1, 0, 2, np.inf, 0.5])},
    "depth: two": {"depth": np.array([2, 2])},
    "depth: negative": {"depth": np.array(-1)},
    "depth: too few": {"depth": np.array(1)},
    "depth: too many": {"depth": np.array(3)},
    "depth: a float": {"depth": np.array(2.5)},
    "probes: of other features": {"probes": np.zeros((3, 3), np.float32)},
    "probes: one number": {"probes": np.array(0.5)},
    "probes: counts": {"probes": np.zeros((3, 2), int)},
}


@pytest.mark.parametrize("other", REFUSED.values(), ids=REFUSED)
def test_nodes_that_are_no_trees(other: dict[str, Any], tmp_path: Path) -> None:
    replace(TWO, **other).write(tmp_path / "two.npz")
    assert "are no trees" in refusal(tmp_path / "two.npz")


def test_the_names_are_a_list(tmp_path: Path) -> None:
    replace(TWO, names=np.array("ab")).write(tmp_path / "two.npz")
    assert "other features" in refusal(tmp_path / "two.npz", ("a", "b"))


def test_trees_that_are_leaves(tmp_path: Path) -> None:
    leaf = replace(TWO, roots=np.array([5, 3]), depth=np.array(0))
    leaf.write(tmp_path / "leaf.npz")
    assert Trees.read(tmp_path / "leaf.npz", NAMES).of(np.zeros((1, 2))).tolist() == [2.5]
