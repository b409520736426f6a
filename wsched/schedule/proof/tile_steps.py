"""Steps of a tile that the warpgroups which share it deal out among them.

What the epilogue reads may come in steps of a warpgroup's own rows or columns: each takes its own,
one warpgroup after the other. They get on with a tile apart then, and may wait for each other where
they take steps of another ring together, or deal them out otherwise: one is ahead with steps that
the other one has to release, and waits itself for a step that is filled when the other one has got
on. Whether they do depends on the order in which the part takes its rings and on their stages, and
is decided by going through a tile (``tile_order``). What is summed is read by all together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import Const
from wsched.fusion import Fusion, IterDomain, ParallelType, nest_text
from wsched.schedule.graph import Group, TransformGraph
from wsched.schedule.parts import Part
from wsched.schedule.primitives.circular_buffer import stepping_loops
from wsched.schedule.proof.edges import Edge, main_of
from wsched.schedule.proof.nest import nest
from wsched.schedule.proof.relation import LoadRelation
from wsched.schedule.proof.sides import ROLES
from wsched.schedule.proof.tile_order import TileRing, stopped

__all__ = ["Dealt", "Stopped", "check_tile_steps", "dealt_tiles"]


@dataclass(frozen=True, slots=True)
class Dealt:
    """A tile whose steps warpgroups deal out.

    Args:
        rings: those that its part reads or fills, each with its relation.
        waited: the rings that are waited for in a tile that does not end, if they have these
            stages; ``turns`` says whether who deals out steps waits for the turns of others.
    """

    rings: Mapping[TileRing, LoadRelation]
    waited: Callable[..., frozenset[str]]

    def stops(self, *, turns: bool) -> Stopped | None:
        """Why it does not end, None if it does; with what lets it end in turns, too."""
        found = self.waited(tuple(self.rings), turns=turns)
        return _stopped(self.rings, found, partial(self.waited, turns=True)) if found else None


@dataclass(frozen=True, slots=True)
class Stopped:
    """Two rings that are waited for, of which one is dealt out.

    Args:
        dealt: the relation of that.
        other: that of the other.
        legal: what lets the tile end: stages that are enough, steps of a whole tile.
    """

    dealt: LoadRelation
    other: LoadRelation
    legal: tuple[str, ...]

    @property
    def loops(self) -> str:
        """What deals out steps: ``loop row [TIDy] of T12``."""
        return f"{_loops(self.dealt)} of {self.dealt.compute}"

    @property
    def others(self) -> str:
        """What the other ring brings."""
        return ", ".join(self.other.loads)


def check_tile_steps(
    fusion: Fusion, graph: TransformGraph, parts: Sequence[Part], edges: Sequence[Edge]
) -> None:
    """The rings that a part reads or fills let its warpgroups get on with a tile apart.

    Whether they do in the turns that a kernel has them take is asked where it is made
    (``lowering.nest.computing``).

    Args:
        fusion: the complete schedule.
        graph: its transform graph.
        parts: those of the fusion.
        edges: between them.

    Raises:
        ScheduleError: ``role``.
    """
    for e in edges:
        if not parts[e.consumer].loads and _deals(e.relation):
            _check_behind_sums(fusion, e.relation)
    for tile in dealt_tiles(fusion, graph, parts, edges):
        found = tile.stops(turns=False)
        if found is not None:
            raise _refused(fusion, found)


def dealt_tiles(
    fusion: Fusion, graph: TransformGraph, parts: Sequence[Part], edges: Sequence[Edge]
) -> Iterator[Dealt]:
    """Those of each part that has any; see :func:`check_tile_steps` for the arguments."""
    for at, part in enumerate(parts):
        main = main_of(edges, at)
        if main is None or not any(_deals(e.relation) for e in edges if e.consumer == at):
            continue
        tile = frozenset(graph.group(s.domain) for s in main.digits[: main.outside])
        rings = dict(_rings(fusion, graph, edges, at, tile))
        nodes = nest(fusion, graph, part.tensors)
        yield Dealt(rings, partial(stopped, graph, nodes, tile, _roles(fusion, main)))


def _deals(relation: LoadRelation) -> bool:
    """Whether warpgroups deal out its steps within a tile."""
    return any(d.parallel in ROLES for d in _within(relation))


def _within(relation: LoadRelation) -> tuple[IterDomain, ...]:
    """The loops that step through a ring within a tile, slowest first."""
    return tuple(s.domain for s in relation.digits[relation.outside :])


def _rings(
    fusion: Fusion, graph: TransformGraph, edges: Sequence[Edge], at: int, tile: frozenset[Group]
) -> Iterator[tuple[TileRing, LoadRelation]]:
    """The rings that a part reads and those that it fills, as a tile has them."""
    filled = set[str]()
    for e in edges:
        r = e.relation
        if e.consumer == at:
            yield TileRing(e.name, frozenset(r.readers), _within(r), r.buffer.stages), r
        elif e.producer == at and e.name not in filled:
            filled.add(e.name)
            steps = stepping_loops(fusion.tensor(r.loads[0]))
            within = tuple(d for d in steps if graph.group(d) not in tile)
            yield TileRing(e.name, frozenset(r.loads), within, r.buffer.stages), r


def _roles(fusion: Fusion, main: LoadRelation) -> Mapping[ParallelType, int]:
    """How many warpgroups share a tile along each axis."""
    turns = {s.domain.parallel for s in main.digits[: main.outside] if s.role}
    found = (fusion.tensor(main.compute).axis_on(axis) for axis in ROLES)
    return {
        d.parallel: 1 if d.parallel in turns else d.extent.value
        for d in found
        if d is not None and isinstance(d.extent, Const)
    }


def _check_behind_sums(fusion: Fusion, relation: LoadRelation) -> None:
    """What is summed is read by all warpgroups of a tile, step by step."""
    sums = [name for name in fusion.names if fusion.tensor(name).sums]
    if relation.compute in fusion.made_from(sums):
        raise ScheduleError(
            "role",
            f"loads {', '.join(relation.loads)}, compute {relation.compute}",
            f"{_loops(relation)} of {relation.compute} deals out the steps of a tile, which its "
            "warpgroups share, and sum up together: all of them take every step",
            (f"load in a step what all iterations of {_loops(relation)} read",),
            _nests(fusion, relation),
        )


def _stopped(
    rings: Mapping[TileRing, LoadRelation],
    found: frozenset[str],
    waited: Callable[[Sequence[TileRing]], frozenset[str]],
) -> Stopped:
    """The rings to name of those that are waited for, and the stages that are enough; one that is
    alone is waited for by who has a later turn.
    """
    dealt = min((r for r in rings if r.dealing), key=lambda r: r.name not in found)
    other = min((r for r in rings if r != dealt), key=lambda r: r.name not in found, default=dealt)
    legal: list[str] = []
    for ring in dict.fromkeys((other, dealt)):
        enough = _enough(tuple(rings), ring, waited)
        if enough is not None:
            if ring == other and not ring.dealing:
                legal.append(f"load all of a tile in one step of {', '.join(rings[other].loads)}")
            legal.append(f"at least {enough} stages of {', '.join(rings[ring].loads)}")
    return Stopped(rings[dealt], rings[other], tuple(legal))


def _refused(fusion: Fusion, found: Stopped) -> ScheduleError:
    return ScheduleError(
        "role",
        f"loads {', '.join(found.dealt.loads)}, compute {found.dealt.compute}",
        f"{found.loops} deals out the steps of a tile, which its warpgroups share, and those of "
        f"{found.others} are taken otherwise: one that is ahead in the one ring would wait for the "
        "other in the other one",
        found.legal,
        _nests(fusion, found.dealt, found.other),
    )


def _enough(
    rings: Sequence[TileRing],
    ring: TileRing,
    waited: Callable[[Sequence[TileRing]], frozenset[str]],
) -> int | None:
    """The fewest stages of a ring with which nobody waits for ever, None if none are enough."""
    for stages in () if ring.endless else range(ring.stages + 1, ring.steps + 1):
        if not waited([replace(r, stages=stages) if r == ring else r for r in rings]):
            return stages
    return None


def _loops(relation: LoadRelation) -> str:
    roles = (d for d in _within(relation) if d.parallel in ROLES)
    return " and ".join(f"loop {d.label} [{d.parallel}]" for d in roles)


def _nests(fusion: Fusion, *relations: LoadRelation) -> str:
    """The loops of what is loaded and of what reads it."""
    names = dict.fromkeys(n for r in relations for n in (r.loads[0], r.compute))
    return "\n".join(nest_text(fusion.tensor(n)) for n in names)
