"""Load sections: for each circular buffer a nest of loops, and the loads of one step in it."""

from __future__ import annotations

from lowering.ground.expr import ZERO, Expr
from lowering.kernel.nodes import Body, For, Produce, Section
from lowering.nest.place import Place
from lowering.nest.registers import Registers
from lowering.nest.rules import rule_for
from lowering.nest.scope import Scopes, indices
from lowering.nest.stage import stage_of
from lowering.nest.work_loops import Head, WorkLoops
from wsched.schedule.plan import Edge, Plan
from wsched.schedule.proof.graph import Group
from wsched.schedule.proof.sides import CTA_INDEX

__all__ = ["load_section"]


def load_section(plan: Plan, edge: Edge, work: WorkLoops) -> Section:
    """What fills a ring.

    Args:
        plan: the schedule.
        edge: from the loads to what consumes them.
        work: where tiles come from.
    """
    graph, relation, scopes = plan.graph, edge.relation, Scopes(work.shared)
    nest = work.loads(relation)
    known: dict[Group, Expr] = dict(nest.known)
    for name in relation.loads:
        t = plan.fusion.tensor(name)
        known |= {graph.group(d): CTA_INDEX[d.parallel] for d in t.loop if d.parallel in CTA_INDEX}
        known |= {graph.group(d): ZERO for d in t.loop[t.slice_position :]}
    scopes.enter()
    for head in nest.heads:
        scopes.enter(head.var, *head.defined)
        known |= {g: scopes.bind(g.label, e) for g, e in head.known.items()}
    found = indices(graph, known, scopes)
    body: Body = (Produce(edge.name, nest.step),)
    for name in relation.loads:
        t = plan.fusion.tensor(name)
        tile = stage_of(plan.fusion, graph, t).tile
        place = Place(
            plan, tile, found, Registers(work.shared.namer), {}, work, work.shared.namer, ZERO,
        )  # fmt: skip
        rule_for(plan.fusion, t)(place)
        body += tuple(place.body)
    for head in reversed(nest.heads):
        body = (_loop(head, (*head.entry, *scopes.leave(body))),)
    return Section("load", scopes.leave(body), registers=plan.registers(edge.producer))


def _loop(head: Head, body: Body) -> For:
    return For(head.var, head.start, head.stop, body, carries=head.carries, yields=head.yields)
