"""Steps of rings that all trips of a loop are in: waited for, or begun to fill, in front of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lowering.ground.expr import ONE, Expr
from lowering.kernel.nodes import Body, Consume, Produce
from lowering.nest.computing import Computing
from lowering.nest.registers import Registers
from lowering.nest.work_loops import WorkLoops
from wsched.schedule.graph import Group
from wsched.schedule.plan import Plan
from wsched.schedule.primitives.circular_buffer import stepping_loops
from wsched.schedule.proof.nest import Node, leaves, loops
from wsched.schedule.proof.sides import CTA_INDEX, ROLES

__all__ = ["steps_of"]

PLACES = (*CTA_INDEX, *ROLES)
"""What runs loops side by side: no trip of them follows another one."""


def steps_of(
    node: Node,
    plan: Plan,
    part: Computing,
    work: WorkLoops,
    registers: Registers,
    indices: Callable[[], Mapping[Group, Expr]],
) -> Body:
    """What stands in front of a loop all of whose trips are in one step of a ring. Loops of the
    kernel step, also those of one trip; others of one trip are none of it.

    Args:
        node: the loop.
        plan: the schedule.
        part: the part that it is of.
        work: where tiles come from.
        registers: those of the list that the loop stands in.
        indices: index of each group that is known in front of the loop: those of loops on CTAs and
            warpgroups are, wherever they stand.
    """
    out: Body = ()
    graph = plan.graph
    counted = {graph.group(s.domain) for s in part.main.digits}
    inside = {
        graph.group(d)
        for d in loops(node)
        if d.parallel not in PLACES and (d.extent != ONE or graph.group(d) in counted)
    }
    tensors = list(leaves(node))
    made = {t.name for t in tensors}
    for t in tensors:
        read = (p.name for p in plan.fusion.producers(t.name) if p.name not in made)
        for name in (t.name, *read):
            if name in part.rings:
                ring, relation = part.rings[name]
                fills = name == t.name
                taken = tuple(s.domain for s in relation.digits)
                stepping = stepping_loops(t) if fills else taken
                if inside.isdisjoint(map(graph.group, stepping)):
                    step = work.step(relation, indices())
                    if step is not None:
                        out += registers.step(ring, step, Produce if fills else Consume)
    return out
