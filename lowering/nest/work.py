"""Where the tiles of a CTA come from: what both sides' loops count, and where they end.

Three kinds have one interface: tiles in turn (or one a CTA, or any other share that is known when
the CTA starts), tiles from a queue, and an interval of the load steps of all tiles. The compute
side asks for each of its serial loops what it counts; the load side gets a nest of its own, over
the same digits, in which the loops that warpgroups take turns in are serial.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from lowering.ground.expr import ONE, ZERO, Expr, Var, substitute
from lowering.kernel.nodes import Body, Carry
from lowering.nest.scope import CTA_INDEX, Shared
from wsched.fusion import IterDomain
from wsched.schedule.proof.graph import Group, TransformGraph
from wsched.schedule.proof.relation import LoadLoop, LoadRelation, StepLoop

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
        graph: the transform graph.
        shared: names that all sections use.
    """

    operands: LoadRelation
    graph: TransformGraph
    shared: Shared = field(repr=False)

    def on_ctas(self, d: IterDomain) -> Expr:
        """Index of a loop of the compute side that runs on CTAs."""
        return CTA_INDEX[d.parallel]

    def on_warpgroups(self, d: IterDomain, index: Expr) -> dict[Group, Expr]:
        """What a loop that runs on warpgroups determines."""
        return {self.graph.group(d): index}

    def loop(self, step: StepLoop, vars: Mapping[Var, Expr]) -> Head:
        """A serial loop of the compute side that steps through the operands' ring.

        Args:
            step: the loop.
            vars: the loops around it, in the variables of the section.
        """
        var = Var(self.shared.namer.new(step.domain.label))
        stop = self.shared.apply(substitute(step.stop, vars))
        return Head(var, ZERO, stop, {self.graph.group(step.domain): var})

    def step(self, relation: LoadRelation, found: Mapping[str, Expr | None]) -> Expr:
        """The load step that an iteration consumes, from the index of each loop by its name."""
        known = {Var(name): e for name, e in found.items() if e is not None}
        return self.shared.apply(substitute(relation.index, known))

    def ordinal(self, vars: Mapping[Var, Expr]) -> Expr:
        """How many tiles the CTA had before the one that the loops are at."""
        number = ZERO + 0
        for s in self.operands.digits[: self.operands.outside]:
            number = number * s.domain.extent + substitute(s.var, vars)
        return number

    def loads(self, relation: LoadRelation) -> LoadNest:
        """The loops that fill a ring: those that the load loop is made of.

        Where the consumers load for themselves it is a single loop, whose step they put in.
        """
        if not relation.warp_specialized:
            m = Var(self.shared.namer.new(relation.loop.label))
            stop = self.shared.apply(relation.load_stop)
            return LoadNest((Head(m, ZERO, stop, {self.graph.group(relation.loop): m}),), m)
        heads: list[Head] = []
        step, known = ZERO + 0, dict[Group, Expr]()
        for loop in relation.nest:
            if loop.stop == ONE:
                known[loop.group] = ZERO
                continue
            heads.append(self._load_loop(relation, loop))
            step = step * self.shared.apply(loop.stop) + heads[-1].var
        return LoadNest(tuple(heads), step, known)

    def _load_loop(self, relation: LoadRelation, loop: LoadLoop) -> Head:
        var = Var(self.shared.namer.new(loop.group.label))
        return Head(var, ZERO, self.shared.apply(loop.stop), {loop.group: var})

    def items(self) -> Expr:
        """How many tiles a CTA has at most: as many as the loops over them have iterations."""
        digits = self.operands.digits[: self.operands.outside]
        return prod((s.domain.extent for s in digits), start=ONE)
