"""Tiles of groups whose rows only the device knows.

The schedule tiles a batch in which every matrix has as many rows as all groups together. Of those
tiles a group has the ones in which it has rows. They are dealt out at run time, as a dynamic split
says: to each CTA in growing order, each to one. Those that no group has rows in are dealt to
nobody. So the relation between loads and consumers is that of the batch, for any sizes of groups:
load step ``m`` of a CTA is step ``m % steps`` of its tile number ``m // steps``, whichever tile
that is.

Where groups share out what products sum over, every group has all tiles, and each of its tiles as
many load steps as the group has. Both sides take the steps of a tile in the same order, and the
number of them from the same entry of the queue: step ``m`` is the next one of the same tile, or the
first of the next, on both. An empty group has one step, whose operands are zeros.

Several kernels may share groups of rows or columns out (:class:`~wsched.fusion.Sharing`). What a
kernel has of a group is a group to it, nothing of what others take; all else is as it was.

Where small groups are delayed their tiles come behind those of all others: the same tiles in
another order, each still one CTA's.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowering.ground.errors import InternalError
from lowering.ground.expr import ONE, Expr, Var, ceildiv, maximum, substitute
from wsched.fusion import Groups, Merge, Split
from wsched.schedule.graph import Group, TransformGraph
from wsched.schedule.proof.work import Slots, Tail

__all__ = ["OfGroups", "batch_of_tiles", "chunk_of_step"]


@dataclass(frozen=True, slots=True)
class OfGroups:
    """Tiles of groups, one group behind the other; each cluster has every n-th of them.

    Args:
        tail: what ends both sides if all groups had all rows. ``index`` grows with what a CTA gets
            as well, so it ends early in the same way.
        group: what is dealt out: the tiles of the batch.
        batch: the matrices of the batch, of which ``group`` is made with ``tiles``.
        tiles: the tiles of one matrix.
        groups: what says how much each has.
        chunk: how much of that a load step covers, where it is summed over; else None.
    """

    tail: Tail
    group: Group
    batch: Group
    tiles: Group
    groups: Groups
    chunk: Expr | None = None

    splits = 1
    at_run_time = True
    ends_within_tiles = False
    fetching_warps = 1
    slots = None

    def tiles_of(self, rows: Expr) -> Expr:
        """How many tiles the kernel has of a group of which it has so many rows."""
        return substitute(self.tiles.extent, {Var(self.groups.along): rows})

    @property
    def most(self) -> Expr:
        """There are no more tiles than this: those of all rows, and a beginning for each group; or
        all tiles of each.
        """
        begun = self.tiles_of(ONE) * self.batch.extent
        if self.chunk is not None:
            return begun
        return self.tiles_of(Var(self.groups.along)) + begun

    def steps_of(self, size: Expr) -> Expr:
        """How many load steps a tile of a group of this size has."""
        if self.chunk is None:
            return self.tail.steps
        return maximum(ceildiv(size, self.chunk), 1)

    @property
    def load_stop(self) -> Expr:
        """As if a CTA had all tiles."""
        return self.most_steps

    @property
    def most_steps(self) -> Expr:
        """One CTA may have all tiles."""
        return self.most * self.tail.steps

    @property
    def most_clusters(self) -> Expr | None:
        """As many as there can be tiles."""
        return self.most

    def slots_of(self, tile: Expr) -> Slots:
        """InternalError: no tile is computed in parts."""
        raise InternalError("plan", "tiles of groups are computed in parts")

    @property
    def names(self) -> tuple[tuple[str, Expr], ...]:
        """The number of tiles that there can be."""
        return (("tiles", self.most),)

    @property
    def condition(self) -> str:
        """What holds of the tile that was handed over."""
        return f"group[{self.tail.item}] < {self.batch.extent}"

    def counted(self, loop: str) -> str:
        """The load loop."""
        return loop

    def share(self, loop: str) -> tuple[str, ...]:
        """Known at run time."""
        return ()


def batch_of_tiles(
    graph: TransformGraph, tiles: Group, groups: Groups
) -> tuple[Group, Group] | None:
    """The batch and the tiles of one of its matrices that ``tiles`` counts, all of one matrix and
    then of the next; None where it counts something else.
    """
    step = graph.producer(tiles)
    if step is None or not isinstance(step.transform, Merge) or step.transform.traversal:
        return None
    batch, inner = step.inputs
    whole = graph.producer(batch) is None and batch.extent == Var(groups.axis)
    return (batch, inner) if whole else None


def chunk_of_step(graph: TransformGraph, step: Group, groups: Groups) -> Expr | None:
    """How much of what groups share out each iteration of ``step`` covers; None where it is not
    one split of that.
    """
    made = graph.producer(step)
    if made is None or not isinstance(made.transform, Split) or made.outputs[0] != step:
        return None
    whole = made.inputs[0]
    own = graph.producer(whole) is None and whole.extent == Var(groups.along)
    return made.transform.factor if own else None
