"""Trees that put schedules in order, fitted to drawn problems; needs no GPU.

``python -m wsched.bench.drawn.fit FILE... --out TREES`` reads files of ``wsched bench random
--json``, plain or packed with xz, fits (LightGBM: the extra ``fit`` of the package) and writes
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


@dataclass(frozen=True, slots=True)
class Boosting:
    """How many trees are fitted one behind the other.

    Args:
        trees: at most; fewer where nothing is left to split.
        rate: share of what a tree would mend that it does.
    """

    trees: int
    rate: float


STEEPNESS = 5.0
"""How fast a schedule counts for less that is slower than the fastest at its problem, where trees
are fitted to times: one that takes a tenth longer counts 0.6."""

SETTINGS = {
    "num_leaves": 63, "max_depth": 9, "min_data_in_leaf": 30, "lambda_l2": 3.0,
    "use_missing": False, "seed": 0, "deterministic": True, "num_threads": 1, "verbose": -1,
}  # fmt: skip
"""Of gradient boosting."""

TO_TIMES, TO_ORDER = Boosting(trees=300, rate=0.06), Boosting(trees=600, rate=0.03)
"""Trees that are fitted to times, and behind them those that are to the order (0041)."""

BLUR = 0.04
"""How far apart two logarithms of time are that an order tells apart: a schedule that takes so much
longer than the fastest is its choice e times more seldom."""


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
    """Trees of schedules: to what the laws are off by, then to the order of those near their best.

    Args:
        m: all.
        some: of which to fit to, whole problems; None for all.
        settings: that differ from :data:`SETTINGS`.
    """
    import lightgbm  # not for who only compiles

    some = np.ones(len(m.took), bool) if some is None else some
    given = {**SETTINGS, **settings}
    times = lightgbm.train(
        {**given, "objective": "l2", "learning_rate": TO_TIMES.rate},
        lightgbm.Dataset(m.rows[some], m.target[some], weight=np.exp(-STEEPNESS * m.behind[some])),
        TO_TIMES.trees,
    )
    compared = some & m.near
    known = times.predict(m.rows[compared])
    order = lightgbm.train(
        {**given, "objective": _Listed(m, compared).slopes, "learning_rate": TO_ORDER.rate,
         "min_sum_hessian_in_leaf": 1e-3},
        lightgbm.Dataset(m.rows[compared], m.target[compared], init_score=known),
        TO_ORDER.trees,
    )  # fmt: skip
    made = trees_of(times, order)
    # What the laws put near their best is as long as predicted, in the mean over all problems.
    return made.moved(-float(made.of(m.rows[compared]).mean()))


class _Listed:
    """How far an order of the schedules of each problem is from that of their times.

    With logarithms ``t`` of time a schedule is chosen with the probability ``exp(-t / BLUR)`` over
    the sum of its problem's. What is made least is the cross entropy of those of predicted times
    from those of measured ones (ListNet: Cao et al., Learning to rank, ICML 2007).

    Args:
        m: all schedules.
        some: those that are compared.
    """

    def __init__(self, m: Measured, some: NDArray[np.bool_]) -> None:
        _, self._starts, self._problem = np.unique(
            m.problem[some], return_index=True, return_inverse=True
        )
        self._laws = m.laws[some]
        self._taken = self._chosen(m.took[some])

    def _chosen(self, times: Numbers) -> Numbers:
        """By schedule, the probability that it is chosen of those of its problem."""
        less = -times / BLUR
        share = np.exp(less - np.maximum.reduceat(less, self._starts)[self._problem])
        chosen: Numbers = share / np.add.reduceat(share, self._starts)[self._problem]
        return chosen

    def slopes(self, told: Numbers, _: Any) -> tuple[Numbers, Numbers]:
        """Gradient and curvature by what trees say of each schedule, times :data:`BLUR`."""
        chosen = self._chosen(self._laws + told)
        return self._taken - chosen, np.maximum(chosen * (1 - chosen) / BLUR, 1e-3)


def trees_of(*boosters: Any) -> Trees:
    """The nodes of the trees of LightGBM's boosters behind each other."""
    every = list[_Node]()
    roots = list[int]()
    depth = 0
    for booster in boosters:
        for tree in booster.dump_model()["tree_info"]:
            roots.append(len(every))
            depth = max(depth, _append(tree["tree_structure"], every))
    feature, most, left, right, value = zip(*every, strict=True)
    return Trees(
        names=np.array(FEATURES),
        roots=np.array(roots, np.int32),
        feature=np.array(feature, np.uint8),
        most=_rounded_down(np.array(most)),
        left=np.array(left, np.int32),
        right=np.array(right, np.int32),
        value=np.array(value, np.float32),
        depth=np.array(depth),
        probes=probed(),
    )


_Node = tuple[int, float, int, int, float]
"""Feature, value up to which a row goes left, the nodes left and right, what a leaf adds."""


def _append(node: dict[str, Any], every: list[_Node]) -> int:
    """Append a node and those below it; how many steps lead to its furthest leaf."""
    own = len(every)
    if "leaf_value" in node:
        every.append((0, np.inf, own, own, node["leaf_value"]))
        return 0
    every.append((0, 0.0, own, own, 0.0))  # its place, until it is known where the right one lies
    deep = _append(node["left_child"], every)
    right = len(every)
    deep = max(deep, _append(node["right_child"], every))
    every[own] = (node["split_feature"], node["threshold"], own + 1, right, 0.0)
    return deep + 1


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
