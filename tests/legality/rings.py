"""A ring by enumeration: the boxes that are loaded, and those that each role needs, in order."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby, product
from typing import Any

import numpy as np

from tests.legality.parts import BIDS, BOX, TIDS, Illegal, Shapeless, constant, serial
from tests.legality.walk import Walk, World
from wsched.fusion import IterDomain, IterType, ParallelType, TensorView, WarpSpecialized

__all__ = [
    "Cta",
    "Filled",
    "Needs",
    "Places",
    "Steps",
    "all_places",
    "check_ring",
    "check_together",
]

Cta = tuple[int, ...]


class Steps:
    """The steps of what fills one ring together, as numbers of boxes."""

    def __init__(self, fills: tuple[TensorView, ...], world: World) -> None:
        self.fills = tuple(Filled(t, world) for t in fills)

    def sequence(self, cta: Cta) -> list[tuple[int, ...]]:
        """The boxes of each step of a CTA: each tensor's next existing one."""
        each = [x.sequence(cta) for x in self.fills]
        if any(len(s) != len(each[0]) for s in each):
            lengths = ", ".join(
                f"{x.t.name} {len(s)}" for x, s in zip(self.fills, each, strict=True)
            )
            raise Illegal(f"the tensors of one stage have different steps: {lengths} at CTA {cta}")
        return [sum(boxes, ()) for boxes in zip(*each, strict=True)]


class Filled:
    """What fills stages of a ring: one load, or what the warps of a part store."""

    def __init__(self, t: TensorView, world: World) -> None:
        self.t, self.walk = t, Walk(t, world)
        left, self.inside = t.loop[: t.slice_position], t.loop[t.slice_position :]
        constant(self.inside, f"a stage of {t.name}")
        for d in left:
            if d.parallel not in (*BIDS, ParallelType.Serial) and self.walk.extent(d) != 1:
                raise Illegal(f"loop {d.label} [{d.parallel}] of {t.name} is run by nobody")
        sizes = self.walk.box(self.inside)
        if sizes is None:
            raise Shapeless(f"a stage of {t.name} is no box")
        self.dims = [p for p, d in enumerate(t.logical) if d.iter_type is not IterType.Broadcast]
        self.sizes = [sizes[p] for p in self.dims]
        self.left = left
        self.mesh = self.walk.mesh(left)
        corner = self.walk.coordinates(self.mesh)
        self.lows = [np.unique(corner[p]) for p in self.dims]
        for low, size in zip(self.lows, self.sizes, strict=True):
            if np.any(np.diff(low) < size):
                raise Shapeless(f"the boxes of {t.name} overlap")
        self.same = [p for p, d in enumerate(t.logical) if d.iter_type is IterType.Broadcast]
        self.agains = [np.unique(corner[p]) for p in self.same]
        self.number = [
            np.searchsorted(low, corner[p]) for p, low in zip(self.dims, self.lows, strict=True)
        ]
        self.exists = self.walk.exists(self.mesh, self.inside)
        if not np.all(self.walk.spans(self.mesh, self.inside, sizes) | ~self.exists):
            raise Shapeless(f"a stage of {t.name} is not everywhere a box")

    def sequence(self, cta: Cta) -> list[tuple[int, ...]]:
        """The box of each existing step."""
        chosen = self.chosen(cta)
        return list(zip(*(n[chosen].tolist() for n in self.number), strict=True))

    def chosen(self, cta: Cta) -> Any:
        """Which iterations of the loops left of the stage are steps of a CTA."""
        return self.exists & _at(self.left, self.mesh, BIDS, cta)

    def boxes(self, coordinates: list[Any], sizes: tuple[int, ...]) -> tuple[list[Any], Any]:
        """Number of the box that each need begins in, along each dimension, and whether it ends
        there too.
        """
        numbers, fits = [], np.ones(len(coordinates[0]), bool)
        for p, low, size in zip(self.dims, self.lows, self.sizes, strict=True):
            at = np.searchsorted(low, coordinates[p], "right") - 1
            start = low[np.maximum(at, 0)] if len(low) else np.full_like(at, -(1 << 40))
            fits &= (at >= 0) & (coordinates[p] + sizes[p] <= start + size)
            numbers.append(at)
        return numbers, fits

    def repeats(self, coordinates: list[Any]) -> list[Any]:
        """Which time a box is filled again, along each dimension that it is the same for."""
        return [
            np.searchsorted(low, coordinates[p], "right")
            for p, low in zip(self.same, self.agains, strict=True)
        ]


def _at(
    loops: tuple[IterDomain, ...], mesh: dict[int, Any], axes: tuple[ParallelType, ...], at: Cta
) -> Any:
    """Which iterations run at a place; a loop that there is not runs everywhere."""
    chosen = np.ones(len(next(iter(mesh.values()))), bool)
    for axis, index in zip(axes, at, strict=True):
        for d in loops:
            if d.parallel is axis:
                chosen &= mesh[d.id] == index
    return chosen


class Needs:
    """The stages that the reader of a ring needs, iteration by iteration."""

    def __init__(self, reader: TensorView, steps: Steps, world: World) -> None:
        self.t, self.walk = reader, Walk(reader, world)
        self.fragment = tuple(d for d in reader.loop if d.parallel in BOX)
        constant(self.fragment, f"a fragment of {reader.name}")
        sizes = self.walk.box(self.fragment)
        if sizes is None:
            raise Shapeless(f"a fragment of {reader.name} is no box")
        self.free = tuple(d for d in reader.loop if d not in self.fragment)
        self.mesh = self.walk.mesh(self.free)
        at = self.walk.coordinates(self.mesh)
        self.spans = self.walk.spans(self.mesh, self.fragment, sizes)
        self.boxes, self.fits = [], np.ones(len(at[0]), bool)
        self.repeats: list[Any] = []
        for load in steps.fills:
            numbers, fits = load.boxes(at, sizes)
            self.boxes += numbers
            self.fits &= fits
            self.repeats += load.repeats(at)

    def stepping(self) -> set[int]:
        """Loops that change the stage: another box, or the same one once more."""
        shape = [self.walk.extent(d) for d in self.free]
        found = set()
        for axis, d in enumerate(self.free):
            for n in (*self.boxes, *self.repeats):
                there = n.reshape(shape)
                first = np.take(there, [0], axis) if there.size else there
                if np.any(there != first):
                    found.add(d.id)
        return found

    def sequence(self, cta: Cta, role: Cta, stepping: set[int], prefix: int) -> list[Any]:
        """``(run, boxes)`` in order; runs are iterations of the serial loops left of ``prefix``."""
        here = self.takes(cta, role, stepping)
        outer = [d for d in serial(self.t.loop[:prefix]) if self.walk.extent(d) > 1]
        runs = list(zip(*(self.mesh[d.id][here].tolist() for d in outer), strict=True))
        boxes = list(zip(*(b[here].tolist() for b in self.boxes), strict=True))
        return list(zip(runs or [()] * len(boxes), boxes, strict=True))

    def iterations(self, cta: Cta, role: Cta, stepping: set[int]) -> list[tuple[int, ...]]:
        """Indices of the serial loops that run more than once, at each stage that is taken."""
        here, order = self.takes(cta, role, stepping), serial(self.free)
        last = max((p for p, d in enumerate(order) if d.id in stepping), default=-1)
        loops = [d for d in order[: last + 1] if self.walk.extent(d) > 1]
        taken = [self.mesh[d.id][here].tolist() for d in loops]
        return list(zip(*taken, strict=True)) if taken else [()] * int(here.sum())

    def takes(self, cta: Cta, role: Cta, stepping: set[int]) -> Any:
        """Which iterations are the first of a stage, at a place."""
        order = serial(self.free)
        last = max((p for p, d in enumerate(order) if d.id in stepping), default=-1)
        within = [d for d in self.t.loop if d.id not in stepping and d.parallel not in BIDS]
        exists = self.walk.exists(self.mesh, within)
        here = _at(self.free, self.mesh, BIDS, cta) & _at(self.free, self.mesh, TIDS, role)
        here &= exists
        if not np.all(self.spans | ~here):
            raise Shapeless(f"a fragment of {self.t.name} is not everywhere a box")
        if np.any(here & ~self.fits):
            raise Illegal(f"{self.t.name} needs what lies in no one stage")
        for d in order[last + 1 :]:
            here &= self.mesh[d.id] == 0
        return here


@dataclass(frozen=True)
class Places:
    """CTAs and roles of a world.

    Args:
        ctas: that the loops of what is computed count, along x, y and z.
        roles: along y and z.
        grid: CTAs that there are; more than ``ctas`` where they have shares of the load steps.
    """

    ctas: tuple[int, ...]
    roles: tuple[int, ...]
    grid: tuple[int, ...]

    def behind(self, cta: Cta) -> list[Cta]:
        """The CTAs that run what one of ``ctas`` counts, each the share behind that of the last."""
        x, *others = cta
        return [(share, *others) for share in range(x, self.grid[0], self.ctas[0])]


def check_ring(
    needs: Needs, steps: Steps, stepping: set[int], prefix: int | None, places: Places
) -> dict[tuple[Cta, Cta], list[int]]:
    """Each role takes each step in order, or they take turns, a run each.

    A run is a main loop. Where nothing is summed the schedule does not say what a run is, and they
    may be the iterations of any loops, from the outermost on.

    Args:
        needs: what one tensor reads.
        steps: what is filled.
        stepping: the tensor's loops that change the stage.
        prefix: how many of its loops choose a run; None where nothing is summed.
        places: of the part that reads.

    Returns:
        The steps that are taken at each CTA and role.

    Raises:
        Illegal: otherwise.
    """
    dealing = [d is not None and d.id in stepping for d in (needs.t.axis_on(axis) for axis in TIDS)]
    buffer = steps.fills[0].t.circular_buffer
    assert buffer is not None
    if any(dealing) and not isinstance(buffer.type, WarpSpecialized):
        raise Illegal("roles have steps of their own, and all of them load")
    if prefix is not None or not any(dealing):
        return _taken(needs, steps, stepping, prefix or 0, places, dealing)
    for choosing in range(len(needs.t.loop)):
        with suppress(Illegal):
            return _taken(needs, steps, stepping, choosing, places, dealing)
    return _taken(needs, steps, stepping, len(needs.t.loop), places, dealing)


def _taken(
    needs: Needs,
    steps: Steps,
    stepping: set[int],
    prefix: int,
    places: Places,
    dealing: list[bool],
) -> dict[tuple[Cta, Cta], list[int]]:
    """The same with runs of the loops left of ``prefix``, and axes whose roles have their own."""
    found: dict[tuple[Cta, Cta], list[int]] = {}
    for cta in all_places(places.ctas):
        wanted = [box for share in places.behind(cta) for box in steps.sequence(share)]
        taken = {
            role: needs.sequence(cta, role, stepping, prefix) for role in all_places(places.roles)
        }
        where = f"{needs.t.name} at CTA {cta}"
        if not any(dealing):
            for role, got in taken.items():
                if [box for _, box in got] != wanted:
                    raise Illegal(f"{where}, role {role} takes other steps than are filled")
                found[cta, role] = list(range(len(wanted)))
            continue
        turns: dict[Cta, list[Any]] = {}
        for role, got in taken.items():
            if turns.setdefault(_turn(role, dealing), got) != got:
                raise Illegal(f"{where}: roles of turn {_turn(role, dealing)} take different steps")
        numbers = _take_turns(turns, wanted, where)
        found |= {(cta, role): numbers[_turn(role, dealing)] for role in taken}
    return found


def _turn(role: Cta, dealing: list[bool]) -> Cta:
    return tuple(r for r, deals in zip(role, dealing, strict=True) if deals)


def check_together(readers: list[Needs], stepping: dict[str, set[int]], places: Places) -> None:
    """The readers of a ring take each stage at the same iteration.

    Raises:
        Illegal: otherwise.
    """
    if len(readers) < 2:
        return
    for cta, role in product(all_places(places.ctas), all_places(places.roles)):
        first, *others = (needs.iterations(cta, role, stepping[needs.t.name]) for needs in readers)
        for needs, taken in zip(readers[1:], others, strict=True):
            if taken != first:
                names = f"{readers[0].t.name} and {needs.t.name}"
                raise Illegal(f"{names} take a stage apart at CTA {cta}, role {role}")


def all_places(sizes: tuple[int, ...]) -> list[Cta]:
    """All places of a grid."""
    return list(product(*map(range, sizes)))


def _first_round(
    queues: dict[Cta, list[tuple[Any, list[tuple[int, ...]]]]], wanted: list[tuple[int, ...]]
) -> list[Cta]:
    """In which order roles have their first turns; which warpgroups they are is not said."""
    order, at = list[Cta](), 0
    left = sorted(queues, key=lambda turn: turn[::-1])
    while left:
        runs = {turn: queues[turn][0][1] for turn in left if queues[turn]}
        turn = next((t for t, run in runs.items() if wanted[at : at + len(run)] == run), None)
        if turn is None:
            break
        order.append(turn)
        left.remove(turn)
        at += len(runs[turn])
    return order + left


def _take_turns(
    turns: dict[Cta, list[Any]], wanted: list[tuple[int, ...]], where: str
) -> dict[Cta, list[int]]:
    """The roles partition the steps, run by run, in an order that goes round; the steps of each."""
    queues = {
        turn: [(run, [box for _, box in steps]) for run, steps in groupby(got, key=lambda s: s[0])]
        for turn, got in turns.items()
    }
    order = _first_round(queues, wanted)
    at, n, found = 0, 0, {turn: list[int]() for turn in turns}
    while any(queues.values()):
        turn = order[n % len(order)]
        if not queues[turn]:
            raise Illegal(f"{where}: the roles do not take turns")
        _, run = queues[turn].pop(0)
        if wanted[at : at + len(run)] != run:
            raise Illegal(f"{where}: a role's turn is not the next of those that are filled")
        found[turn] += range(at, at + len(run))
        at, n = at + len(run), n + 1
    if at != len(wanted):
        raise Illegal(f"{where}: {len(wanted) - at} steps are taken by nobody")
    return found
