"""Several tensors of one part that read the same ring: they take each step together.

A step is released once, when the last of them has read it. So they go through the same steps in the
same loops, which they share (``nest``), on the same warps. That none of them waits for what another
one has only after all steps is decided with the order in those loops (``proof.placement``).
"""

from __future__ import annotations

from collections.abc import Sequence

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import Expr, Var, substitute
from wsched.schedule.graph import Group, TransformGraph
from wsched.schedule.proof.nest import stepping
from wsched.schedule.proof.relation import LoadRelation, StepLoop
from wsched.schedule.proof.sides import Sides
from wsched.schedule.words import runs, words

__all__ = ["check_readers", "ends"]


def check_readers(sides: Sequence[Sides], relations: Sequence[LoadRelation]) -> None:
    """What reads a ring in one part reads each of its steps in the same iteration.

    Args:
        sides: one for each tensor that reads, in topological order.
        relations: what was proved of each.

    Raises:
        ScheduleError: ``readers``.
    """
    for other, its in zip(sides[1:], relations[1:], strict=True):
        _check_loops(sides[0], relations[0], other, its)


def ends(graph: TransformGraph, digits: Sequence[StepLoop]) -> tuple[tuple[Group, bool, Expr], ...]:
    """The loops and their bounds, over groups instead of loops of one tensor."""
    names: dict[Var, Expr] = {s.var: Var(f"g{graph.group(s.domain).id}") for s in digits}
    return tuple((graph.group(s.domain), s.role, substitute(s.stop, names)) for s in digits)


def _check_loops(first: Sides, relation: LoadRelation, other: Sides, its: LoadRelation) -> None:
    """Both step through the ring in loops that are the same, by as many warpgroups."""
    graph = first.graph
    mine, theirs = (runs(graph, stepping(graph, s.compute, s.loads)) for s in (first, other))
    if mine != theirs or ends(graph, relation.digits) != ends(graph, its.digits):
        here, there = map(", ".join, words(graph, mine, theirs))
        raise _apart(first, other, f"step through it in different loops, {here} and {there}")
    one, two = relation.warpgroups, its.warpgroups
    if (one.count, one.taking) != (two.count, two.taking):
        raise _apart(
            first, other, f"run on {one.count} and {two.count} warpgroups, of which "
            f"{one.taking} and {two.taking} take a step",
        )  # fmt: skip


def _apart(first: Sides, other: Sides, what: str) -> ScheduleError:
    ring, mine, theirs = _ring(first), first.compute.name, other.compute.name
    return other.refuse(
        "readers",
        f"{mine} and {theirs} read the ring of {ring}, but {what}: a stage is released once",
        (f"split, reorder and parallelize {theirs} as {mine}",),
    )


def _ring(sides: Sides) -> str:
    return ", ".join(t.name for t in sides.ring)
