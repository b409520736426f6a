"""What a schedule that is dumped comes to in each CTA: the boxes that are loaded, who takes which
steps, and what is made of them.

An iteration is what it is to the oracle of legality (``tests.legality``), which goes through the
tree of loops that is dumped and knows nothing of the kernel. ``recorded`` has the machine's side.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, product
from typing import Any, Literal

from lowering.ground.expr import evaluate
from lowering.kernel.kernel import Kernel
from lowering.kernel.tensors import TensorMap
from tests.legality.oracle import Course, Stepping, course, find_stepping, worlds
from tests.legality.parts import BIDS, BOX, TIDS, Parts
from tests.legality.rings import Cta, Filled
from tests.legality.waiting import Moment, times
from tests.legality.walk import Walk, World
from wsched.fusion import IterDomain, ParallelType, TensorView
from wsched.schedule.plan import Plan
from wsched.schedule.proof.edges import Edge
from wsched.schedule.proof.nest import Leaf, Node, nest
from wsched.schedule.warpgroups import Warpgroups

__all__ = ["Event", "Group", "Piece", "Visit", "Visits", "dumped", "role_names", "visits"]

Corner = tuple[int, ...]

Piece = tuple[str, Corner]
"""A tensor in global memory, and where in it that begins which one instruction moves."""

Group = tuple[str, int]
"""A role, and which of its warpgroups."""

Step = tuple[int, int]
"""Stage and parity."""

_Kind = Literal["take", "make"]

Event = tuple[_Kind, str, Any]
"""A step of a ring, by name, is taken, or made: a step of another ring, or a piece of a result."""

_Numbered = tuple[_Kind, int | str, Any]
"""The same, a step by the place of its ring and its number in a CTA."""

Visit = tuple[list[Step], list[Any]]
"""Steps that are taken, and what is made behind them."""


@dataclass(frozen=True)
class Visits:
    """What a CTA goes through.

    Args:
        loads: of each ring that is loaded the steps: stage, and the pieces that come there.
        computes: what each warpgroup that has anything to do takes, and makes of it: for each ring
            that it reads, and each result or ring that it fills.
    """

    loads: dict[str, list[tuple[int, list[Piece]]]]
    computes: dict[Group, dict[tuple[str, str], list[Visit]]]


def visits(events: Iterable[Event], taken: str, made: str) -> list[Visit]:
    """The steps of one ring with one of the things that are made."""
    found: list[Visit] = []
    for kind, name, what in events:
        if (kind, name) == ("take", taken):
            if not found or found[-1][1]:
                found.append(([], []))
            found[-1][0].append(what)
        elif (kind, name) == ("make", made):
            if not found:
                found.append(([], []))
            found[-1][1].append(what)
    return found


def role_names(plan: Plan) -> list[str]:
    """What the roles of a kernel are called, part by part."""
    names: list[str] = []
    for part in plan.parts:
        again = sum(n.rstrip("0123456789") == part.name for n in names)
        names.append(f"{part.name}{again}" if again and not part.loads else part.name)
    return names


def dumped(plan: Plan, kernel: Kernel, world: World) -> list[Visits]:
    """What the dump says of each CTA, those along x first.

    Args:
        plan: the schedule.
        kernel: of which only tensor maps are read: what one instruction moves.
        world: extents, the grid, and who gets which tile at run time.
    """
    return _Dumped(plan, kernel, world).visits()


class _Dumped:
    def __init__(self, plan: Plan, kernel: Kernel, world: World) -> None:
        self.plan, self.world, self.parts = plan, world, Parts(plan.fusion)
        self.maps = {m.name: m for m in kernel.tensor_maps}
        self.sources = {t.name: plan.fusion.source(t.name).name for t in plan.fusion.loads}

    @cached_property
    def course(self) -> Course:
        """Who takes what."""
        stepping: Stepping = {}
        for world in (*worlds(self.parts), self.world):
            find_stepping(self.parts, world, stepping)
        return course(self.parts, self.world, stepping)

    @cached_property
    def edges(self) -> list[Edge]:
        """An edge of each of the oracle's rings."""
        of = {name: e for e in self.plan.rings for name in e.relation.loads}
        return [of[ring.fills[0].name] for ring in self.parts.rings]

    def check_tree(self) -> None:
        """What is dumped is the loops that are gone through: those of each tensor, in its order.

        Loops on CTAs have no order among each other and others.
        """
        for part in self.plan.parts:
            for node in nest(self.plan.fusion, self.plan.graph, part.tensors):
                for t, around in _leaves(node):
                    own = [d for d in t.loop if d.parallel not in BOX]
                    dumped, gone = (
                        sorted(
                            ((d.parallel, evaluate(d.extent, self.world.env)) for d in loops),
                            key=_on_ctas,
                        )
                        for loops in (around, own)
                    )
                    assert dumped == gone, t.name

    def visits(self) -> list[Visits]:
        """Of all CTAs."""
        self.check_tree()
        grid = self.course.places[0].grid
        ctas = [at[::-1] for at in product(*(range(n) for n in reversed(grid)))]
        computes: dict[Cta, dict[Group, dict[tuple[str, str], list[Visit]]]] = {}
        for at, part in enumerate(self.plan.parts):
            if not part.loads:
                for cta, group, found in self._of_part(at):
                    computes.setdefault(cta, {})[group] = found
        return [Visits(self._loads(cta), computes.get(cta, {})) for cta in ctas]

    def _loads(self, cta: Cta) -> dict[str, list[tuple[int, list[Piece]]]]:
        found = {}
        for ring, edge, steps in zip(self.parts.rings, self.edges, self.course.rings, strict=True):
            if ring.filler is None:
                each = zip(*(self._boxes(x, cta) for x in steps.fills), strict=True)
                found[edge.name] = [
                    (n % ring.stages, sorted(piece for box in boxes for piece in box))
                    for n, boxes in enumerate(each)
                ]
        return found

    def _boxes(self, filled: Filled, cta: Cta) -> Iterator[list[Piece]]:
        """The pieces of the box of each step."""
        map_ = self.maps[self.sources[filled.t.name]]
        for numbers in filled.sequence(cta):
            low = [int(x[n]) for x, n in zip(filled.lows, numbers, strict=True)]
            yield list(_pieces(map_, low, filled.sizes))

    def _of_part(self, at: int) -> Iterator[tuple[Cta, Group, dict[tuple[str, str], list[Visit]]]]:
        """What each warpgroup of a part takes and makes, at each CTA."""
        plan, names = self.plan, role_names(self.plan)
        part, main = plan.parts[at], plan.main(at)
        assert main is not None
        section = self.parts.section(next(t for t in part.tensors if self._computed(t)))
        places = self.course.places[section]
        taken = [e.name for e in plan.into(at)]
        results = [b.tensor for b in plan.fusion.outputs if b.tensor in part.tensors]
        made = [ring.ring for ring in part.rings] + results
        for cta in product(*map(range, places.ctas)):
            found: dict[Cta, dict[int, list[_Numbered]]] = {}
            for role in product(*map(range, places.roles)):
                group = _number(main.warpgroups, role)
                for share, events in self._shares(section, cta, role).items():
                    found.setdefault(share, {})[group] = events
            for share, groups in found.items():
                if self.parts.deals_steps:
                    groups = _in_turn(main.warpgroups, groups)
                for group, events in groups.items():
                    does = [self._event(e) for e in events]
                    if does:
                        yield share, (names[at], group), {
                            (x, y): visits(does, x, y) for x in taken for y in made
                        }  # fmt: skip

    def _computed(self, name: str) -> bool:
        return any(t.name == name for t in self.parts.computed)

    def _event(self, e: _Numbered) -> Event:
        """With what tells the step of a ring in a kernel."""
        kind, ring, what = e
        if isinstance(ring, str):
            return kind, ring, what
        edge = self.edges[ring]
        stages = edge.relation.buffer.stages
        return kind, edge.name, (what % stages, what // stages % 2)

    def _shares(self, section: int, cta: Cta, role: Cta) -> dict[Cta, list[_Numbered]]:
        """What a warpgroup does, of a CTA of the loops or of each of those that share these.

        A tile is completed by who has its first step.
        """
        shares = self.course.places[section].behind(cta)
        begin, ends = {}, 0
        for share in shares if self.parts.deals_steps else ():
            begin[share] = ends
            ends += len(self.course.rings[0].sequence(share))
        found: dict[Cta, list[_Numbered]] = {share: [] for share in shares}
        completes, before = shares[0], "make"
        for kind, ring, what in self._events(section, cta, role):
            share = shares[0]
            if begin and kind == "take":
                share = max(s for s in shares if begin[s] <= what)
                completes = share if before == "make" else completes
            elif begin:
                share = completes
            before = kind
            if isinstance(ring, int):
                found[share].append((kind, ring, what - begin.get(share, 0)))
            else:
                found[share] += [(kind, ring, piece) for piece in what]
        return found

    def _events(self, section: int, cta: Cta, role: Cta) -> list[_Numbered]:
        """Steps of rings by number that a warpgroup takes and makes, and its stores, in order."""
        found: list[tuple[Moment, _Kind, int | str, Any]] = []
        for (who, ring, fills), spans in self.course.runs[section, cta].spans.items():
            if who == role:
                kind: _Kind = "make" if fills else "take"
                found += [(first, kind, ring, n) for n, (first, _) in spans.items()]
        for t in self.parts.sections[section]:
            if any(b.tensor == t.name for b in self.plan.fusion.outputs):
                found += self._stores(t, cta, role)
        return [e[1:] for e in sorted(found, key=lambda e: e[0])]

    def _stores(
        self, t: TensorView, cta: Cta, role: Cta
    ) -> Iterator[tuple[Moment, _Kind, str, list[Piece]]]:
        """When a result is stored, and in which pieces: none of what does not exist."""
        if self.parts.splits_k and cta[2] != self.course.places[0].ctas[2] - 1:
            return
        walk = Walk(t, self.world)
        inner = [d for d in t.loop if d.parallel in BOX]
        free = [d for d in t.loop if d not in inner]
        mesh, sizes = walk.mesh(free), walk.box(inner)
        assert sizes is not None
        exists, corners = walk.exists(mesh, inner), walk.coordinates(mesh)
        path = self.parts.paths[t.name]
        at = dict(zip((*BIDS, *TIDS), (*cta, *role), strict=True))
        for n in range(len(exists)):
            values = {d: int(v[n]) for d, v in mesh.items()}
            if all(values[d.id] == at.get(d.parallel, values[d.id]) for d in free):
                first, _ = times(t, path, walk, values, set())
                low = [int(c[n]) for c in corners]
                yield first, "make", t.name, self._stored(t, low, sizes) if exists[n] else []

    def _stored(self, t: TensorView, low: list[int], sizes: tuple[int, ...]) -> list[Piece]:
        """The pieces of a box of a result that are within it."""
        ends = [Walk(t, self.world).extents[d.id] for d in t.logical]
        found: Iterable[Piece] = [(t.name, tuple(low))]
        if t.name in self.maps:
            found = _pieces(self.maps[t.name], low, sizes)
        return [p for p in found if all(x < end for x, end in zip(p[1], ends, strict=True))]


def _leaves(node: Node) -> Iterator[tuple[TensorView, list[IterDomain]]]:
    """The tensors in a node, each with the loops around it, the outermost first."""
    if isinstance(node, Leaf):
        yield node.tensor, []
    else:
        for t, inside in chain.from_iterable(map(_leaves, node.body)):
            yield t, [node.domain, *inside]


def _on_ctas(loop: tuple[ParallelType, int]) -> int:
    return BIDS.index(loop[0]) if loop[0] in BIDS else len(BIDS)


def _number(warpgroups: Warpgroups, role: Cta) -> int:
    """Which warpgroup a role is."""
    number, below = 0, 1
    for axis, extent in warpgroups.extents:
        number += role[TIDS.index(axis)] * below
        below *= extent
    return number


def _in_turn(
    warpgroups: Warpgroups, groups: dict[int, list[_Numbered]]
) -> dict[int, list[_Numbered]]:
    """Of a share of the load steps the same where the first turn is that of the first warpgroups,
    whichever tile it begins with (note 0019).
    """
    team = warpgroups.count // warpgroups.teams
    first = next((g for g, does in groups.items() if does and does[0][1:] == (0, 0)), 0)
    return {(g - first // team * team) % warpgroups.count: does for g, does in groups.items()}


def _pieces(map_: TensorMap, low: list[int], sizes: Iterable[int]) -> Iterator[Piece]:
    """A box in as many as TMA moves it in."""
    ends = [x + size for x, size in zip(low, sizes, strict=True)]
    steps = zip(low, ends, map_.box, strict=True)
    for corner in product(*(range(x, end, size) for x, end, size in steps)):
        yield map_.name, corner
