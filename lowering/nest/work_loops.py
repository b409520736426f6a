"""The loops that follow from where a CTA's tiles come from (``Plan.work``).

Each kind of work has its own, with one interface, in a file of its name. The compute
side asks for each of its serial loops what it counts; the load side gets a nest of its own, over
the same digits, in which the loops that warpgroups take turns in are serial.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from lowering.ground.expr import ONE, Expr, Var, free_vars
from lowering.kernel.kernel import Storage
from lowering.kernel.nodes import Body, Carry, Event, For, Section
from lowering.nest.counter import Counter
from lowering.nest.scope import Shared
from wsched.fusion import IterDomain
from wsched.schedule.graph import Group
from wsched.schedule.proof.relation import LoadRelation

__all__ = ["BEGIN", "END", "FIRST", "STEPS", "Head", "LoadNest", "WorkLoops"]

END = Group(-1, "end", ONE)
"""Stands for the row or column of the caller's tensors at which the group ends."""

FIRST = Group(-2, "first", ONE)
"""Stands for the row or column of the batch's matrix at which the group begins, all of them ending
there; or where it is summed over, for the row of the group at which its first load step begins, not
behind 0, so that the last one ends with the group.
"""

BEGIN = Group(-3, "begin", ONE)
"""Stands for the row of the caller's tensors at which a group begins that is summed over."""

STEPS = Group(-4, "steps", ONE)
"""Stands for how many load steps such a group has."""


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

    def chooses(self, tile: Expr) -> bool:
        """Whether the number of a tile depends on what the loop binds."""
        return not free_vars(tile).isdisjoint((self.var, *self.defined))

    def loop(self, body: Body, event: Event | None) -> For:
        """The loop over ``body``, which is ``event`` to a tile."""
        return For(
            self.var, self.start, self.stop, (*self.entry, *body),
            carries=self.carries, yields=self.yields, event=event,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class LoadNest:
    """The loops of a load section.

    Args:
        heads: outermost first.
        step: the load step in their variables.
        tile: the number of the tile that they are at, None if they do not determine it.
        known: index of groups that have only one.
    """

    heads: tuple[Head, ...]
    step: Expr
    tile: Expr | None
    known: Mapping[Group, Expr] = field(default_factory=dict)


class WorkLoops(Protocol):
    """The loops of both sides, for one kind of work; made once a kernel."""

    @property
    def shared(self) -> Shared:
        """Names that all sections use."""

    @property
    def counters(self) -> tuple[Counter, ...]:
        """What the compute side's loops count."""

    def on_ctas(self, d: IterDomain) -> Expr:
        """Index of a loop of the compute side that runs on CTAs."""

    def loop(self, counter: Counter, turn: Expr) -> Head:
        """A serial loop of the compute side that steps through the operands' ring.

        Args:
            counter: what it counts.
            turn: which of those warpgroups this is that take turns in it.
        """

    def step(self, relation: LoadRelation, found: Mapping[Group, Expr]) -> Expr | None:
        """The load step that an iteration consumes.

        Args:
            relation: of the ring.
            found: index of each group there.

        Returns:
            None if they do not determine it.
        """

    def ordinal(self, known: Mapping[Group, Expr]) -> Expr | None:
        """The number of the tile that the loops are at, as ``Work.slots_of`` counts; None as
        above.
        """

    def earlier(self, known: Mapping[Group, Expr]) -> Expr | None:
        """How many tiles the CTA had before the one that the loops are at; None as above."""

    def loads(self, relation: LoadRelation) -> LoadNest:
        """The loops that fill a ring."""

    @property
    def storage(self) -> tuple[Storage, ...]:
        """What they need beside the plan's rings."""

    def sections(self, registers: int | None) -> tuple[Section, ...]:
        """Load sections beside those that fill the plan's rings."""
