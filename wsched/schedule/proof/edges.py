"""Edges: the rings between parts, each with what was proved of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from wsched.schedule.parts import Part, part_of
from wsched.schedule.proof.relation import LoadRelation

__all__ = ["Edge", "edges_of", "main_of"]


@dataclass(frozen=True, slots=True)
class Edge:
    """A ring between two parts.

    Args:
        name: of the ring.
        producer: place of the part that fills it in the plan's parts.
        consumer: place of the part that reads it.
        relation: which step an iteration of the consumer needs; its ``loads`` are the tensors that
            cross the edge, its ``compute`` the one that reads them.
    """

    name: str
    producer: int
    consumer: int
    relation: LoadRelation

    @property
    def in_place(self) -> bool:
        """Whether who reads the ring fills it, each step in the trip that reads it."""
        return self.producer == self.consumer and not self.relation.buffer.prefetch


def edges_of(parts: Sequence[Part], relations: Iterable[LoadRelation]) -> tuple[Edge, ...]:
    """An edge for each relation, in the same order."""
    found = []
    for r in relations:
        at = part_of(parts, r.loads[0])
        name = next(f.ring for f in parts[at].rings if r.loads[0] in f.tensors)
        found.append(Edge(name, at, part_of(parts, r.compute), r))
    return tuple(found)


def main_of(edges: Iterable[Edge], part: int) -> LoadRelation | None:
    """The relation that says which loops a part runs: of the first ring that it reads, which all
    others follow. None if it reads no ring.
    """
    return next((e.relation for e in edges if e.consumer == part), None)
