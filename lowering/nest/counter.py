"""What the loops of both sides count: each loop of the load nest, in loops of the compute side."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import ONE, Expr
from wsched.schedule.graph import TransformGraph
from wsched.schedule.proof.relation import LoadLoop, LoadRelation, StepLoop

__all__ = ["Counter", "counters"]


@dataclass(frozen=True, slots=True)
class Counter:
    """A loop of the load nest, and what counts it on the compute side.

    Its serial loops are one loop of the kernel: what they have in common is where they end.
    Warpgroups that take turns have the index ``loop * turns + turn``.

    Args:
        loop: the load side's.
        serial: the compute side's serial loops, slowest first.
        roles: its loops on warpgroups, faster than those.
        outside: whether it chooses the tile.
    """

    loop: LoadLoop
    serial: tuple[StepLoop, ...]
    roles: tuple[StepLoop, ...]
    outside: bool

    @property
    def label(self) -> str:
        """A word for the loop."""
        alone = len(self.serial) == 1
        return self.serial[0].domain.label if alone else self.loop.group.label

    @property
    def turns(self) -> Expr:
        """How many warpgroups take turns in it."""
        return prod((s.domain.extent for s in self.roles), start=ONE)


def counters(relation: LoadRelation, graph: TransformGraph) -> tuple[Counter, ...]:
    """Those of an edge, slowest first.

    Raises:
        UnsupportedError: a loop of the compute side counts several of the load side's.
    """
    found: list[list[StepLoop]] = [[] for _ in relation.nest]
    for s in relation.digits:
        above = graph.above(graph.group(s.domain))
        places = [p for p, loop in enumerate(relation.nest) if loop.group in above]
        if len(places) != 1:
            names = " and ".join(relation.nest[p].group.label for p in places) or "nothing"
            what = f"loop {s.domain.label} of {relation.compute} that counts {names}"
            raise UnsupportedError(what, "loops that count one loop of the load nest")
        found[places[0]].append(s)
    outside = {s.var for s in relation.digits[: relation.outside]}
    return tuple(
        Counter(
            loop,
            tuple(s for s in digits if not s.role),
            tuple(s for s in digits if s.role),
            bool(digits) and all(s.var in outside for s in digits),
        )
        for loop, digits in zip(relation.nest, found, strict=True)
    )
