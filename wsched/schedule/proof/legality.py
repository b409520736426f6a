"""The proposal's restriction, decided: when may the compute side have a loop nest of its own?

A schedule is legal if the load index is a function of the compute side's serial and role-parallel
indices, provable from the transform graph, strictly increasing for a fixed role, and over all
roles covering each load step exactly once.

The load loop is taken apart into digits, each a loop of compute: a serial one or a role (see
``digits``). That counts every step once; it increases if the serial digits fall from the outermost
loop to the innermost. Compute loops that are no digit must lie inside one stage, or run on CTAs as
on the load side (``bystanders``). Where shares are rounded up, both sides end with what exists
(``bounds``, ``trim``). Warpgroups take turns tile by tile (``roles``).

There is one load loop for the operands, which the mma consumes, and one for each matrix that the
epilogue reads, consumed by its copy in registers. Each has a relation of its own; all that are
consumed by one part run the same tiles. What reads one ring in the same part takes each of its
steps at the same time (``readers``); another part has a relation of its own to the same loads.

With stream-K the load loop is a CTA's interval of the loop that compute's digits count; see
``share`` and ``check_interval``. With split-K a part of K runs on BIDz, on both sides alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import ONE, ZERO, Const, Expr, Var
from lowering.ground.poly import Poly, poly
from lowering.target.target import Target
from lowering.target.targets import DEFAULT
from wsched.fusion import Fusion, IterType, ParallelType
from wsched.schedule.graph import Group, TransformGraph
from wsched.schedule.proof.bounds import load_stops
from wsched.schedule.proof.bystanders import check_bystanders
from wsched.schedule.proof.check_interval import check_shares
from wsched.schedule.proof.digits import Digits, compute_digits, load_digits
from wsched.schedule.proof.orders import Misordered, legal_orders
from wsched.schedule.proof.readers import check_readers, ends
from wsched.schedule.proof.relation import LoadLoop, LoadRelation, StepLoop
from wsched.schedule.proof.roles import check_turns, find_warpgroups
from wsched.schedule.proof.share import Counted, Proved, Share, find_share
from wsched.schedule.proof.sides import CTA_INDEX, ROLES, Readers, Sides, find_sides
from wsched.schedule.proof.trim import Trimmed, trim
from wsched.schedule.words import labels, words

__all__ = ["load_relations"]

_Tiles = tuple[Sides, LoadRelation]
"""The edge whose tiles all others of a part run."""

_SAME_FACTORS = ("split both sides by the same factors",)
_LEAVE_CTAS_OUT = ("parallelize the loop over CTAs on both sides, leave it out of the merge",)


def load_relations(
    fusion: Fusion, graph: TransformGraph | None = None, target: Target = DEFAULT
) -> tuple[LoadRelation, ...]:
    """The relations between load and compute side of a complete schedule, the operands' first.

    Raises:
        ScheduleError: the schedule is illegal; ``rule`` is one of ``ring``,
            ``load-loop``, ``load-index``, ``load-cover``, ``load-order``, ``load-bound``,
            ``role``, ``registers``, ``readers``.
    """
    graph = graph or TransformGraph(fusion)
    rings = find_sides(fusion, graph, target)
    found: dict[int, LoadRelation] = {}
    for part in dict.fromkeys(r.part for r in rings):
        at = [n for n, r in enumerate(rings) if r.part == part]
        found |= zip(at, _into([rings[n] for n in at]), strict=True)
    check_shares([(rings[n].sides[0], relation) for n, relation in found.items()])
    return tuple(found[n] for n in range(len(rings)))


def _into(rings: Sequence[Readers]) -> list[LoadRelation]:
    """The relations of the rings that a part reads, all of which run the same tiles.

    Where nothing is summed nothing says what a tile is. A role is a turn with it if it deals out
    the steps of every ring; if not, it deals out those of some rings within a tile.
    """
    try:
        return _with_tiles(rings)
    except ScheduleError:
        least, most = _tiles(_relation(rings[0].sides[0]).digits)
        if least < most:
            with suppress(ScheduleError):
                return _with_tiles(rings, least)
        raise


def _with_tiles(rings: Sequence[Readers], outside: int | None = None) -> list[LoadRelation]:
    """The same where so many digits of the load index of the first ring choose the tile; by default
    as many as may.
    """
    found: list[LoadRelation] = []
    tiles: _Tiles | None = None
    for readers in rings:
        each = [_relation(s, outside, tiles) for s in readers.sides]
        check_readers(readers.sides, each)
        found.append(replace(each[0], readers=tuple(r.compute for r in each)))
        tiles = tiles or (readers.sides[0], each[0])
        outside = tiles[1].outside
    return found


def _relation(
    sides: Sides, outside: int | None = None, tiles: _Tiles | None = None
) -> LoadRelation:
    """The proof for one edge.

    Args:
        sides: of the edge.
        outside: how many digits choose the tile; by default as many as may.
        tiles: the edge whose tiles it has to run, if any.
    """
    share = find_share(sides)
    try:
        return _proved(sides, share, share.whole, outside, tiles)
    except Misordered as e:
        loop, *others = map(sides.graph.group, sides.load_loops)
        orders: tuple[str, ...] = ()
        if share.whole == (loop,) and not others:
            orders = legal_orders(
                sides.graph, loop, lambda loops: _proved(sides, share, loops, outside, tiles)
            )
        raise sides.refuse(e.rule, e.why, orders) from None


def _proved(
    sides: Sides,
    share: Share,
    loops: Sequence[Group],
    outside: int | None,
    tiles: _Tiles | None,
) -> LoadRelation:
    """The proof with these load loops, outermost first."""
    graph, compute = sides.graph, sides.compute
    counted, cut = load_digits(graph, loops, graph.known(compute))
    stepping = tuple(g for g in counted if g.extent != ONE) or counted[-1:]
    above = share.above(stepping)
    nest = _nest(stepping, load_stops(graph, stepping, above))
    digits = compute_digits(graph, _weighed(counted, nest), compute)
    found = _step_loops(sides, digits)
    check_bystanders(sides, [t.loop for t in found], share.as_loads)
    _check_order(sides, [t.loop for t in found])
    below = share.below(Counted([t.loop for t in found], cut, digits.tails), above)
    found, entry = trim(graph, found, (*above, *below), digits.lost, sides.refuse)
    steps = tuple(t.loop for t in found)
    if outside is None:
        _, outside = _tiles(steps)
    if tiles is not None:
        _check_tiles(sides, steps, *tiles)
    warpgroups = find_warpgroups(sides, steps, outside)
    check_turns(sides, found, (*above, *below), outside)
    return LoadRelation(
        loads=tuple(t.name for t in sides.ring),
        compute=compute.name,
        readers=(compute.name,),
        label=sides.load_loop,
        index=_index(steps),
        nest=nest,
        digits=steps,
        outside=outside,
        steps=tuple(sorted(steps, key=lambda s: compute.loop.index(s.domain))),
        buffer=sides.buffer,
        warpgroups=warpgroups,
        work=share.work(Proved(nest, found, above, below, entry, outside, warpgroups)),
        entry=entry,
    )


def _nest(counted: Sequence[Group], stops: Sequence[Expr]) -> tuple[LoadLoop, ...]:
    """The load loop as loops of its own."""
    found: list[LoadLoop] = []
    weight = poly(ONE)
    for group, stop in zip(reversed(counted), reversed(stops), strict=True):
        found.insert(0, LoadLoop(group, weight.expr(), stop))
        weight = weight * poly(stop)
    return tuple(found)


def _weighed(counted: Sequence[Group], nest: Sequence[LoadLoop]) -> list[tuple[Group, Poly]]:
    """Groups with the load steps between two of their indices, also those of one iteration, which
    are no loops of the nest: compute may merge them with others.
    """
    stops = {n.group: n.stop for n in nest}
    found: list[tuple[Group, Poly]] = []
    weight = poly(ONE)
    for group in reversed(counted):
        found.insert(0, (group, weight))
        weight = weight * poly(stops.get(group, ONE))
    return found


def _index(digits: Sequence[StepLoop]) -> Expr:
    total: Expr = ZERO
    for s in digits:
        total = total + s.coefficient * s.var
    return poly(total).expr()


def _step_loops(sides: Sides, digits: Digits) -> tuple[Trimmed, ...]:
    """The digits as loops of compute, not bounded yet; each is serial or a role. A loop of one
    iteration steps nowhere, wherever it stands: it is none of them.
    """
    compute, loop = sides.compute, sides.load_loop
    loops = {sides.graph.group(d): d for d in compute.loop}
    found = []
    for digit in digits.digits:
        if digit.group.extent == ONE:
            continue
        d = loops.get(digit.group)
        if d is None:
            missing = [(digit.group, digit.group.label)]
            (name,), names = words(sides.graph, missing, labels(sides.graph, compute.loop))
            raise sides.refuse(
                "load-index",
                f"the load loop {loop} counts {name}, which is no loop of {compute.name} and "
                f"made of none: those are {', '.join(names)}",
                _SAME_FACTORS,
            )
        if d.parallel is not ParallelType.Serial and d.parallel not in ROLES:
            raise sides.refuse(
                "load-index",
                f"loop {d.label} of {compute.name} steps the load index and runs on {d.parallel}; "
                "only serial loops and warpgroups on TIDy or TIDz can follow it",
                _LEAVE_CTAS_OUT if d.parallel in CTA_INDEX else (),
            )
        step = StepLoop(d, Var(d.name), digit.weight.expr(), d.parallel in ROLES, d.extent)
        found.append(Trimmed(digit, step))
    return tuple(found)


def _check_order(sides: Sides, digits: Sequence[StepLoop]) -> None:
    """Compute's serial loops nest as the load index counts them."""
    compute = sides.compute
    order = [compute.loop.index(s.domain) for s in digits if not s.role]
    if order != sorted(order):
        fast = ", ".join(s.domain.label for s in reversed(digits) if not s.role)
        raise Misordered(
            "load-order",
            f"the load index counts {fast} from fastest to slowest, {compute.name} nests them "
            "otherwise: it would want a stage before it is loaded",
        )


def _tiles(digits: Sequence[StepLoop]) -> tuple[int, int]:
    """How many digits choose the tile, at least and at most: those that are slower than the sum; of
    what sums nothing all up to the last whose number is not known when the kernel is made, and
    those up to the last role.
    """
    sums = [p for p, s in enumerate(digits) if s.domain.iter_type is IterType.Reduction]
    if sums:
        return sums[0], sums[0]
    unknown = [p for p, s in enumerate(digits, 1) if not s.role and not isinstance(s.stop, Const)]
    roles = [p for p, s in enumerate(digits, 1) if s.role]
    least = max(unknown, default=0)
    return least, max([least, *roles])


def _check_tiles(
    sides: Sides, digits: Sequence[StepLoop], main: Sides, tiles: LoadRelation
) -> None:
    """An edge into the epilogue runs the tiles that the operands run, and ends with the last."""
    graph, count = sides.graph, tiles.outside
    if ends(graph, digits[:count]) != ends(graph, tiles.digits[:count]):
        raise sides.refuse(
            "load-bound",
            f"the load steps of {sides.loads[0].name} and of {', '.join(tiles.loads)} do not end "
            "with the same tile",
            (f"tile {sides.compute.name} as {main.compute.name}",),
        )
