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
from dataclasses import replace
from functools import partial

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import Const
from wsched.fusion import Fusion, IterDomain, ParallelType, nest_text
from wsched.schedule.edges import Edge, main_of
from wsched.schedule.nest import nest
from wsched.schedule.parts import Part
from wsched.schedule.primitives.circular_buffer import stepping_loops
from wsched.schedule.proof.graph import Group, TransformGraph
from wsched.schedule.proof.relation import LoadRelation
from wsched.schedule.proof.sides import ROLES
from wsched.schedule.proof.tile_order import TileRing, stopped

__all__ = ["check_tile_steps"]

_Waited = Callable[[Sequence[TileRing]], frozenset[str]]
"""The rings that are waited for in a tile that does not end, if they have these stages."""


def check_tile_steps(
    fusion: Fusion, graph: TransformGraph, parts: Sequence[Part], edges: Sequence[Edge]
) -> None:
    """The rings that a part reads or fills let its warpgroups get on with a tile apart.

    Args:
        fusion: the complete schedule.
        graph: its transform graph.
        parts: those of the fusion.
        edges: between them.

    Raises:
        ScheduleError: ``role``.
    """
    for at, part in enumerate(parts):
        into = [e.relation for e in edges if e.consumer == at]
        dealt = [r for r in into if any(d.parallel in ROLES for d in _within(r))]
        for relation in dealt:
            _check_behind_sums(fusion, relation)
        main = main_of(edges, at)
        if not dealt or main is None:
            continue
        tile = frozenset(graph.group(s.domain) for s in main.digits[: main.outside])
        rings = dict(_rings(fusion, graph, edges, at, tile))
        nodes = nest(fusion, graph, part.tensors)
        waited = partial(stopped, graph, nodes, tile, _roles(fusion, main))
        if waited(tuple(rings)):
            raise _refused(fusion, rings, waited)


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


def _refused(
    fusion: Fusion, rings: Mapping[TileRing, LoadRelation], waited: _Waited
) -> ScheduleError:
    """Two rings that are waited for, of which one is dealt out; with the stages that are enough."""
    found = waited(tuple(rings))
    dealt = min((r for r in rings if r.dealing), key=lambda r: r.name not in found)
    other = min((r for r in rings if r != dealt), key=lambda r: r.name not in found)
    relation, names = rings[dealt], ", ".join(rings[other].loads)
    legal: list[str] = []
    for ring in (other, dealt):
        enough = _enough(tuple(rings), ring, waited)
        if enough is not None:
            if ring == other and not ring.dealing:
                legal.append(f"load all of a tile in one step of {names}")
            legal.append(f"at least {enough} stages of {', '.join(rings[ring].loads)}")
    return ScheduleError(
        "role",
        f"loads {', '.join(relation.loads)}, compute {relation.compute}",
        f"{_loops(relation)} of {relation.compute} deals out the steps of a tile, which its "
        f"warpgroups share, and those of {names} are taken otherwise: one that is ahead in the one "
        "ring would wait for the other in the other one",
        tuple(legal),
        _nests(fusion, relation, rings[other]),
    )


def _enough(rings: Sequence[TileRing], ring: TileRing, waited: _Waited) -> int | None:
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
