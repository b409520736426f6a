"""Trees that put schedules in order, fitted to drawn problems; needs no GPU.

``python -m wsched.bench.drawn.fit FILE... --out TREES`` reads files of ``wsched bench random
--json``, plain or packed with xz, fits (scikit-learn: the extra ``fit`` of the package) and writes
what :mod:`wsched.choose.learned` reads. First it says what was gained at problems that the trees do
not know: each fifth of them by trees of the other four.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray

from wsched.bench.drawn.joined import Joined, joined
from wsched.choose.cost_model import cost
from wsched.choose.learned.features import FEATURES, features
from wsched.choose.learned.order import NEAR, told
from wsched.choose.learned.probes import probed
from wsched.choose.learned.trees import Numbers, Trees

__all__ = ["Measured", "fitted", "left", "measured", "trees_of"]

FOLDS = 5

STEEPNESS = 5.0
"""How fast a schedule counts for less that is slower than the fastest at its problem: one that
takes a tenth longer counts 0.6."""

SETTINGS = {
    "max_iter": 800, "learning_rate": 0.06, "max_leaf_nodes": 63, "max_depth": 9,
    "min_samples_leaf": 30, "l2_regularization": 3.0, "random_state": 0,
}  # fmt: skip
"""Of gradient boosting. Of 8 to 63 leaves and of 300 to 800 trees more are better, of two GPUs;
features left out at random are not (0041)."""


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """Schedules at problems, those of a problem beside each other.

    Args:
        rows: features of each.
        laws: logarithm of the time that they predict.
        took: logarithm of the time.
        starts: the first schedule of each problem.
        problem: number of each schedule's problem.
        names: of the problems: of one that was measured on two GPUs the same twice.
    """

    rows: Numbers
    laws: Numbers
    took: Numbers
    starts: NDArray[np.intp]
    problem: NDArray[np.intp]
    names: NDArray[np.str_]

    @property
    def behind(self) -> Numbers:
        """Logarithm of each time over the least at its problem."""
        return self._over_least(self.took)

    @property
    def target(self) -> Numbers:
        """What a prediction is off by, beside those of others at the problem."""
        off = self.took - self.laws
        mean = np.add.reduceat(off, self.starts) / np.bincount(self.problem)
        target: Numbers = off - mean[self.problem]
        return target

    @property
    def near(self) -> NDArray[np.bool_]:
        """What the laws put near their best."""
        near: NDArray[np.bool_] = self._over_least(self.laws) <= np.log(NEAR)
        return near

    def _over_least(self, logarithms: Numbers) -> Numbers:
        over: Numbers = logarithms - np.minimum.reduceat(logarithms, self.starts)[self.problem]
        return over

    def lost(self, ranked: Numbers) -> Numbers:
        """By problem, how much longer the first takes than the fastest, as a logarithm.

        Args:
            ranked: by what the schedules are in order.
        """
        order = np.lexsort((ranked, self.problem))
        lost: Numbers = self.behind[order[self.starts]]
        return lost


def measured(found: Iterable[Joined]) -> Measured:
    """The schedules of files at problems that have two or more."""
    rows, laws, took, sizes, names = [], [], [], [], []
    for (name, _), group in groupby(found, key=lambda j: (j.name, j.problem)):
        every = list(group)
        if len(every) < 2:
            continue
        sizes.append(len(every))
        names.append(name)
        for j in every:
            rows.append(features(j.problem, j.params))
            laws.append(cost(j.problem, j.params).by_laws)
            took.append(j.us)
    starts = np.cumsum([0, *sizes[:-1]])
    problem = np.repeat(np.arange(len(sizes)), sizes)
    told_of = np.array(rows, np.float32)
    return Measured(told_of, np.log(laws), np.log(took), starts, problem, np.array(names))


def fitted(m: Measured, some: NDArray[np.bool_] | None = None, **settings: Any) -> Trees:
    """Trees of schedules.

    Args:
        m: all.
        some: of which to fit to; None for all.
        settings: that differ from :data:`SETTINGS`.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor  # not for who only compiles

    some = np.ones(len(m.took), bool) if some is None else some
    model = HistGradientBoostingRegressor(**{**SETTINGS, **settings})
    model.fit(m.rows[some], m.target[some], sample_weight=np.exp(-STEEPNESS * m.behind[some]))
    made = trees_of(model)
    # What the laws put near their best is as long as predicted, in the mean over all problems.
    mean = made.of(m.rows[some & m.near]).mean()
    return made.moved(-float(mean))


def trees_of(model: Any) -> Trees:
    """The nodes of the trees of a scikit-learn model behind each other."""
    nodes = [tree.nodes for (tree,) in model._predictors]
    sizes = [len(n) for n in nodes]
    roots = np.cumsum([0, *sizes[:-1]])
    every, root = np.concatenate(nodes), np.repeat(roots, sizes)
    leaf, own = every["is_leaf"].astype(bool), np.arange(len(every))
    return Trees(
        names=np.array(FEATURES),
        roots=roots.astype(np.int32),
        feature=np.where(leaf, 0, every["feature_idx"]).astype(np.uint8),
        most=_rounded_down(np.where(leaf, np.inf, every["num_threshold"])),
        left=np.where(leaf, own, root + every["left"]).astype(np.int32),
        right=np.where(leaf, own, root + every["right"]).astype(np.int32),
        value=np.where(leaf, every["value"], 0.0).astype(np.float32),
        depth=np.array(every["depth"].max()),
        probes=probed(),
    )


def _rounded_down(most: Numbers) -> Numbers:
    """In fp32, so that rows of fp32 go left of the same that went left before: halfway to the next
    number a cast may go up to it.
    """
    near = most.astype(np.float32)
    down: Numbers = np.where(near > most, np.nextafter(near, np.float32(-np.inf)), near)
    return down


def left(m: Measured, seed: int = 0, **settings: Any) -> tuple[Numbers, Numbers]:
    """By problem what the laws alone lose, and what they lose with trees that do not know it, be it
    of another GPU, of what the laws put near their best.
    """
    names, which = np.unique(m.names, return_inverse=True)
    fold = (np.random.default_rng(seed).permutation(len(names)) % FOLDS)[which]
    ranked = m.laws.copy()
    for i in range(FOLDS):
        unknown = fold[m.problem] == i
        ranked[unknown] += told(fitted(m, ~unknown, **settings), m.rows[unknown])
    return m.lost(m.laws), m.lost(np.where(m.near, ranked, np.inf))


def main(
    files: list[Path] = typer.Argument(help="Of wsched bench random --json; .xz is unpacked."),
    out: Path = typer.Option(help="The file that is written."),
) -> None:
    """Fit trees that put schedules in order."""
    m = measured(j for path in files for j in joined(path))
    before, now = left(m)
    for name, lost in (("laws", before), ("laws and trees", now)):
        print(
            f"{name}: {len(lost)} problems, {100 * lost.mean():.2f} % behind the fastest, "
            f"{np.mean(lost < 0.03):.0%} within 3 %"
        )
    fitted(m).write(out)
    print(f"wrote {out}, {out.stat().st_size} bytes")


if __name__ == "__main__":
    typer.run(main)
