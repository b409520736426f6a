"""What a part computes for others it computes in the loops in which it reads.

An edge says what its producer's loops count, and where they end, of the tensor that is stored. That
tensor stands in the loops of its part, which end as the ring says that the part reads. Both must be
the same loops with the same bounds; loops that only the stored tensor has run over parts of a tile,
whose number is known. Then the steps that are filled are those that the readers of the ring take,
and what was proved edge by edge holds from the first part to the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import Const, Expr
from wsched.fusion import Fusion, nest_text
from wsched.schedule.graph import TransformGraph
from wsched.schedule.primitives.circular_buffer import stepping_loops
from wsched.schedule.proof.edges import Edge, main_of
from wsched.schedule.proof.relation import LoadRelation

__all__ = ["check_filled"]


def check_filled(fusion: Fusion, graph: TransformGraph, edges: Sequence[Edge]) -> None:
    """Every part that reads rings and fills some does so in the same loops.

    Args:
        fusion: the complete schedule.
        graph: its transform graph.
        edges: those of all parts.

    Raises:
        ScheduleError: ``role``, where warpgroups take turns in what is to be filled together;
            ``load-bound``, where the steps that are filled do not end with those that are read.
    """
    for edge in edges:
        main = main_of(edges, edge.producer)
        if main is not None:
            _check(fusion, graph, edge.relation, main)


def _check(fusion: Fusion, graph: TransformGraph, out: LoadRelation, main: LoadRelation) -> None:
    t = fusion.tensor(out.loads[0])
    if not main.cooperative:
        raise _refused(
            fusion, out, main, "role",
            f"{t.name} is filled by warpgroups that take turns with the steps of "
            f"{', '.join(main.loads)}: all warpgroups of a part fill a stage together",
        )  # fmt: skip
    ends = {loop.group: loop.stop for loop in main.nest}
    of_part = {graph.group(s.domain) for s in main.digits}
    inside = [loop.stop for loop in out.nest if loop.group not in ends]
    extents = [d.extent for d in stepping_loops(t) if graph.group(d) not in of_part]
    apart = [n for n in out.nest if n.group in ends and n.stop != ends[n.group]]
    if apart or _number(inside) is None or _number(inside) != _number(extents):
        steps = " and ".join(f"{n.group.label} < {n.stop}" for n in out.nest)
        loops = " and ".join(f"{n.group.label} < {n.stop}" for n in main.nest)
        raise _refused(
            fusion, out, main, "load-bound",
            f"{t.name} is stored in steps {steps}, and its part reads {', '.join(main.loads)} in "
            f"steps {loops}: what is stored does not end with what is read",
        )  # fmt: skip


def _number(extents: Sequence[Expr]) -> int | None:
    """Iterations of loops, None if they are not known."""
    known = [e.value for e in extents if isinstance(e, Const)]
    return prod(known) if len(known) == len(extents) else None


def _refused(
    fusion: Fusion, out: LoadRelation, main: LoadRelation, rule: str, why: str
) -> ScheduleError:
    t, reader = fusion.tensor(out.loads[0]), fusion.tensor(main.compute)
    return ScheduleError(
        rule,
        f"{t.name} = {fusion.definition(t.name)}",
        why,
        (f"split {t.name} as {reader.name}",),
        f"{nest_text(reader)}\n{nest_text(t)}",
    )
