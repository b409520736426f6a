"""Tiles that several CTAs compute parts of: who completes one, and where the other parts lie.

Every part of a tile but one is written to a slot of the workspace; the CTA that has the remaining
part waits for the others and adds them to its accumulators in the order of the slots, so that the
same launch gives the same bits. Then it computes the epilogue.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lowering.ground.expr import ZERO, Const, Expr, Special, Var, parts_of, select, substitute
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
from wsched.schedule.proof.relation import LoadRelation
from wsched.schedule.proof.work import Work

__all__ = ["PartialResults", "partial_results"]


@dataclass(frozen=True, slots=True)
class PartialResults:
    """Where the parts of tiles go.

    Args:
        work: where tiles come from; it cuts them.
        workspace: a slot for each warpgroup's part of a tile.
        flags: counters, as many as slots; that of a tile's meeting slot counts the parts published.
        pieces: warpgroups that share a tile; each has slots of its own.
    """

    work: Work
    workspace: Workspace
    flags: CounterArray
    pieces: int

    def may_lack(self, steps: Expr) -> bool:
        """Whether a CTA may have no step of a tile that others have steps of, by how many it has.
        Its registers hold what it completed before, the others' parts too: no step overwrites them.
        """
        within = self.work.ends_within_tiles  # there a CTA has a step of each tile that it visits
        return not within and any(isinstance(e, Special) for e in parts_of(steps))

    def combine(
        self, scopes: Scopes, tile: Expr, piece: Expr, total: Frag, summed: Frag, epilogue: Body
    ) -> Body:
        """What follows the main loop of a tile.

        Args:
            scopes: the statement lists around.
            tile: its number, as the work counts.
            piece: which of the warpgroups that share the tile.
            total: its accumulators.
            summed: what becomes of them; all of the sum where this CTA completes the tile.
            epilogue: of ``summed``.
        """
        shared, name = scopes.shared, self.workspace.name
        namer, slots = shared.namer, self.work.slots_of(tile)
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


def partial_results(
    relation: LoadRelation, fragment: FragmentType, namer: Namer
) -> PartialResults | None:
    """Where the parts of tiles go; None where each tile is computed by one CTA.

    Args:
        relation: of the operands.
        fragment: what a warpgroup holds of a tile.
        namer: of everything in the kernel.
    """
    if relation.work.slots is None:
        return None
    slots = substitute(relation.work.slots, {Special("nctaid.x"): Var("ctas")})
    pieces = relation.warpgroups.taking
    rows, cols, dtype = fragment.rows, fragment.cols, fragment.dtype
    workspace = Workspace(namer.new("parts"), rows, cols, slots * pieces, dtype)
    flags = CounterArray(namer.new("ready"), slots * pieces)
    return PartialResults(relation.work, workspace, flags, pieces)
