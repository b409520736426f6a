"""Regression trees whose answers are added up: read, checked, and asked for many rows at once."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from lowering.ground.errors import InternalError

__all__ = ["Numbers", "Trees"]

Numbers = NDArray[np.floating[Any]]
Counts = NDArray[np.integer[Any]]

_UNREADABLE = (
    OSError, EOFError, KeyError, TypeError, ValueError, RuntimeError, BadZipFile, zlib.error,
)  # fmt: skip
"""What NumPy and zipfile say of files that are none of arrays, or damaged."""


@dataclass(frozen=True, slots=True, eq=False)
class Trees:
    """The nodes of all trees, a tree's behind each other; a leaf leads to itself.

    Args:
        names: of the features.
        roots: the first node of each tree.
        feature: that a node asks for, by its place among the names.
        most: value up to which a row goes left.
        left: node on that side, behind its parent or the leaf itself.
        right: node on the other side, likewise.
        value: what a leaf adds.
        depth: of the deepest tree: so many steps lead to leaves of all.
        probes: what the features of fixed schedules were when the trees were fitted, a row for each
            (:mod:`wsched.choose.learned.probes`).
    """

    names: NDArray[np.str_]
    roots: Counts
    feature: Counts
    most: Numbers
    left: Counts
    right: Counts
    value: Numbers
    depth: Counts
    probes: Numbers

    def of(self, rows: Numbers) -> Numbers:
        """The sum over all trees for each row of features."""
        ways = np.stack([self.right, self.left], axis=1).astype(np.intp).ravel()
        feature, begins = self.feature.astype(np.intp), np.arange(len(rows)) * rows.shape[1]
        node = np.broadcast_to(self.roots[:, None], (len(self.roots), len(rows)))
        for _ in range(int(self.depth)):
            goes_left = rows.take(feature.take(node) + begins) <= self.most.take(node)
            node = ways.take(2 * node + goes_left)
        # In fp64, so that a row is told the same whichever others are asked for beside it.
        found: Numbers = self.value.take(node).sum(axis=0, dtype=np.float64).astype(np.float32)
        return found

    def moved(self, by: float) -> Trees:
        """Trees whose sum is more by so much."""
        leaves = self.left == np.arange(len(self.left))
        return replace(self, value=self.value + leaves * np.float32(by / len(self.roots)))

    def write(self, path: Path) -> None:
        """Write a file for :meth:`read`."""
        np.savez_compressed(path, **{f.name: getattr(self, f.name) for f in fields(self)})

    @classmethod
    def read(cls, path: Path, names: tuple[str, ...]) -> Trees:
        """Read what :meth:`write` wrote; nothing in a file is executed.

        Args:
            path: of the file.
            names: of the features that rows have, in order.

        Raises:
            InternalError: the file cannot be read, is of other features, or is no trees.
        """
        try:
            with path.open("rb") as binary, np.load(binary, allow_pickle=False) as file:
                found = cls(**{f.name: np.asarray(file[f.name]) for f in fields(cls)})
        except _UNREADABLE as error:
            raise InternalError(str(path), f"cannot be read as trees: {error}") from error
        if found.names.tolist() != list(names):
            raise InternalError(str(path), "was fitted to other features than there are")
        if not (found._has_types() and found._has_walks()):
            raise InternalError(str(path), "has nodes that are no trees")
        return found

    def _has_types(self) -> bool:
        """That nodes are integers and numbers, as many of all, and probes have all features."""
        counts = self.roots, self.feature, self.left, self.right
        numbers = self.most, self.value
        shapes = {x.shape for x in (*counts[1:], *numbers)}
        return (
            all(x.dtype.kind in "iu" for x in (*counts, self.depth))
            and all(x.dtype.kind == "f" for x in (*numbers, self.probes))
            and self.roots.ndim == self.value.ndim == 1
            and self.depth.ndim == 0
            and self.probes.shape[1:] == self.names.shape
            and len(shapes) == 1
        )

    def _has_walks(self) -> bool:
        """That a walk stays within the nodes, asks for features that there are, and comes in
        ``depth`` steps, but in no fewer, to leaves of all trees that add numbers.
        """
        nodes, own = len(self.value), np.arange(len(self.value))
        leaves = (self.left == own) & (self.right == own)
        inside = all(
            ((x >= 0) & (x < most)).all()
            for x, most in (
                (self.roots, nodes),
                (self.feature, len(self.names)),
                (self.left, nodes),
                (self.right, nodes),
            )
        )
        behind = leaves | ((self.left > own) & (self.right > own))
        known = np.isfinite(self.value).all() and not np.isnan(self.most).any()
        if not (len(self.roots) and inside and behind.all() and known):
            return False
        steps, done = 0, leaves  # what has come to a leaf behind so many steps
        while not done[self.roots].all():
            steps, done = steps + 1, done[self.left] & done[self.right]
        return steps == int(self.depth)
