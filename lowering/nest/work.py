"""Where the tiles of a CTA come from: what both sides' loops count, and where they end.

Three kinds have one interface: tiles in turn (or one a CTA, or any other share that is known when
the CTA starts), tiles from a queue, and an interval of the load steps of all tiles. The compute
side asks for each of its serial loops what it counts; the load side gets a nest of its own, over
the same digits, in which the loops that warpgroups take turns in are serial.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from lowering.ground.expr import ONE, ZERO, Expr, Var, ceildiv, maximum
from lowering.kernel.nodes import Body, Carry
from lowering.nest.counter import Counter
from lowering.nest.scope import CTA_INDEX, Shared
from wsched.fusion import IterDomain
from wsched.schedule.proof.graph import Group, TransformGraph
from wsched.schedule.proof.relation import LoadLoop, LoadRelation

__all__ = ["Head", "InTurn", "LoadNest"]


@dataclass(frozen=True, slots=True)
class Head:
    """A serial loop without what stands in it.

    Args:
        var: the variable.
        start: its first value.
        stop: the value behind the last.
        known: index of the groups that the loop determines.
        entry: statements in front of its body, which may leave the loop.
        defined: what they define.
        carries: scalars that it carries.
        yields: what the body yields for them.
    """

    var: Var
    start: Expr
    stop: Expr
    known: Mapping[Group, Expr]
    entry: Body = ()
    defined: tuple[Var, ...] = ()
    carries: tuple[Carry, ...] = ()
    yields: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class LoadNest:
    """The loops of a load section.

    Args:
        heads: outermost first.
        step: the load step in their variables.
        known: index of groups that have only one.
    """

    heads: tuple[Head, ...]
    step: Expr
    known: Mapping[Group, Expr] = field(default_factory=dict)


@dataclass(frozen=True)
class InTurn:
    """Shares that a CTA knows when it starts: every n-th tile, neighbouring ones, or just one.

    Args:
        operands: the relation between the operands' loads and the mma.
        counters: what its loops count.
        graph: the transform graph.
        shared: names that all sections use.
    """

    operands: LoadRelation
    counters: tuple[Counter, ...]
    graph: TransformGraph
    shared: Shared = field(repr=False)

    def on_ctas(self, d: IterDomain) -> Expr:
        """Index of a loop of the compute side that runs on CTAs."""
        return CTA_INDEX[d.parallel]

    def loop(self, counter: Counter, turn: Expr) -> Head:
        """A serial loop of the compute side that steps through the operands' ring.

        Args:
            counter: what it counts.
            turn: which of those warpgroups this is that take turns in it.
        """
        var, turns = Var(self.shared.namer.new(counter.label)), self.turns(counter)
        stop, index = self.shared.apply(counter.loop.stop), var * turns + turn
        if counter.roles:
            stop = ceildiv(maximum(stop - turn, 0), turns)
        return Head(var, ZERO, stop, {counter.loop.group: index})

    def turns(self, counter: Counter) -> Expr:
        """How many warpgroups take turns in a loop."""
        return prod((s.domain.extent for s in counter.roles), start=ONE)

    def step(self, relation: LoadRelation, found: Mapping[Group, Expr]) -> Expr | None:
        """The load step that an iteration consumes.

        Args:
            relation: of the ring.
            found: index of each group there.

        Returns:
            None if they do not determine it.
        """
        return self._number(relation.nest, found)

    def ordinal(self, known: Mapping[Group, Expr]) -> Expr | None:
        """How many tiles the CTA had before the one that the loops are at; None as above."""
        return self._number([c.loop for c in self.counters if c.outside], known)

    def _number(self, loops: Sequence[LoadLoop], found: Mapping[Group, Expr]) -> Expr | None:
        number = ZERO + 0
        for loop in loops:
            if loop.group not in found and loop.stop != ONE:
                return None
            number = number * self.shared.apply(loop.stop) + found.get(loop.group, ZERO)
        return number

    def loads(self, relation: LoadRelation) -> LoadNest:
        """The loops that fill a ring: those that the load loop is made of.

        Where the consumers load for themselves it is a single loop, whose step they put in.
        """
        known = {loop.group: ZERO + 0 for loop in relation.nest if loop.stop == ONE}
        loops = [loop for loop in relation.nest if loop.stop != ONE]
        if not relation.warp_specialized:
            m = Var(self.shared.namer.new(relation.loop.label))
            rest: Expr = m
            for loop in reversed(loops[1:]):
                known[loop.group] = rest % loop.stop
                rest = rest // loop.stop
            known |= {loop.group: rest for loop in loops[:1]}
            return LoadNest((Head(m, ZERO, self.shared.apply(relation.load_stop), known),), m)
        heads = tuple(self._load_loop(relation, loop) for loop in loops)
        index = {loop.group: head.var for loop, head in zip(loops, heads, strict=True)}
        step = self._number(loops, index)
        return LoadNest(heads, ZERO if step is None else step, known)

    def _load_loop(self, relation: LoadRelation, loop: LoadLoop) -> Head:
        var = Var(self.shared.namer.new(loop.group.label))
        return Head(var, ZERO, self.shared.apply(loop.stop), {loop.group: var})

    def items(self) -> Expr:
        """How many tiles a CTA has at most: as many as the loops over them have iterations."""
        digits = self.operands.digits[: self.operands.outside]
        return prod((s.domain.extent for s in digits), start=ONE)
