"""The loop nest of one tensor in numbers: what each iteration stands for, and whether it exists.

Nothing here knows of the transform graph or of the proof: extents are evaluated from the logical
dimensions on, and an iteration is taken back through the tensor's own transforms to coordinates.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from lowering.ground.expr import evaluate
from wsched.fusion import IterDomain, IterType, Merge, Split, TensorView

__all__ = ["MAX_POINTS", "NoWorld", "NotJudged", "Walk", "World", "roots"]

MAX_POINTS = 400_000
"""Iterations that one mesh may have."""

_NO_END = 1 << 40
"""For how many indices of an empty inner loop the outer one stays where it is."""

Values = dict[int, Any]


class NotJudged(Exception):  # noqa: N818
    """The oracle has no opinion of this schedule."""


class NoWorld(Exception):  # noqa: N818
    """No kernel runs on such a grid."""


Deal = int | tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class World:
    """Concrete sizes: extents M, N and K, CTAs along x, and how tiles are dealt out at run time.

    Args:
        m, n, k: extents.
        grid: CTAs.
        deal: 0 for in turn, else the seed of an assignment, or what each taker gets, in order.
        through: dimensions, by position, whose own tails all loops run through: what is loaded
            there is zero, and nothing is stored. Without it these tails are cut off as well.
        overhang: those of which the tails of tiles alone are run through, where tiles are split
            again and that rounds up.
        batch: matrices of a batch; no dimension says which one without it.
    """

    m: int
    n: int
    k: int
    grid: int
    deal: Deal = 0
    through: frozenset[int] = frozenset()
    overhang: frozenset[int] = frozenset()
    batch: int | None = None

    @property
    def extents(self) -> dict[str, int]:
        """Of the dimensions of a product, what it sums over included, outermost first."""
        outer = {} if self.batch is None else {"B": self.batch}
        return outer | {"M": self.m, "N": self.n, "K": self.k}

    @property
    def env(self) -> dict[str, int]:
        """The world for ``evaluate``."""
        return self.extents | {"%nctaid.x": self.grid}

    def __str__(self) -> str:
        sizes = " ".join(f"{name}={size}" for name, size in self.extents.items())
        deal = f", deal {self.deal}" if self.deal else ""
        return f"{sizes} on {self.grid} CTAs{deal}"


@cache
def _deal(things: int, takers: int, deal: Deal) -> Any:
    """``[taker, count]``: what each taker gets, in growing order; ``things`` for nothing."""
    if isinstance(deal, tuple):
        taken = [list(got) for got in deal]
    else:
        rng = random.Random(deal)
        taken = [[] for _ in range(takers)]
        for n in range(things):
            taken[rng.randrange(takers) if deal else n % takers].append(n)
    table = np.full((takers, max(map(len, taken), default=0)), things)
    for row, got in zip(table, taken, strict=True):
        row[: len(got)] = got
    return table


class Walk:
    """One tensor in one world."""

    def __init__(self, t: TensorView, world: World) -> None:
        self.t, self.world = t, world
        env = world.env
        self.extents = {d.id: evaluate(d.extent, env) for d in t.logical}
        self.tables: dict[int, Any] = {}
        for step in t.transforms:
            self._extend(step, env)

    def _extend(self, step: Split | Merge, env: Mapping[str, int]) -> None:
        if isinstance(step, Merge):
            outer, inner = self.extents[step.outer.id], self.extents[step.inner.id]
            self.extents[step.output.id] = outer * inner
            return
        whole, factor = self.extents[step.input.id], evaluate(step.factor, env)
        if factor < 1:
            raise NoWorld(f"a factor of {factor}")
        rest = -(-whole // factor)
        outer, inner = (rest, factor) if step.inner_split else (factor, rest)
        if step.dynamic:
            table = self.tables[step.input.id] = _deal(whole, inner, self.world.deal)
            outer = table.shape[1]
        self.extents[step.outer.id], self.extents[step.inner.id] = outer, inner

    def extent(self, d: IterDomain) -> int:
        """Number of iterations of a loop."""
        return self.extents[d.id]

    def mesh(self, free: Sequence[IterDomain]) -> Values:
        """All index tuples of some loops in lexicographic order, the others at 0."""
        shape = [self.extent(d) for d in free]
        points = int(np.prod(shape, dtype=np.int64)) if free else 1
        if points > MAX_POINTS:
            raise NotJudged(f"{points} iterations of {self.t.name}")
        values: Values = {d.id: np.zeros(points, np.int64) for d in self.t.loop}
        grids = np.indices(shape, dtype=np.int64) if free else ()
        values |= {d.id: g.reshape(-1) for d, g in zip(free, grids, strict=True)}
        return values

    def back(self, loops: Values) -> Values:
        """Indices of all domains from those of the loops."""
        v = dict(loops)
        for step in reversed(self.t.transforms):
            if isinstance(step, Merge):
                v[step.outer.id], v[step.inner.id] = self._unmerge(step, v[step.output.id])
            elif step.dynamic:
                v[step.input.id] = self._dealt(step, v[step.outer.id], v[step.inner.id])
            else:
                inner = self.extents[step.inner.id]
                v[step.input.id] = v[step.outer.id] * inner + v[step.inner.id]
        return v

    def _dealt(self, step: Split, count: Any, taker: Any) -> Any:
        table, things = self.tables[step.input.id], self.extents[step.input.id]
        if not table.size:
            return np.full_like(count, things)
        takers, most = table.shape
        got = table[np.minimum(taker, takers - 1), np.minimum(count, most - 1)]
        return np.where((taker < takers) & (count < most), got, things)

    def _unmerge(self, step: Merge, flat: Any) -> tuple[Any, Any]:
        wide = self.extents[step.inner.id] or _NO_END
        if not step.traversal:
            return flat // wide, flat % wide
        group, within = flat // (wide * step.traversal), flat % (wide * step.traversal)
        first = group * step.traversal
        rows = np.clip(self.extents[step.outer.id] - first, 1, step.traversal)
        return first + within % rows, within // rows

    def coordinates(self, loops: Values) -> list[Any]:
        """Indices of the logical dimensions."""
        v = self.back(loops)
        return [v[d.id] for d in self.t.logical]

    def exists(self, loops: Values, within: Iterable[IterDomain], summed: bool = True) -> Any:
        """Which iterations exist: every index that was split is in range.

        Args:
            loops: the iterations.
            within: loops inside a stage or box, taken at 0: a box that touches the tensor exists.
            summed: whether splits of dimensions that are summed over count.
        """
        start = dict(loops)
        for d in within:
            start[d.id] = np.zeros_like(start[d.id])
        v = self.back(start)
        found = np.ones(len(next(iter(start.values()))), bool)
        for step in self.t.transforms:
            if not isinstance(step, Split) or self._runs_through(step):
                continue
            if summed or step.input.iter_type is not IterType.Reduction:
                found &= v[step.input.id] < self.extents[step.input.id]
        return found

    def _runs_through(self, step: Split) -> bool:
        """Whether a split is of one dimension whose tails are run through."""
        found, world = roots(self.t, step.input), self.world
        whole = step.input in self.t.logical
        return len(found) == 1 and found <= (
            world.through | world.overhang if whole else world.through
        )

    def box(self, inner: Sequence[IterDomain]) -> tuple[int, ...] | None:
        """Size along each logical dimension of what some loops cover together, None if it has gaps.

        The loops' extents are constants.
        """
        corner = self.mesh(())
        last = corner | {d.id: np.array([self.extent(d) - 1]) for d in inner}
        low, high = self.coordinates(corner), self.coordinates(last)
        sizes = tuple(int(h[0] - x[0]) + 1 for x, h in zip(low, high, strict=True))
        points = int(np.prod([self.extent(d) for d in inner], dtype=np.int64))
        return sizes if int(np.prod(sizes, dtype=np.int64)) == points else None

    def spans(self, loops: Values, inner: Sequence[IterDomain], sizes: tuple[int, ...]) -> Any:
        """Which iterations cover a box of these sizes with some loops."""
        last = loops | {d.id: np.full_like(loops[d.id], self.extent(d) - 1) for d in inner}
        ends = zip(self.coordinates(loops), self.coordinates(last), sizes, strict=True)
        fits = [high - low + 1 == size for low, high, size in ends]
        return np.logical_and.reduce(fits)


def roots(t: TensorView, d: IterDomain) -> frozenset[int]:
    """Positions of the logical dimensions that a domain comes from."""
    found = {d.id}
    for step in reversed(t.transforms):
        made = {x.id for x in step.outputs}
        if found & made:
            found = (found - made) | {x.id for x in step.inputs}
    return frozenset(p for p, x in enumerate(t.logical) if x.id in found)
