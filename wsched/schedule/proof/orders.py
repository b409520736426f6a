"""In which other orders the load loops could be merged: what a refusal says is legal.

Some rules find fault with the order of the load loops alone. Then the proof is asked of each other
order, so that what a refusal names is accepted by all rules that are about the edge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations

from lowering.ground.errors import ScheduleError
from wsched.fusion import Merge
from wsched.schedule.graph import Group, TransformGraph

__all__ = ["Misordered", "legal_orders"]

_MOST = 4
"""Loops whose orders are tried: 24."""


class Misordered(Exception):  # noqa: N818
    """The load loops are merged in an order that cannot be; leaves the proof as a ScheduleError.

    Args:
        rule: that finds fault.
        why: as for ScheduleError.
    """

    def __init__(self, rule: str, why: str) -> None:
        self.rule, self.why = rule, why
        super().__init__(why)


def legal_orders(
    graph: TransformGraph, loop: Group, prove: Callable[[Sequence[Group]], object]
) -> tuple[str, ...]:
    """The orders of what the load loop was merged from that are accepted.

    Args:
        graph: the transform graph.
        loop: the load loop.
        prove: proves the edge with these load loops, slowest first, or raises why not.
    """
    merged = _merged(graph, loop)
    if len(merged) > _MOST:
        return ()
    found = []
    for order in permutations(merged):
        try:
            prove(order)
        except (Misordered, ScheduleError):
            continue
        found.append("merge the load loops as " + "·".join(g.label for g in order))
    return tuple(found)


def _merged(graph: TransformGraph, loop: Group) -> tuple[Group, ...]:
    """What a loop was merged from, slowest first."""
    step = graph.producer(loop)
    if step is None or not isinstance(step.transform, Merge) or step.transform.traversal:
        return (loop,)
    outer, inner = step.inputs
    return (*_merged(graph, outer), inner)
