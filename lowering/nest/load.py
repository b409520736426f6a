"""Load sections: the nest of what fills a ring, walked from its root to its leaves.

It is the tree that is dumped. A loop on CTAs is an index; the loop that steps through stages
becomes those that it counts, slowest first (``LoadRelation.nest``); loops inside a stage are none,
the statement at a leaf stands for all their trips.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lowering.ground.errors import InternalError
from lowering.ground.expr import ZERO, Expr, Var
from lowering.kernel.nodes import Body, Event, Produce, Section
from lowering.nest.place import Place
from lowering.nest.registers import Registers
from lowering.nest.rules import lower_leaf
from lowering.nest.scope import Scopes
from lowering.nest.tile import tile_of
from lowering.nest.work_loops import LoadNest, WorkLoops
from wsched.fusion import IterDomain, TensorView
from wsched.schedule.graph import Group
from wsched.schedule.plan import Edge, Plan
from wsched.schedule.primitives.circular_buffer import stepping_loops
from wsched.schedule.proof.loading import warpgroups_that_fill
from wsched.schedule.proof.nest import Leaf, Loop, Node, leaves, nest
from wsched.schedule.proof.sides import CTA_INDEX, ROLES
from wsched.schedule.warpgroups import Warpgroups

__all__ = ["load_section"]


def load_section(plan: Plan, edge: Edge, work: WorkLoops) -> Section:
    """What fills a ring.

    Args:
        plan: the schedule.
        edge: from the loads to what consumes them.
        work: where tiles come from.
    """
    filling = warpgroups_that_fill(plan.fusion, edge.relation.loads)
    walk = _Walk(plan, edge, work, Scopes(work.shared), filling)
    walk.scopes.enter(walk.group)
    body = walk.body(nest(plan.fusion, plan.graph, plan.parts[edge.producer].tensors))
    body, registers = walk.scopes.leave(body), plan.registers(edge.producer)
    if filling is None:
        return Section("load", body, registers=registers)
    return Section(f"load_{edge.name}", body, filling.count, walk.group, registers)


@dataclass
class _Walk:
    """The place in the tree; ``known`` has the index of the groups of the loops around, ``filling``
    the warpgroups whose threads fill the ring, if they do.
    """

    plan: Plan
    edge: Edge
    work: WorkLoops
    scopes: Scopes
    filling: Warpgroups | None
    known: dict[Group, Expr] = field(default_factory=dict)
    filled: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        first = self.plan.fusion.tensor(self.edge.relation.loads[0])
        (step,) = stepping_loops(first)
        self.step = self.plan.graph.group(step)
        self.group = Var(self.work.shared.namer.new("group"))

    def body(self, nodes: tuple[Node, ...]) -> Body:
        """The nodes of the same loops, one after the other: what TMA loads in front of what threads
        copy, since it takes its time alone.
        """
        threads = self.plan.fusion.loaded_by_threads
        out: Body = ()
        for node in sorted(nodes, key=lambda n: any(t.name in threads for t in leaves(n))):
            out += self.loop(node) if isinstance(node, Loop) else self.leaf(node)
        return out

    def loop(self, node: Loop) -> Body:
        """A loop, by what runs its iterations."""
        d, at = node.domain, self.plan.graph.group(node.domain)
        if at == self.step:
            return self.stepping(node)
        outside = dict(self.known)
        self.known[at] = CTA_INDEX.get(d.parallel, ZERO)
        body = self.body(node.body)
        self.known = outside  # what lies beside may have other loops of the same dimension
        return body

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
        events = _events(steps)
        for head, event in zip(reversed(steps.heads), reversed(events), strict=True):
            body = (head.loop(self.scopes.leave(body), event),)
        return body

    def leaf(self, node: Leaf) -> Body:
        """The load of a tensor's box."""
        t, graph = node.tensor, self.plan.graph
        inside = t.loop[t.slice_position :]
        known = self.known | {graph.group(d): self._index(d) for d in inside}
        found = self.scopes.indices(graph, known)
        place = self._place(t, found)
        lower_leaf(place)
        self.filled += (t.name,)
        return tuple(place.body)

    def _index(self, d: IterDomain) -> Expr:
        """Index of a loop inside a stage, for the first element of a warpgroup's part."""
        if d.parallel not in ROLES or self.filling is None:
            return ZERO
        return self.scopes.bind(d.label, self.filling.index(d.parallel, self.group))

    def _place(self, t: TensorView, found: dict[Group, Expr]) -> Place:
        shared = self.work.shared
        mine = [d for d in t.loop[t.slice_position :] if d.parallel not in ROLES]
        return Place(
            self.plan, tile_of(t, mine), found,
            Registers(shared.namer), {}, self.work, self.scopes, ZERO,
            None if self.filling is None else self.group,
        )  # fmt: skip


def _events(steps: LoadNest) -> tuple[Event | None, ...]:
    """Of each loop, what it is to a tile: the first one behind those that choose the tile loads
    it; if there is none, each trip of the last one does.
    """
    if steps.tile is None:
        return (None,) * len(steps.heads)
    chosen = [h.chooses(steps.tile) for h in steps.heads]
    behind = len(chosen) - chosen[::-1].index(True) if any(chosen) else 0
    at = min(behind, len(chosen) - 1)
    return tuple(Event("load", steps.tile) if n == at else None for n in range(len(chosen)))
