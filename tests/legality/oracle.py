"""Whether a schedule is legal, decided by enumeration in small worlds.

The meaning of a schedule that is enumerated: a tensor's nest runs all its loops. An iteration
*exists* if each index that was split with a tail is in range, loops inside a stage or a box taken
at 0: the box touches the tensor. Tails of one dimension alone may also be run through, on all
sides: what is loaded there is zero and nothing is stored. A loop on BIDx, BIDy or BIDz is one CTA
each, one on TIDy or TIDz one warpgroup each (a role), the others run in order. Legal is what, in
every world,

- fills, in each CTA, the stages that each role of a reader takes, in its order: all roles all of
  them, or run by run in turns (a run is a main loop: order barriers demand it). Loads fill them in
  one serial loop, all roles of a part together what it stores for others;
- takes each stage at the same iteration in all tensors of a part that read it, since it is released
  once;
- comes to an end, whatever parts wait for each other (``waiting``);
- sums all of K for each element, each part of K once, in an accumulator of constant size;
- reads, in the epilogue, what the same role holds at the same iteration of shared loops;
- writes each element of each result once;
- runs on a grid that has the extents of the loops on CTAs.

Results that have nothing to do with each other but what they load are judged apart: warpgroups of
their own make each, as many as it likes, and release what they take for themselves.

Tiles that are dealt out at run time are enumerated in turn and in a random assignment. Where load
steps are dealt out to CTAs (stream-K), each runs a share of the nest that is computed: the shares,
one behind the other, must be all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product

from lowering.ground.expr import Const
from tests.legality.hardware import check_hardware
from tests.legality.parts import BIDS, TIDS, Illegal, Parts, Shapeless, extents_on
from tests.legality.regions import check_computed, check_sums
from tests.legality.rings import (
    Cta,
    Needs,
    Places,
    Steps,
    all_places,
    check_ring,
    check_together,
)
from tests.legality.waiting import Runs, check_waiting
from tests.legality.walk import NotJudged, NoWorld, Walk, World, roots
from wsched.fusion import Fusion, IterDomain, IterType, ParallelType, Split, TensorView

__all__ = [
    "Course", "NotJudged", "Stepping", "Verdict", "course", "find_stepping", "judge", "tile_of",
    "why_illegal", "worlds",
]  # fmt: skip

_TILES = (
    (1, 1, 1), (3, 1, 2), (2, 3, 3), (3, 3, 1), (1, 4, 5), (3, 5, 0), (5, 2, 4), (4, 2, 7),
)  # fmt: skip
"""Tiles along M and N, slices of K."""

_UNEVEN = {(5, 1, 2): 2, (1, 5, 1): 2, (9, 1, 1): 4, (1, 9, 2): 4, (7, 1, 1): 2, (1, 7, 1): 2}
"""The same with a number of CTAs: some have three tiles, or pairs of tiles where CTAs are in pairs,
and others two. Where a share is cut into halves, these two are the first half, and the second has
none. Of four tiles in thirds the last third has none.
"""

_GRIDS = (1, 2, 3, 4, 5, 6, 8)
_MANY = 64
_MATRICES = (1, 5, 2, 2, 3, 1, 1, 2)
"""Of a batch, with the tiles in turn."""


@dataclass(frozen=True)
class Verdict:
    """What the oracle says.

    Args:
        why: why it is illegal, with the world that shows it; None if it is legal.
        shape: whether only a shape is to blame: what no kernel has, whatever its indices.
    """

    why: str | None = None
    shape: bool = False


def why_illegal(fusion: Fusion) -> str | None:
    """Why a complete schedule is illegal, with the world that shows it; None if it is legal.

    Raises:
        NotJudged: the schedule is outside what is enumerated.
    """
    return judge(fusion).why


def judge(fusion: Fusion) -> Verdict:
    """Whether a complete schedule is legal.

    Raises:
        NotJudged: the schedule is outside what is enumerated.
    """
    if any(t.root for t in fusion.tensors):
        raise NotJudged("dimensions that are made of what is summed over")
    parts = Parts(fusion)
    if parts.deals_steps and len(parts.sections) > 1:
        raise NotJudged("parts that each have a share of the load steps")
    try:
        check_hardware(parts)
        small = list(worlds(parts))
    except Illegal as why:
        return Verdict(str(why), isinstance(why, Shapeless))
    found = []
    for through, overhang in _ways(parts):
        ways = [replace(world, through=through, overhang=overhang) for world in small]
        found.append(_verdict(parts, ways))
        if found[-1].why is None:
            return found[-1]
    return found[0]


_Dims = frozenset[int]


def _ways(parts: Parts) -> tuple[tuple[_Dims, _Dims], ...]:
    """Dimensions whose tails are run through, of those that have any: none, M and N, or all, or one
    of M and N where one side rounds up the other for itself; and that of a batch with each of them,
    which is no box, so that its first split may have a tail of matrices. Then the same with those
    of which the tails of tiles alone are, where one side rounds up tiles.
    """
    splits = [
        (s, dim)
        for t in (*parts.loads, *parts.computed)
        for s in t.transforms
        if isinstance(s, Split) and len(roots(t, s.input)) == 1
        for dim in roots(t, s.input)
        if s.input not in t.logical or dim < parts.outer
    ]
    tails = frozenset(dim for _, dim in splits)
    m, n, k = range(parts.outer, parts.outer + 3)
    rounded = frozenset(dim for s, dim in splits if dim != k and not _divides(s))
    ways = ((), (m, n), (m, n, k), (m,), (n,))
    outer = frozenset(range(parts.outer))
    found = [(frozenset(way) | batch) & tails for way in ways for batch in (frozenset(), outer)]
    cut = [
        (way - part, part)
        for way in found
        for part in (frozenset((m,)), frozenset((n,)), frozenset((m, n)))
        if part <= way & rounded
    ]
    return tuple(dict.fromkeys([*((way, frozenset[int]()) for way in found), *cut]))


def _divides(s: Split) -> bool:
    """Whether a split visibly leaves no tail."""
    match s.input.extent, s.factor:
        case Const(whole), Const(factor):
            return whole % factor == 0
    return False


Stepping = dict[tuple[int, str], set[int]]
"""Of a ring and a tensor that reads it, the loops that change the stage."""


def find_stepping(parts: Parts, world: World, stepping: Stepping) -> None:
    """Note the loops that change the stage in a world."""
    for n, ring in enumerate(parts.rings):
        for reader, fills in ring.readers:
            found = Needs(reader, Steps(fills, world), world).stepping()
            stepping.setdefault((n, reader.name), set()).update(found)


def _verdict(parts: Parts, small: list[World]) -> Verdict:
    stepping: Stepping = {}
    world: World | None = None
    try:
        for world in small:
            find_stepping(parts, world, stepping)
        for world in small:
            _check(parts, world, stepping)
    except Illegal as why:
        return Verdict(f"{why} ({world})", isinstance(why, Shapeless))
    except NoWorld as why:
        return Verdict(f"{why} ({world})")
    return Verdict()


@dataclass(frozen=True)
class Course:
    """Who takes and fills what, where and when, in one world.

    Args:
        places: of each part that computes.
        runs: of each such part and CTA that its loops count.
        rings: the steps of each ring.
    """

    places: list[Places]
    runs: dict[tuple[int, Cta], Runs]
    rings: list[Steps]


def course(parts: Parts, world: World, stepping: Stepping) -> Course:
    """What a schedule comes to in a world, each ring checked.

    Raises:
        Illegal: somebody takes other steps than are filled.
    """
    grid = extents_on(parts, world, BIDS[:1], _with_ctas(parts))
    grid += extents_on(parts, world, BIDS[1:], (*parts.loads, *parts.computed))
    ctas = _counted(parts, world, grid)
    places = [Places(ctas, extents_on(parts, world, TIDS, ts), grid) for ts in parts.sections]
    runs = {(n, cta): Runs(parts, n, cta) for n in range(len(places)) for cta in all_places(ctas)}
    found = [_ring(parts, n, world, stepping, places, runs) for n in range(len(parts.rings))]
    return Course(places, runs, found)


def _check(parts: Parts, world: World, stepping: Stepping) -> None:
    gone = course(parts, world, stepping)
    places, runs, found = gone.places, gone.runs, gone.rings
    within = frozenset(
        d.id
        for t in parts.sums
        for d in t.loop
        if not any(d.id in on for (_, name), on in stepping.items() if name == t.name)
    )
    check_sums(parts, world, within)
    for section, at in zip(parts.sections, places, strict=True):
        check_computed(parts, section, world, (*at.ctas, *at.roles), within)
    if len(parts.rings) > 1:
        for cta in all_places(places[0].ctas):
            steps = {n: len(ring.sequence(cta)) for n, ring in enumerate(found)}
            check_waiting(parts, [runs[n, cta] for n in range(len(places))], steps)


def _with_ctas(parts: Parts) -> tuple[TensorView, ...]:
    """Whose loops on CTAs along x count those of the grid."""
    return parts.loads if parts.deals_steps else (*parts.loads, *parts.computed)


def _counted(parts: Parts, world: World, grid: Cta) -> Cta:
    """The CTAs that loops of what is computed count.

    Where load steps are dealt out these are the places in a share: all CTAs of a place run the same
    nest, one the share behind that of the other. A sum may be cut there, as it is added up by who
    has its first step; rings of whole tiles may not.

    Raises:
        Illegal: they are no part of the grid.
    """
    if not parts.deals_steps:
        return grid
    ctas = extents_on(parts, world, BIDS, parts.computed)
    if grid[1:] != ctas[1:] or grid[0] % ctas[0]:
        raise Illegal(f"shares on CTAs {grid} of what is computed on {ctas}")
    for ring in parts.rings:
        for t, _ in ring.readers:
            if t not in parts.sums:
                raise Illegal(f"{t.name} is loaded by CTAs that may not complete the tile")
    return ctas


def _ring(
    parts: Parts,
    n: int,
    world: World,
    stepping: Stepping,
    places: list[Places],
    runs: dict[tuple[int, Cta], Runs],
) -> Steps:
    """Check one ring, and note who takes and fills its steps where; the steps."""
    ring = parts.rings[n]
    whole = Steps(ring.fills, world)
    by_section: dict[int, list[Needs]] = {}
    for reader, fills in ring.readers:
        steps, on = Steps(fills, world), stepping[n, reader.name]
        needs = Needs(reader, steps, world)
        section = parts.section(reader.name)
        by_section.setdefault(section, []).append(needs)
        taken = check_ring(needs, steps, on, parts.run_of(reader), places[section])
        for (cta, role), numbers in taken.items():
            runs[section, cta].reads(n, role, numbers, needs, on)
    for section, readers in by_section.items():
        on_each = {needs.t.name: stepping[n, needs.t.name] for needs in readers}
        check_together(readers, on_each, places[section])
    if ring.filler is not None:
        at = places[ring.filler]
        for cta, role, filled in product(all_places(at.ctas), all_places(at.roles), whole.fills):
            runs[ring.filler, cta].fills(n, role, filled)
    return whole


def worlds(parts: Parts) -> Iterator[World]:
    """Few and many tiles on fewer and more CTAs, with grids that the loops on CTAs allow.

    Raises:
        Illegal: there is none.
    """
    if not _follows_grid(parts):
        for w in _sizes(parts, (*_TILES, *_UNEVEN)):
            yield replace(w, grid=_extents(parts, replace(w, grid=_MANY))[0])
        return
    sizes = _sizes(parts, _TILES)
    fits = [g for g in _GRIDS if all(_fits(parts, replace(w, grid=g)) for w in sizes)]
    if not fits:
        raise Illegal("no grid has the extents of the loops on CTAs")
    # At most two of them for each size.
    for n, w in enumerate(sizes):
        yield from (replace(w, grid=g) for g in {fits[n % len(fits)], fits[-n % len(fits)]})
    for tiles, grid in _UNEVEN.items():
        few = (replace(w, grid=grid) for w in _sizes(parts, (tiles,)))
        yield from (w for w in few if _fits(parts, w))


def _sizes(parts: Parts, tiles: Iterable[tuple[int, int, int]]) -> list[World]:
    """Worlds of so many tiles and slices, on one CTA."""
    tile = _tile(parts)
    dealt = any(
        isinstance(s, Split) and s.dynamic for t in parts.fusion.tensors for s in t.transforms
    )
    sizes = []
    for n, counts in enumerate(tiles):
        # Tails along all dimensions in every other world.
        cut = [(n % 2) * (size // 2 + 3) for size in tile]
        m, columns, k = (
            max(count * size - less, 1) if count else 0
            for count, size, less in zip(counts, tile, cut, strict=True)
        )
        batch = _MATRICES[n % len(_MATRICES)] if parts.outer else None
        deals = (0, n + 1) if dealt else (0,)
        sizes += [World(m, columns, k, 1, deal, batch=batch) for deal in deals]
    return sizes


def _on_ctas(parts: Parts) -> list[tuple[TensorView, IterDomain]]:
    """The loops on BIDx."""
    return [(t, d) for t in _with_ctas(parts) if (d := t.axis_on(ParallelType.BIDx)) is not None]


def _follows_grid(parts: Parts) -> bool:
    """Whether there are as many CTAs as are launched, not as many as the problem has of something.

    ``%nctaid.x`` is a number like any other then: an extent that it happens to equal in some
    problems is not the grid's.
    """
    return any("%nctaid.x" in str(d.extent) for _, d in _on_ctas(parts))


def _extents(parts: Parts, world: World) -> list[int]:
    """Different extents of the loops on BIDx, or that of one CTA."""
    return sorted({Walk(t, world).extent(d) for t, d in _on_ctas(parts)} or {1})


def _fits(parts: Parts, world: World) -> bool:
    try:
        return world.grid in _extents(parts, world)
    except NoWorld:
        return False


def tile_of(fusion: Fusion) -> tuple[int, int, int]:
    """Rows, columns and depth of what one load step brings."""
    return _tile(Parts(fusion))


def _tile(parts: Parts) -> tuple[int, int, int]:
    """Sizes of the boxes of the operands."""
    sizes = [1, 1, 1]
    operands = {name for mma in parts.fusion.mmas for name in (mma.a, mma.b)}
    for t in (*parts.loads, *parts.stored):
        if t.name in operands:
            walk = Walk(t, World(1, 1, 1, _MANY, batch=1))
            box = walk.box(t.loop[t.slice_position :]) or (1,) * len(t.logical)
            sizes = [
                max(s, b) if d.iter_type is not IterType.Broadcast else s
                for s, b, d in zip(sizes, box[-3:], t.logical[-3:], strict=True)
            ]
    return sizes[0], sizes[1], sizes[2]
