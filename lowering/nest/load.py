"""Load sections: the nest of what fills a ring, walked from its root to its leaves.

It is the tree that is dumped. A loop on CTAs is an index; the loop that steps through stages
becomes those that it counts, slowest first (``LoadRelation.nest``); loops inside a stage are none,
the statement at a leaf stands for all their trips.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lowering.ground.errors import InternalError
from lowering.ground.expr import ZERO, Expr
from lowering.kernel.nodes import Body, For, Produce, Section
from lowering.nest.place import Place
from lowering.nest.registers import Registers
from lowering.nest.rules import rule_for
from lowering.nest.scope import Scopes, indices
from lowering.nest.stage import stage_of
from lowering.nest.work_loops import Head, WorkLoops
from wsched.fusion import TensorView
from wsched.schedule.nest import Leaf, Loop, Node, nest
from wsched.schedule.plan import Edge, Plan
from wsched.schedule.primitives.circular_buffer import serial_left_of_slice
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
    walk = _Walk(plan, edge, work, Scopes(work.shared))
    walk.scopes.enter()
    body = walk.body(nest(plan.fusion, plan.graph, plan.parts[edge.producer].tensors))
    return Section("load", walk.scopes.leave(body), registers=plan.registers(edge.producer))


@dataclass
class _Walk:
    """The place in the tree; ``known`` has the index of the groups of the loops around."""

    plan: Plan
    edge: Edge
    work: WorkLoops
    scopes: Scopes
    known: dict[Group, Expr] = field(default_factory=dict)
    filled: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        first = self.plan.fusion.tensor(self.edge.relation.loads[0])
        (at,) = serial_left_of_slice(first)
        self.step = self.plan.graph.group(first.loop[at])

    def body(self, nodes: tuple[Node, ...]) -> Body:
        """The nodes of the same loops, one after the other."""
        out: Body = ()
        for node in nodes:
            out += self.loop(node) if isinstance(node, Loop) else self.leaf(node)
        return out

    def loop(self, node: Loop) -> Body:
        """A loop, by what runs its iterations."""
        d, at = node.domain, self.plan.graph.group(node.domain)
        if at == self.step:
            return self.stepping(node)
        self.known[at] = CTA_INDEX.get(d.parallel, ZERO)
        return self.body(node.body)

    def stepping(self, node: Loop) -> Body:
        """The loops that the load loop counts, and in them the loads of one step."""
        relation = self.edge.relation
        steps = self.work.loads(relation)
        self.known |= steps.known
        for head in steps.heads:
            self.scopes.enter(head.var, *head.defined)
            self.known |= {g: self.scopes.bind(g.label, e) for g, e in head.known.items()}
        body: Body = (Produce(self.edge.name, steps.step), *self.body(node.body))
        if {*self.filled} != {*relation.loads}:
            why = f"{self.edge.name} is filled with {self.filled}, not {relation.loads}"
            raise InternalError("lower", why)
        for head in reversed(steps.heads):
            body = (_loop(head, (*head.entry, *self.scopes.leave(body))),)
        return body

    def leaf(self, node: Leaf) -> Body:
        """The load of a tensor's box."""
        t, graph = node.tensor, self.plan.graph
        known = self.known | {graph.group(d): ZERO for d in t.loop[t.slice_position :]}
        found = indices(graph, known, self.scopes)
        place = self._place(t, found)
        rule_for(self.plan.fusion, t)(place)
        self.filled += (t.name,)
        return tuple(place.body)

    def _place(self, t: TensorView, found: dict[Group, Expr]) -> Place:
        shared = self.work.shared
        return Place(
            self.plan, stage_of(self.plan.fusion, self.plan.graph, t).tile, found,
            Registers(shared.namer), {}, self.work, self.scopes, ZERO,
        )  # fmt: skip


def _loop(head: Head, body: Body) -> For:
    return For(head.var, head.start, head.stop, body, carries=head.carries, yields=head.yields)
