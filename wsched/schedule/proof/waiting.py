"""Parts that wait for each other: no order of them, and no number of stages, may stop the kernel.

A part waits for those that fill the rings that it reads, and for those that have still to read the
stages that it wants to fill again. Parts and rings are a graph, a link for each part at a ring.

- A circle of parts each of which reads what the one before fills is refused: nothing is first.
- Where links make no circle in any direction, no wait can come back to the part that waits: each
  part takes the steps of all its rings in one order, the tiles' order, and a step of a ring waits
  for nothing but an earlier one of the same ring.
- Where two ways lead from one part to another (both read what one loads, and one reads what the
  other makes of it), the way with fewer stages may be full while the other one is empty. With the
  same loops at all rings of the circle that cannot be: the part that is furthest behind finds what
  it reads there, and its stages read. With others it depends on sizes, so it is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import ONE
from wsched.fusion import Fusion, nest_text
from wsched.schedule.edges import Edge

__all__ = ["check_waiting"]

_Node = int | str
"""A part by its place, or a ring by its name."""


def check_waiting(fusion: Fusion, edges: Sequence[Edge]) -> None:
    """No part can wait for itself, by way of any others.

    Args:
        fusion: the complete schedule.
        edges: those of all parts, whose places are in the order of what they read from each other
            if there is one.

    Raises:
        ScheduleError: ``parts``.
    """
    back = next((e for e in edges if e.producer >= e.consumer), None)
    if back is not None:
        made = ", ".join(back.relation.loads)
        raise _refused(
            fusion, [back],
            f"{back.relation.compute} reads {made}, and {made} is computed from what the part of "
            f"{back.relation.compute} fills: none of their parts can be first",
            "one part: what is read in between is no ring",
        )  # fmt: skip
    circle = _circle(edges)
    nests = dict.fromkeys(tuple(n for n in e.relation.nest if n.stop != ONE) for e in circle)
    if len(nests) > 1:
        rings = dict.fromkeys(f"{', '.join(e.relation.loads)} by {_steps(e)}" for e in circle)
        raise _refused(
            fusion, circle,
            f"two ways lead through {' and '.join(rings)}: where steps differ, the stages of one "
            "can all be full while those of the other are waited for",
            "the same loops over the steps of all of them",
        )  # fmt: skip


def _steps(edge: Edge) -> str:
    return "·".join(n.group.label for n in edge.relation.nest) or "one step"


def _circle(edges: Sequence[Edge]) -> list[Edge]:
    """The edges of all circles, in whatever direction; those between circles, too."""
    links = {(e.name, part) for e in edges for part in (e.producer, e.consumer)}
    while True:
        ends: list[_Node] = [end for link in links for end in link]
        kept = {link for link in links if all(ends.count(end) > 1 for end in link)}
        if kept == links:
            break
        links = kept
    return [e for e in edges if (e.name, e.producer) in links and (e.name, e.consumer) in links]


def _refused(fusion: Fusion, edges: Sequence[Edge], why: str, legal: str) -> ScheduleError:
    calls = (r for r in fusion.history if r.op == "circular_buffer")
    names = {n for e in edges for n in e.relation.loads}
    wrote = ", ".join(str(r) for r in calls if r.args[0] in names)
    where = "\n".join(nest_text(fusion.tensor(n)) for n in fusion.names if n in names)
    return ScheduleError("parts", wrote, why, (legal,), where)
