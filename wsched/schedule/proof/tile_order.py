"""What the warpgroups of a part do to its rings within one tile, and whether they come to its end.

A warpgroup goes through the tile as its part is nested: it *takes* a step of a ring in front of
what reads or fills it, and *gives* it behind that. A step is taken when all who had the step that
many stages before have given it. Where warpgroups deal out the steps of a tile, each has a *turn*
with the ring, from the statement that waits for its first step to the one that waits for its last
one, and the turn begins when those in front have had theirs (note 0006). Several that have a turn
together meet where it begins, in front of turns that they have one by one.

One tile says it all. What is waited for is of the same tile or of an earlier one, with whatever
number of stages, so a circle of waits is in one tile. In what order they are run makes no
difference: what is waited for stays true once it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from lowering.ground.expr import ONE, Const
from wsched.fusion import IterDomain, IterType, ParallelType
from wsched.schedule.graph import Group, TransformGraph
from wsched.schedule.proof.nest import Loop, Node, leaves, loops
from wsched.schedule.proof.sides import CTA_INDEX, ROLES

__all__ = ["TileRing", "stopped"]

_TAKE, _GIVE, _MEET, _ENTER, _LEAVE = range(5)
_Event = tuple[int, str, int]
"""What is done to a ring: its name, and the step; of a turn the first step of it."""


@dataclass(frozen=True, slots=True)
class TileRing:
    """A ring as the warpgroups of a part have it within a tile.

    Args:
        name: of the ring.
        tensors: those of the part that read or fill it.
        loops: those that step through it within a tile, slowest first: loops of a tensor's.
        stages: of the ring.
    """

    name: str
    tensors: frozenset[str]
    loops: tuple[IterDomain, ...]
    stages: int

    @property
    def dealing(self) -> tuple[IterDomain, ...]:
        """The loops that deal out its steps."""
        return tuple(d for d in self.loops if d.parallel in ROLES)

    @property
    def turns(self) -> int:
        """How many turns a tile has."""
        return prod(_trips(d) or 1 for d in self.dealing)

    @property
    def endless(self) -> bool:
        """Whether a tile may have more steps than any number of stages."""
        return any(_trips(d) is None for d in self.loops)

    @property
    def steps(self) -> int:
        """Of a tile, two in each loop that may have any number of them."""
        return prod(_trips(d) or 2 for d in self.loops)


def stopped(
    graph: TransformGraph,
    nodes: Sequence[Node],
    tile: frozenset[Group],
    roles: Mapping[ParallelType, int],
    rings: Sequence[TileRing],
    *,
    turns: bool,
) -> frozenset[str]:
    """The rings that the warpgroups of a tile wait for when nobody can go on; none if all get to
    the end of it.

    Args:
        graph: the transform graph.
        nodes: the loops of the part.
        tile: the loops that choose the tile.
        roles: how many warpgroups share a tile along each axis; 1 where they take turns with it.
        rings: those that it reads or fills.
        turns: whether who deals out the steps of a ring waits for the turns of those in front.
    """
    axes = list(roles)
    found = [
        _Walk(graph, tile, rings, dict(zip(axes, place, strict=True))).body(nodes)
        for place in product(*(range(roles[axis]) for axis in axes))
    ]
    if not turns:
        found = [[e for e in events if e[0] in (_TAKE, _GIVE)] for events in found]
    return _left(found, {r.name: 1 if r.endless else r.stages for r in rings})


def _left(programs: Sequence[Sequence[_Event]], stages: Mapping[str, int]) -> frozenset[str]:
    """What warpgroups that do this wait for in the end."""
    wanted = Counter(e for events in programs for e in events)
    turns: dict[str, list[int]] = {}
    for kind, ring, step in sorted(wanted):
        if kind == _ENTER:
            turns.setdefault(ring, []).append(step)
    done: Counter[_Event] = Counter()

    def ready(kind: int, ring: str, step: int) -> bool:
        if kind == _TAKE:
            end = _GIVE, ring, step - stages[ring]
        elif kind == _ENTER:
            met = _MEET, ring, step
            if done[met] < wanted[met]:
                return False
            if step == turns[ring][0]:
                return True
            end = _LEAVE, ring, turns[ring][turns[ring].index(step) - 1]
        else:
            return True
        return done[end] == wanted[end]

    at, going = [0] * len(programs), True
    while going:
        going = False
        for n, events in enumerate(programs):
            while at[n] < len(events) and ready(*events[at[n]]):
                done[events[at[n]]] += 1
                at[n] += 1
                going = True
    return frozenset(e[at[n]][1] for n, e in enumerate(programs) if at[n] < len(e))


def _trips(d: IterDomain) -> int | None:
    """Iterations of a loop; None of one that may have any number."""
    if d.iter_type is IterType.Reduction or not isinstance(d.extent, Const):
        return None
    return d.extent.value


@dataclass(frozen=True, slots=True)
class _Walk:
    """What one warpgroup does in a tile.

    Args:
        graph: the transform graph.
        tile: the loops that choose the tile.
        rings: those of the part.
        place: its index along each axis.
    """

    graph: TransformGraph
    tile: frozenset[Group]
    rings: Sequence[TileRing]
    place: Mapping[ParallelType, int]

    def body(self, nodes: Sequence[Node]) -> list[_Event]:
        """All of it; a turn is one, in however many nodes."""
        found = list(self.inside(nodes, {}, frozenset(), True))
        last = {e: n for n, e in enumerate(found)}
        first = {e: n for n, e in reversed(list(enumerate(found)))}
        kept = {_MEET: first, _ENTER: first, _LEAVE: last}
        return [e for n, e in enumerate(found) if kept.get(e[0], {e: n})[e] == n]

    def inside(
        self, nodes: Sequence[Node], at: Mapping[Group, int], taken: frozenset[str], outer: bool
    ) -> Iterator[_Event]:
        """What is done in a list of nodes.

        Args:
            nodes: the list.
            at: iteration of the loops around.
            taken: rings of which a loop around has taken the step.
            outer: whether no loop around has iterations within the tile.
        """
        spans = {r: span for r in self.rings if (span := self.span(r, nodes, taken))}
        here = {r: span for r, span in spans.items() if not self.steps_in(r, nodes)}
        inner = taken | {r.name for r in here}
        turns = {r: span for r, span in spans.items() if outer and r.dealing}
        begins = self.begins(nodes, turns)
        for n, node in enumerate(nodes):
            for r in (r for r, begin in begins.items() if begin == n):
                yield _MEET, r.name, self.first(r)
                yield _ENTER, r.name, self.first(r)
            for r, (a, _) in here.items():
                if a == n:
                    yield _TAKE, r.name, self.step(r, at)
                    if r in begins:
                        yield _LEAVE, r.name, self.first(r)
            if isinstance(node, Loop):
                through, g = self.runs_beside(node), self.graph.group(node.domain)
                for i in self.iterations(node):
                    yield from self.inside(node.body, {**at, g: i}, inner, outer and through)
            yield from ((_GIVE, r.name, self.step(r, at)) for r, (_, b) in here.items() if b == n)
            for r in (r for r in begins if r not in here and turns[r][1] == n):
                yield _LEAVE, r.name, self.first(r)

    def begins(
        self, nodes: Sequence[Node], turns: Mapping[TileRing, tuple[int, int]]
    ) -> dict[TileRing, int]:
        """The nodes in front of which turns begin, those of several warpgroups in front of those
        that one has of its own. Turns that begin further inside are not among them.
        """
        found: dict[TileRing, int] = {}
        for r, (a, _) in sorted(turns.items(), key=lambda item: item[0].turns):
            if not self.runs_beside(nodes[a]):
                found[r] = min(x for f, (x, _) in turns.items() if f is r or f.turns > r.turns)
        return found

    def runs_beside(self, node: Node) -> bool:
        """Whether a loop is none of a warpgroup's within a tile: its iterations are those of others
        or of other tiles, or it has one.
        """
        if not isinstance(node, Loop):
            return False
        d = node.domain
        beside = d.parallel in (*CTA_INDEX, *ROLES) or d.extent == ONE
        return beside or self.graph.group(d) in self.tile

    def span(
        self, r: TileRing, nodes: Sequence[Node], taken: frozenset[str]
    ) -> tuple[int, int] | None:
        """The first and the last of the nodes that have to do with a ring not yet taken."""
        if r.name in taken:
            return None
        found = [n for n, x in enumerate(nodes) if any(t.name in r.tensors for t in leaves(x))]
        return (found[0], found[-1]) if found else None

    def steps_in(self, r: TileRing, nodes: Sequence[Node]) -> bool:
        """Whether what has to do with a ring is in loops of other warpgroups and tiles yet, or in
        loops that step through it.
        """
        groups = {self.graph.group(d) for d in r.loops if d.extent != ONE}
        mine = [x for x in nodes if any(t.name in r.tensors for t in leaves(x))]
        inside = (d for x in mine for d in loops(x) if d.parallel not in ROLES)
        return any(map(self.runs_beside, mine)) or any(
            self.graph.group(d) in groups for d in inside
        )

    def iterations(self, node: Loop) -> Sequence[int]:
        """Those of a loop that make a difference: it steps through a ring within the tile."""
        d, g = node.domain, self.graph.group(node.domain)
        if d.parallel in ROLES:
            return (self.place.get(d.parallel, 0),)
        steps = any(self.graph.group(x) == g for r in self.rings for x in r.loops)
        return range(_trips(d) or 2) if steps else (0,)

    def first(self, r: TileRing) -> int:
        """The first step of a warpgroup."""
        return self.step(r, {})

    def step(self, r: TileRing, at: Mapping[Group, int]) -> int:
        """The step of a ring in an iteration."""
        found = 0
        for d in r.loops:
            own = d.parallel in ROLES
            index = self.place.get(d.parallel, 0) if own else at.get(self.graph.group(d), 0)
            found = found * (_trips(d) or 2) + index
        return found
