"""The sections of parts that compute: the nest of each, walked from its root to its leaves.

Each loop of the tree becomes what runs its iterations: a CTA, a warpgroup, a loop of the kernel, or
nothing, where a statement stands for all of them at once. At each leaf a rule gives the statements.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from lowering.ground.dtypes import DType
from lowering.ground.expr import FALSE, ONE, ZERO, Const, Expr, Var, binary, substitute
from lowering.ground.types import FragmentType
from lowering.kernel.nodes import (
    Body,
    Carry,
    Consume,
    Event,
    For,
    Frag,
    FragFill,
    If,
    Section,
    Stmt,
)
from lowering.kernel.reduction import NEUTRAL
from lowering.kernel.visit import used_in, walk
from lowering.nest.accumulator import require_summed_on_z, rounded_away
from lowering.nest.at_once import PARTS, AtOnce
from lowering.nest.cluster import constant
from lowering.nest.computing import Computing
from lowering.nest.counted import require_parts, require_perfect
from lowering.nest.counter import Counter
from lowering.nest.domains import summed
from lowering.nest.leading import led
from lowering.nest.partials import PartialResults
from lowering.nest.place import Place
from lowering.nest.refusal import refused
from lowering.nest.registers import Registers
from lowering.nest.rules import lower_leaf
from lowering.nest.scope import Scopes
from lowering.nest.steps import steps_of
from lowering.nest.work_loops import Head, WorkLoops
from wsched.fusion import IterDomain, IterType, ParallelType, ReductionOp, TensorView
from wsched.schedule.graph import Group
from wsched.schedule.plan import Plan
from wsched.schedule.proof.nest import Leaf, Loop, Node, leaves, nest
from wsched.schedule.proof.sides import CTA_INDEX, ROLES

__all__ = ["compute_section"]

_RUN = "BIDx, BIDy, BIDz, TIDy, TIDz, serial and unrolled loops"


def compute_section(
    plan: Plan,
    part: Computing,
    work: WorkLoops,
    partials: PartialResults | None,
) -> Section:
    """What a part computes.

    Args:
        plan: the schedule.
        part: which of its parts.
        work: where tiles come from.
        partials: where parts of tiles go, if there are any.

    Raises:
        UnsupportedError: no rule covers what stands at a leaf, or runs a loop.
    """
    return _Walk(plan, part, work, partials).section()


@dataclass
class _Walk:
    """The place in the tree, with what is known there.

    Args:
        known: index of the groups of the loops around.
        again: whether this is not the first trip of the loops around that are summed over.
        covered: groups of the loops around that a statement stands for.
        counted: of the load nest, the loops that loops around count.
        roles: index of each loop of the part's main reader that runs on warpgroups.
        registers: the tensors in registers.
    """

    plan: Plan
    part: Computing
    work: WorkLoops
    partials: PartialResults | None
    known: dict[Group, Expr] = field(default_factory=dict)
    again: Expr = FALSE
    covered: frozenset[Group] = frozenset()
    counted: frozenset[Group] = frozenset()
    roles: dict[Var, Expr] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.graph, self.namer = self.plan.graph, self.work.shared.namer
        self.scopes = Scopes(self.work.shared)
        self.accumulators = self.part.accumulators
        self.registers = Registers(self.namer)
        self.warpgroups = self.part.main.warpgroups
        self.counters = {
            self.graph.group(s.domain): c for c in self.work.counters for s in (*c.serial, *c.roles)
        }
        self.group = Var(self.namer.new("group"))
        self.found: dict[tuple[tuple[Group, Expr], ...], dict[Group, Expr]] = {}

    def section(self) -> Section:
        """The whole section."""
        nodes = nest(self.plan.fusion, self.graph, self.part.tensors)
        self.at_once = AtOnce(self.plan, nodes, self.accumulators)
        # The first wgmma of a tile overwrites, so one clearing of registers serves K = 0, unless
        # they have to be free in between.
        self.rounded_away = rounded_away(self.plan.fusion, self.accumulators)
        zeros = [Frag(self.namer.new("zero"), a.kind) for a in self.part.held]
        for accumulator, zero in zip(self.part.held, zeros, strict=True):
            self.registers.hold(accumulator.tile, zero)
        self.scopes.enter(self.group)
        for d in self.lead.loop:
            if d.parallel in ROLES:
                self.roles[Var(d.name)] = self.on_warpgroup(d)
        entry = self.part.main.entry
        self.scopes.enter(branch=entry is not None)
        body = self.scopes.leave(self.body(nodes, 0))
        self._require_one_wait(body)
        body = led(self.plan, body, self.namer) if self.part.issued else body
        if entry is not None:
            body = (If(self.work.shared.apply(substitute(entry, self.roles)), body),)
        read = used_in(body)
        filled = tuple(FragFill(zero, 0.0) for zero in zeros if zero.name in read)
        return Section(
            self.part.name,
            (*filled, *self.scopes.leave(body)),
            self.warpgroups.count,
            None if self.part.issued else self.group,
            self.part.registers,
        )

    @property
    def lead(self) -> TensorView:
        """The tensor whose loops are the part's: its first sum, or what reads its main ring."""
        if self.accumulators:
            return self.accumulators[0].tensor
        return self.plan.fusion.tensor(self.part.main.compute)

    def _require_one_wait(self, body: Body) -> None:
        """What reads a step of a ring stands in one statement list, at whose end it is released."""
        waits = [s.ring for s in walk(body) if isinstance(s, Consume)]
        for ring, relation in dict(self.part.rings.values()).items():
            if relation.readers[1:] and waits.count(ring) > 1:
                t = self.plan.fusion.tensor(relation.readers[-1])
                names = " and ".join(relation.readers)
                what = (
                    f"a step of {', '.join(relation.loads)} read by {names} in loops of their own"
                )
                raise refused(t, what, "readers in the same loops")

    def on_warpgroup(self, d: IterDomain) -> Expr:
        """Index of a loop that runs on warpgroups."""
        return self.scopes.bind(d.label, self.warpgroups.index(d.parallel, self.group))

    def body(self, nodes: tuple[Node, ...], depth: int) -> Body:
        """The nodes in the same ``depth`` loops, one after the other."""
        out: list[Stmt] = []
        for n, node in enumerate(nodes):
            out += self.node(node, depth)
            if self.partials is not None and self._completes(node, depth):
                return (*out, *self.combined(self.partials, nodes[n + 1 :], depth))
        return tuple(out)

    def _completes(self, node: Node, depth: int) -> bool:
        t = self.lead
        return depth == t.compute_at and t in leaves(node)

    def combined(self, partials: PartialResults, rest: tuple[Node, ...], depth: int) -> Body:
        """What follows the main loop where several CTAs have parts of a tile."""
        t = self.lead.name
        total = self.registers.held[t]
        whole = Frag(self.namer.new("sum"), total.value.type)
        self.registers.hold(total.tile, whole)
        outer = self.registers
        self.registers = outer.inner()
        self.scopes.enter(branch=True)
        epilogue = self.scopes.leave(self.body(rest, depth))
        self.registers = outer
        piece: Expr = ZERO
        if (tile := self.work.ordinal(self.known)) is None:
            why = "tiles that the loops around their parts do not count"
            raise refused(self.lead, why, "loops that count the load loop's tiles")
        for d in self.lead.loop:
            sharing = d.parallel in ROLES and self.graph.group(d) not in self.counters
            if sharing and d.extent != ONE:
                piece = piece * d.extent + self.roles[Var(d.name)]
        return partials.combine(self.scopes, tile, piece, total.value, whole, epilogue)

    def node(self, node: Node, depth: int) -> Body:
        """The statements of a loop or leaf."""
        if isinstance(node, Leaf):
            return self.leaf(node.tensor)
        before, self.known = (self.known, self.again, self.covered, self.counted), dict(self.known)
        body = self.loop(node, depth)
        self.known, self.again, self.covered, self.counted = before
        return body

    def loop(self, node: Loop, depth: int) -> Body:
        """A loop, by what runs its iterations."""
        d, at = node.domain, self.graph.group(node.domain)
        counter = self.counters.get(at)
        if d.parallel in CTA_INDEX:
            require_summed_on_z(node.tensor, d, self.accumulators, self.graph)
            self.known[at] = ZERO if d.extent == ONE else self.work.on_ctas(d)
        elif d.parallel in ROLES:
            if counter is None:
                self.known[at] = self.on_warpgroup(d)
            elif not counter.serial:
                self.known[counter.loop.group] = self._turn(counter)
        elif d.parallel not in PARTS:
            what = f"loop {d.label} {d.extent} [{d.parallel}] of {node.tensor.name}"
            raise refused(node.tensor, what, _RUN)
        elif counter is not None:
            if counter.loop.group not in self.counted:
                return self.counting(node, counter, depth)
        elif d.extent == ONE or self.at_once.covers(node, depth):
            self.known[at] = ZERO
            self.covered |= {at}
        else:
            return self.unrolled(node, depth)
        return self.body(node.body, depth + 1)

    def _turn(self, counter: Counter) -> Expr:
        """Which of the warpgroups that take turns in a loop this is."""
        turn = ZERO + 0
        for s in counter.roles:
            turn = turn * s.domain.extent + self.roles[s.var]
        return turn

    def counting(self, node: Loop, counter: Counter, depth: int) -> Body:
        """A loop that steps through the ring, with those inside it that count the same.

        It carries the accumulators that it adds to, unless these are cleared inside.
        """
        require_perfect(self.graph, node, counter)
        steps = self._steps(node)
        head = self.work.loop(counter, self._turn(counter))
        self.known |= head.known
        self.counted |= {counter.loop.group}
        require_parts(self.plan, node, counter)
        over_k = all(summed(self.lead, s.domain) for s in counter.serial)
        if over_k:
            self.again = binary("or", self.again, head.start < head.var)
        event = self._event(counter, head)
        outer, self.registers = self.registers, self.registers.inner()
        carries = []
        lacks = self.partials is not None and self.partials.may_lack(head.stop)
        cleared = over_k and (lacks or self.rounded_away)
        tiles = [a.tile for a in self.part.held if over_k or not self.rounded_away]
        for tile in tiles:
            value = outer.held[tile.tensor.name].value
            if cleared:
                value = Frag(self.namer.new("none"), value.type)
                steps = (*steps, FragFill(value, 0.0))
            inside, after = (
                Frag(self.namer.new(n), value.type)
                for n in (("acc", "total") if over_k else ("before", "last"))
            )
            self.registers.hold(tile, inside)
            carries.append(Carry(inside, value, after))
            outer.hold(tile, after)
        self.scopes.enter(head.var, *head.defined)
        body = self.scopes.leave(self.body(node.body, depth + 1))
        last = [self.registers.held[tile.tensor.name].value for tile in tiles]
        self.registers = outer
        loop = head.loop(body, event)
        carried = (*carries, *loop.carries), (*last, *loop.yields)
        return (*steps, replace(loop, carries=carried[0], yields=carried[1]))

    def _event(self, counter: Counter, head: Head) -> Event | None:
        """What a loop is to a tile. One that chooses the tile is nothing, unless it is all that a
        part without sums counts.
        """
        tile = self.work.earlier(self.known)
        if tile is None:
            return None
        inner = self.work.counters[self.work.counters.index(counter) + 1 :]
        if head.chooses(tile) and (self.accumulators or any(c.serial for c in inner)):
            return None
        return Event(self.part.event, tile)

    def unrolled(self, node: Loop, depth: int) -> Body:
        """A loop over parts of what is in registers, whose numbers the compiler has to know."""
        d, inside = node.domain, list(leaves(node))
        for t in (a.tensor for a in self.accumulators if a.tensor in inside):
            what = f"loop {d.label} {d.extent} [{d.parallel}] of {t.name}"
            raise refused(t, what, "loops that step through a ring, or repeat an instruction")
        count = constant(d.extent, f"{node.tensor.name}: {d.label}")
        var = Var(self.namer.new(d.label))
        steps = self._steps(node)
        self.known[self.graph.group(d)] = var
        outer, self.registers = self.registers, self.registers.inner()
        begin, carries, reduced = self._reduced_over(d, inside, outer)
        self.scopes.enter(var)
        body = self.scopes.leave(self.body(node.body, depth + 1))
        last = tuple(self.registers.held[name].value for name in reduced)
        self.registers = outer
        loop = For(var, ZERO, Const(count), body, unroll=True, carries=carries, yields=last)
        return (*steps, *begin, loop)

    def _reduced_over(
        self, d: IterDomain, tensors: list[TensorView], outer: Registers
    ) -> tuple[Body, tuple[Carry, ...], tuple[str, ...]]:
        """What a loop carries: the tensors that are reduced over it; and what is in front of it."""
        begin: list[FragFill] = []
        carries, names = [], []
        for t in tensors:
            e = self.plan.fusion.definition(t.name)
            mine = [x for x in t.loop if self.graph.group(x) == self.graph.group(d)]
            if not isinstance(e, ReductionOp) or not all(summed(t, x) for x in mine):
                continue
            tile = self.at_once.tile(t)
            held = outer.held.get(t.name)
            *_, rows, cols = tile.sizes
            kind = FragmentType(DType.F32, rows, cols, layout=self.plan.target.mma.layout)
            if held is None:
                begin.append(FragFill(Frag(self.namer.new("none"), kind), NEUTRAL[e.op]))
            first = begin[-1].out if held is None else held.value
            before, after = (Frag(self.namer.new(n), kind) for n in ("so_far", "reduced"))
            self.registers.hold(tile, before)
            outer.hold(tile, after)
            carries.append(Carry(before, first, after))
            names.append(t.name)
        return tuple(begin), tuple(carries), tuple(names)

    def leaf(self, t: TensorView) -> Body:
        """The statements of a rule."""
        mine = next((a.tile for a in self.accumulators if a.tensor.name == t.name), None)
        tile = mine or self.at_once.tile(t)
        if mine is None and t.name not in self.part.rings:
            self._require_inlined(t)
        known = self.known | {self.graph.group(d): ZERO for d in tile.domains}
        place = Place(
            self.plan, tile, self._found(known), self.registers, self.part.rings, self.work,
            self.scopes, self.again, self.group,
        )  # fmt: skip
        lower_leaf(place)
        return tuple(place.body)

    def _found(self, known: dict[Group, Expr]) -> dict[Group, Expr]:
        """Index of every group that those of ``known`` determine."""
        key = tuple(sorted(known.items(), key=lambda item: item[0].id))
        if key not in self.found:
            self.found[key] = self.scopes.indices(self.graph, known)
        return self.found[key]

    def _steps(self, node: Loop) -> Body:
        """What stands in front of a loop because of the steps of rings inside it."""

        def found() -> dict[Group, Expr]:
            turns = {c.loop.group: self._turn(c) for c in self.work.counters if not c.serial}
            return self._found(turns | self.known)

        return steps_of(node, self.plan, self.part, self.work, self.registers, found)

    def _require_inlined(self, t: TensorView) -> None:
        """What is read is still in registers: it is computed in the reader's loops."""
        loops = [
            p for p, d in enumerate(t.loop)
            if d.parallel is ParallelType.Serial and self.graph.group(d) not in self.covered
            and d.iter_type is not IterType.Reduction
        ]  # fmt: skip
        if self.plan.fusion.uses(t.name) and loops and loops[-1] >= t.compute_at:
            what = f"{t.name} inlined at {t.compute_at}"
            raise refused(t, what, f"at least {loops[-1] + 1}: read in the loops around it")
