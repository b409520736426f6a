"""Parts that wait for each other: no order of them, and no number of stages, may stop the kernel.

A part waits for those that fill the rings that it reads, and for those that have still to read the
stages that it wants to fill again. Parts and rings are a graph, a link for each part at a ring.

- A circle of parts each of which reads what the one before fills is refused: nothing is first.
- Where links make no circle in any direction, no wait can come back to the part that waits: each
  part takes the steps of all its rings in the order of the tiles, and a step of a ring waits for
  nothing but earlier ones.
- Where they do (two parts read what one loads, and one of them reads what the other makes of it),
  the stages of one way may be full while those of the other one are waited for. That cannot be if
  there is one order of all steps of these rings that every part follows (``step_order``): the first
  step that somebody has not taken yet is one that all who have to do with it can take.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import ONE
from wsched.fusion import Fusion, ParallelType, inputs_of, nest_text
from wsched.schedule.graph import Group, TransformGraph
from wsched.schedule.parts import Part
from wsched.schedule.primitives.circular_buffer import stepping_loops
from wsched.schedule.proof.edges import Edge
from wsched.schedule.proof.nest import Leaf, Loop, Node, nest
from wsched.schedule.proof.step_order import StepOrder, Taken

__all__ = ["check_waiting"]

_End = int | str
"""A part by its place, or a ring by its name."""


def check_waiting(
    fusion: Fusion, graph: TransformGraph, parts: Sequence[Part], edges: Sequence[Edge]
) -> None:
    """No part can wait for itself, by way of any others.

    Args:
        fusion: the complete schedule.
        graph: its transform graph.
        parts: those of the fusion, in the order of what they read from each other if there is one.
        edges: between them.

    Raises:
        ScheduleError: ``parts``.
    """
    edges = [e for e in edges if not e.in_place]  # what a part waits for there it has just begun
    back = next((e for e in edges if e.producer >= e.consumer), None)
    if back is not None:
        made = ", ".join(back.relation.loads)
        raise _refused(
            fusion, [back],
            f"{back.relation.compute} reads {made}, and {made} is computed from what the part of "
            f"{back.relation.compute} fills: none of their parts can be first",
            "one part: what is read in between is no ring",
        )  # fmt: skip
    links = _circle(edges)
    circle = [e for e in edges if e.name in {ring for ring, _ in links}]
    order = StepOrder(graph)
    for at in sorted({part for _, part in links}):
        taken = _taken(fusion, graph, parts[at], at, circle)
        for first, second in combinations(taken, 2):
            problem = order.add(first, second)
            if problem:
                raise _refused(fusion, circle, problem, "one order of their steps in all parts")


def _taken(
    fusion: Fusion, graph: TransformGraph, part: Part, at: int, edges: Sequence[Edge]
) -> list[Taken]:
    """The steps that a part takes of the rings of some edges, as they come; each ring once."""
    leaves = list(_leaves(nest(fusion, graph, part.tensors), ()))
    found: dict[str, Taken] = {}
    for place, (t, loops) in enumerate(leaves):
        for edge in edges:
            steps = _steps(fusion, graph, edge, at, t)
            if steps is None:
                continue
            around = tuple(x for x in loops if graph.group(x.domain) in steps)
            inside = loops[loops.index(around[-1]) + 1 :] if around else loops
            places = [n for n, (_, x) in enumerate(leaves) if inside and inside[0] in x] or [place]
            fills = edge.producer == at
            key = (places[-1], len(leaves)) if fills else (places[0], len(around))
            found.setdefault(edge.name, Taken(edge.name, t, around, key))
    return sorted(found.values(), key=lambda taken: taken.at)


def _steps(fusion: Fusion, graph: TransformGraph, edge: Edge, at: int, t: str) -> set[Group] | None:
    """The loops of a tensor of part ``at`` that step through the ring of an edge; None of a tensor
    that has nothing to do with it.
    """
    r, e, tv = edge.relation, fusion.definition(t), fusion.tensor(t)
    if edge.consumer == at and e is not None and set(r.loads).intersection(inputs_of(e)):
        return {graph.group(s.domain) for s in r.digits}
    if edge.producer == at and t in r.loads:
        return {graph.group(d) for d in stepping_loops(tv)}
    return None


def _leaves(
    nodes: Sequence[Node], loops: tuple[Loop, ...]
) -> Iterator[tuple[str, tuple[Loop, ...]]]:
    """Each tensor that is computed, with the serial loops around."""
    for node in nodes:
        if isinstance(node, Leaf):
            yield node.tensor.name, loops
        else:
            d = node.domain
            counts = d.parallel is ParallelType.Serial and d.extent != ONE
            yield from _leaves(node.body, (*loops, node) if counts else loops)


def _circle(edges: Sequence[Edge]) -> set[tuple[str, int]]:
    """The links (ring, part) of all circles, in whatever direction; those between circles, too."""
    links = {(e.name, part) for e in edges for part in (e.producer, e.consumer)}
    while True:
        ends: list[_End] = [end for link in links for end in link]
        kept = {link for link in links if all(ends.count(end) > 1 for end in link)}
        if kept == links:
            return links
        links = kept


def _refused(fusion: Fusion, edges: Sequence[Edge], why: str, legal: str) -> ScheduleError:
    calls = (r for r in fusion.history if r.op == "circular_buffer")
    names = {n for e in edges for n in e.relation.loads}
    wrote = ", ".join(str(r) for r in calls if r.args[0] in names)
    where = "\n".join(nest_text(fusion.tensor(n)) for n in fusion.names if n in names)
    return ScheduleError("parts", wrote, why, (legal,), where)
