"""Elements by enumeration: who holds a sum, who reads it, and how often a result is written."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from tests.legality.parts import BIDS, BOX, TIDS, Illegal, Parts, Shapeless, constant
from tests.legality.walk import NotJudged, Walk, World
from wsched.fusion import IterDomain, IterType, MemoryType, ParallelType, TensorView

__all__ = ["check_computed", "check_sums"]

_ROLES = (*BIDS, *TIDS)
Place = tuple[int, ...]
Key = tuple[Place, tuple[int, ...]]


@dataclass(frozen=True)
class Rects:
    """Boxes of the iterations of one tensor.

    Args:
        places: CTA and role of each, -1 along axes without a loop.
        loops: indices of the serial and parallel loops, in order, 0 where parallel.
        low, high: corners along the dimensions that are stored, clipped to the tensor.
        exists: which there are.
    """

    places: Any
    loops: Any
    low: Any
    high: Any
    exists: Any

    def rows(self) -> Iterator[tuple[Place, tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
        """Place, loops and corners of each that exists and is not empty."""
        kept = self.exists & np.all(self.low < self.high, axis=1)
        columns = (self.places, self.loops, self.low, self.high)
        yield from zip(*(map(tuple, c[kept].tolist()) for c in columns), strict=True)


def rects(t: TensorView, world: World, within: frozenset[int], summed: bool = False) -> Rects:
    """The boxes of a tensor, ``within`` a stage; one for each part of a sum if ``summed``."""
    walk = Walk(t, world)
    inner = tuple(d for d in t.loop if d.parallel in BOX)
    constant(inner, f"a fragment of {t.name}")
    sizes = walk.box(inner)
    if sizes is None:
        raise Shapeless(f"a fragment of {t.name} is no box")
    free = [
        d for d in t.loop if d not in inner and (summed or d.iter_type is not IterType.Reduction)
    ]
    mesh = walk.mesh(free)
    points = len(next(iter(mesh.values())))
    taken = [d for d in t.loop if d in inner or (d.id in within and d.parallel not in BIDS)]
    exists = walk.exists(mesh, taken, summed)
    if not np.all(walk.spans(mesh, inner, sizes) | ~exists):
        raise Shapeless(f"a fragment of {t.name} is not everywhere a box")
    at = walk.coordinates(mesh)
    kept = [p for p, d in enumerate(t.logical) if summed or d.iter_type is not IterType.Reduction]
    ends = [walk.extents[t.logical[p].id] for p in kept]
    low = [at[p] for p in kept]
    high = [np.minimum(at[p] + sizes[p], end) for p, end in zip(kept, ends, strict=True)]
    for n, p in enumerate(kept):
        if t.logical[p].iter_type is IterType.Broadcast:
            low[n], high[n] = np.zeros_like(low[n]), np.full_like(high[n], ends[n])
    loops = [mesh[d.id] * (d.parallel not in _ROLES) for d in t.loop]
    return Rects(
        _columns([_place(t, axis, mesh, points) for axis in _ROLES], points),
        _columns(loops, points),
        _columns(low, points),
        _columns(high, points),
        exists,
    )


def _columns(found: list[Any], points: int) -> Any:
    return np.stack(found, axis=1) if found else np.zeros((points, 0), np.int64)


def _place(t: TensorView, axis: ParallelType, mesh: dict[int, Any], points: int) -> Any:
    d = t.axis_on(axis)
    if d is None or d.iter_type is IterType.Reduction:
        return np.full(points, -1)
    return mesh[d.id]


def check_sums(parts: Parts, world: World, within: frozenset[int]) -> None:
    """Every sum that a role holds goes over all of K, each element once.

    Raises:
        Illegal: otherwise.
    """
    for t in parts.sums:
        _check_sum(t, world, within)


def _check_sum(t: TensorView, world: World, within: frozenset[int]) -> None:
    columns = [p for p, d in enumerate(t.loop) if _summed(d)]
    k = next(p for p, d in enumerate(t.logical) if _summed(d))
    sums: dict[Any, list[tuple[int, int]]] = {}
    # K tails are clipped: what is behind the last column is zero.
    for place, loops, low, high in rects(t, world, within, summed=True).rows():
        fragment = low[:k] + low[k + 1 :], high[:k] + high[k + 1 :]
        instance = tuple(i for p, i in enumerate(loops) if p not in columns)
        sums.setdefault((place, instance, fragment), []).append((low[k], high[k]))
    for place, loops, low, high in rects(t, world, within).rows():
        instance = tuple(i for p, i in enumerate(loops) if p not in columns)
        slices = sorted(sums.get((place, instance, (low, high)), []))
        ends = [0, *(end for _, end in slices)]
        if [start for start, _ in slices] != ends[:-1] or ends[-1] != world.k:
            raise Illegal(f"{t.name} at {place} sums {slices} of {world.k} along K")


def _summed(d: IterDomain) -> bool:
    return d.iter_type is IterType.Reduction


def check_computed(
    parts: Parts,
    section: tuple[TensorView, ...],
    world: World,
    sizes: Place,
    within: frozenset[int],
) -> None:
    """What is read is held by who reads it, and each result is written once.

    Args:
        parts: the fusion.
        section: what one part computes.
        world: sizes.
        sizes: CTAs along x, y, z and roles of the part along y, z.
        within: loops inside a stage.

    Raises:
        Illegal: otherwise.
    """
    found = {t.name: rects(t, world, within) for t in section}
    cells = _Cells(found.values(), world)
    places = [
        1 if axis is BIDS[2] and parts.splits_k else n
        for axis, n in zip(_ROLES, sizes, strict=True)
    ]
    for t in section:
        if t.memory is not MemoryType.Global and t not in parts.stored:
            inner = (d for d in t.loop[t.compute_at :] if d.parallel not in (*_ROLES, *BOX))
            constant(tuple(d for d in inner if not _summed(d)), f"what {t.name} holds at a time")
        for u in parts.fusion.producers(t.name):
            if u.name in found and u not in parts.stored:
                _reads(u, t, found, cells, places, world)
        if t.memory is MemoryType.Global:
            _written_once(t, found[t.name], cells, places)


class _Cells:
    """The tensors of a part, of as many dimensions, cut wherever a box begins or ends."""

    def __init__(self, found: Collection[Rects], world: World) -> None:
        dims = {r.low.shape[1] for r in found}
        if len(dims) > 1:
            raise NotJudged(f"tensors of {sorted(dims)} dimensions in one part")
        whole = tuple(world.extents.values())[: dims.pop()]
        self.cuts = []
        for p, end in enumerate(whole):
            ends = [np.concatenate((r.low[:, p], r.high[:, p])) for r in found]
            cuts = np.unique(np.concatenate([*ends, [0, end]]))
            self.cuts.append(cuts[(cuts >= 0) & (cuts <= end)])

    def empty(self) -> Any:
        """A count for each cell."""
        return np.zeros([max(len(c) - 1, 0) for c in self.cuts], np.int32)

    def of(self, low: Place, high: Place) -> tuple[slice, ...]:
        """The cells of a box."""
        return tuple(
            slice(*np.searchsorted(cut, (a, b)).tolist())
            for cut, a, b in zip(self.cuts, low, high, strict=True)
        )


def _spread(place: Place, places: list[int]) -> Iterator[Place]:
    """All places of what has no loop along some axes."""
    yield from product(*(range(n) if i < 0 else (i,) for i, n in zip(place, places, strict=True)))


def _reads(
    u: TensorView,
    t: TensorView,
    found: dict[str, Rects],
    cells: _Cells,
    places: list[int],
    world: World,
) -> None:
    """What ``t`` reads of ``u`` is what the same role has put there in the shared loops."""
    shared = u.compute_at
    for a, b in zip(u.loop[:shared], t.loop[:shared], strict=True):
        same = Walk(u, world).extent(a) == Walk(t, world).extent(b)
        if a.parallel is not b.parallel or not same:
            raise Illegal(f"{u.name} is computed in loop {a.label} of {t.name}, which is {b.label}")
    held: dict[Key, Any] = {}
    for place, loops, low, high in found[u.name].rows():
        for at in _spread(place, places):
            grid = held.setdefault((at, loops[:shared]), cells.empty())
            grid[cells.of(low, high)] = 1
    for place, loops, low, high in found[t.name].rows():
        for at in _spread(place, places):
            grid = held.get((at, loops[:shared]))
            if grid is None or not np.all(grid[cells.of(low, high)]):
                raise Illegal(f"{t.name} at {at} reads what {u.name} does not hold there")


def _written_once(t: TensorView, r: Rects, cells: _Cells, places: list[int]) -> None:
    count = cells.empty()
    for place, _, low, high in r.rows():
        times = sum(1 for _ in _spread(place, places))
        count[cells.of(low, high)] += times
    if np.any(count != 1):
        raise Illegal(
            f"elements of {t.name} are written {sorted(set(count.reshape(-1).tolist()))} times"
        )
