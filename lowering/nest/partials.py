"""Tiles that several CTAs compute parts of: who completes one, and where the other parts lie.

Every part of a tile but one is written to a slot of the workspace; the CTA that has the remaining
part waits for the others and adds them to its accumulators in the order of the slots, so that the
same launch gives the same bits. Then it computes the epilogue.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lowering.ground.expr import ZERO, Binary, Const, Expr, Special, Var, binary, select
from lowering.ground.types import FragmentType
from lowering.kernel.kernel import CounterArray, Workspace
from lowering.kernel.nodes import (
    Await,
    Body,
    Carry,
    For,
    Frag,
    FragAddPartial,
    FragStorePartial,
    If,
    PartialRef,
    Publish,
)
from lowering.nest.scope import Namer, Scopes
from lowering.nest.work import InTurn
from wsched.schedule.proof.relation import LoadRelation

__all__ = ["PartialResults", "partial_results"]


@dataclass(frozen=True, slots=True)
class PartialResults:
    """Where the parts of tiles go.

    Args:
        relation: of the operands, with stream-K or split-K.
        workspace: a slot for each warpgroup's part of a tile.
        flags: counters, as many as slots; that of a tile's meeting slot counts the parts published.
        pieces: warpgroups that share a tile; each has slots of its own.
    """

    relation: LoadRelation
    workspace: Workspace
    flags: CounterArray
    pieces: int

    def combine(
        self, scopes: Scopes, tile: Expr, piece: Expr, total: Frag, summed: Frag, epilogue: Body
    ) -> Body:
        """What follows the main loop of a tile.

        Args:
            scopes: the statement lists around.
            tile: with stream-K the number of the tile, with split-K how many this CTA had before.
            piece: which of the warpgroups that share the tile.
            total: its accumulators.
            summed: what becomes of them; all of the sum where this CTA completes the tile.
            epilogue: of ``summed``.
        """
        shared, name = scopes.shared, self.workspace.name
        namer, slots = shared.namer, self._slots(tile)
        slot = Var(namer.new("slot"))
        completes, whether = scopes.let("completes", slots.completes)
        before, after = (replace(total, name=namer.new(n)) for n in ("partial", "added"))
        own, other, meeting = (
            PartialRef(name, at * self.pieces + piece)
            for at in (shared.apply(slots.own), slot, shared.apply(slots.meeting))
        )
        first = shared.apply(slots.first)
        others = select(completes, shared.apply(slots.others), ZERO)
        count, how_many = scopes.let("others", others)
        add = For(
            slot, first, first + count * slots.step, (FragAddPartial(after, before, other),),
            step=Const(slots.step), carries=(Carry(before, total, summed),), yields=(after,),
        )  # fmt: skip
        give = (FragStorePartial(own, summed), Publish(meeting))
        return (
            *whether,
            *how_many,
            If(count > ZERO, (Await(meeting, count),)),
            add,
            If(completes, epilogue, give),
        )

    def _slots(self, tile: Expr) -> _Slots:
        interval, others = self.relation.interval, self.relation.splits - 1
        cta, ctas = Special("ctaid.x"), Special("nctaid.x")
        if interval is None:
            first, z = (tile * ctas + cta) * others, Special("ctaid.z")
            return _Slots(first + z, first, 1, ZERO + others, first, z.eq(others))
        # Slots follow the shares; the place in the cluster is counted from its end.
        own, size = interval.place, interval.size
        opens = tile * interval.per_tile
        owner = opens // interval.share * size + own % size
        rest = (opens + interval.per_tile - 1) // interval.share - interval.index
        completes = interval.start <= opens
        return _Slots(own, own + size, size, rest, owner, completes)


@dataclass(frozen=True, slots=True)
class _Slots:
    """Of one tile.

    Args:
        own: where this CTA stores its part.
        first: where the others' parts begin, if this CTA completes the tile.
        step: from one of them to the next.
        others: how many there are.
        meeting: the slot at whose counter they are published.
        completes: whether this CTA completes the tile.
    """

    own: Expr
    first: Expr
    step: int
    others: Expr
    meeting: Expr
    completes: Expr


def partial_results(work: InTurn, fragment: FragmentType, namer: Namer) -> PartialResults | None:
    """Where the parts of tiles go; None where each tile is computed by one CTA.

    Args:
        work: where tiles come from.
        fragment: what a warpgroup holds of a tile.
        namer: of everything in the kernel.
    """
    relation = work.operands
    if not relation.combines:
        return None
    slots: Expr = Var("ctas")
    if relation.interval is None:
        slots = slots * _on_host(work.items()) * (relation.splits - 1)
    pieces = relation.consumers
    workspace = Workspace(namer.new("parts"), fragment.rows, fragment.cols, slots * pieces)
    flags = CounterArray(namer.new("ready"), slots * pieces)
    return PartialResults(relation, workspace, flags, pieces)


def _on_host(e: Expr) -> Expr:
    """``e`` with the number of CTAs as the launch calls it."""
    match e:
        case Special("nctaid.x"):
            return Var("ctas")
        case Binary(op, a, b):
            return binary(op, _on_host(a), _on_host(b))
    return e
