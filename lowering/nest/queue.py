"""Tiles that are dealt out at run time: every section reads from the queue which one is next.

What the legality relation says of load steps stands: step ``m`` is step ``m % steps`` of the CTA's
tile number ``m // steps``. Only which tile that is, and that there is none any more, comes from the
queue, so a load section is a nest from the start: its tile is read once, not once a step.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowering.ground.errors import InternalError, UnsupportedError
from lowering.ground.expr import ZERO, Expr, Var, substitute
from lowering.ground.poly import poly
from lowering.kernel.kernel import TileQueue
from lowering.kernel.nodes import Body, Break, FetchTiles, For, NextTile, Section
from lowering.nest.scope import Shared
from wsched.fusion import Merge, Split
from wsched.schedule.proof.graph import Group, TransformGraph
from wsched.schedule.proof.relation import LoadRelation, Tail

__all__ = ["DealtTiles", "LoadNest"]

STAGES = 2
"""Entries of a queue: one for the tile that is loaded while another is computed, and one that is on
its way. More would claim tiles earlier than they are needed."""


@dataclass(frozen=True, slots=True)
class LoadNest:
    """The loops of a load section: over the CTA's tiles, and over the load steps of one.

    Args:
        step: the load step.
        known: index of the groups that the loops and the queue say.
        entry: the statements that read which tile is next, or leave the outer loop.
        tile: number of the tile among the CTA's, the outer loop.
        stop: bound of the outer loop.
        inner: step of the tile, the inner loop.
        steps: of a tile.
    """

    step: Expr
    known: dict[Group, Expr]
    entry: Body
    tile: Var
    stop: Expr
    inner: Var
    steps: Expr

    def loop(self, lets: Body, body: Body) -> For:
        """``for tile: entry, lets, for inner: body``."""
        inside = For(self.inner, ZERO, self.steps, body)
        return For(self.tile, ZERO, self.stop, (*self.entry, *lets, inside))


@dataclass(frozen=True, slots=True)
class DealtTiles:
    """The queue of a kernel, and what its sections say to read from it.

    Args:
        queue: its declaration.
        group: loops whose index an entry is.
        tiles: how many tiles there are.
        graph: the transform graph.
        shared: names that all sections use.
    """

    queue: TileQueue
    group: Group
    tiles: Expr
    graph: TransformGraph
    shared: Shared

    @staticmethod
    def of(relation: LoadRelation, graph: TransformGraph, shared: Shared) -> DealtTiles | None:
        """None where tiles are dealt out in turn."""
        if not relation.dynamic:
            return None
        group = next(
            s.inputs[0] for s in graph.steps
            if isinstance(s.transform, Split) and s.transform.dynamic
        )  # fmt: skip
        consumers = relation.roles if relation.cooperative else 1
        queue = TileQueue(shared.namer.new("queue"), STAGES, relation.roles, consumers)
        return DealtTiles(queue, group, shared.apply(group.extent), graph, shared)

    @property
    def stop(self) -> Expr:
        """Bound of loops over tiles, which end before: one for each tile, one for the end."""
        return self.tiles + 1

    def next(self, number: Expr) -> tuple[Var, Body]:
        """Tile ``number`` of the CTA, and the statements that read it or leave the loop."""
        tile = Var(self.shared.namer.new("dealt"))
        return tile, (NextTile(tile, self.queue.name, number), Break(self.tiles <= tile))

    def next_of(self, tail: Tail | None, loops: dict[Var, Expr]) -> tuple[Var, Body]:
        """The same for compute's loops."""
        if tail is None:
            raise InternalError("lower", "tiles are dealt out, but nothing ends the loops")
        return self.next(substitute(tail.item, loops))

    def nest(self, relation: LoadRelation) -> LoadNest:
        """Loops in place of the one over ``relation.loop``.

        Raises:
            UnsupportedError: the load loop has no tile and its steps as its parts.
        """
        whole = self.graph.producer(self.graph.group(relation.loop))
        steps = relation.tail.steps if relation.tail is not None else ZERO
        if whole is None or not isinstance(whole.transform, Merge) or (
            poly(whole.inputs[1].extent) != poly(steps)
        ):  # fmt: skip
            raise UnsupportedError(
                f"tiles that are dealt out at run time with the load loop {relation.loop.label}",
                "a load loop that was merged from tiles and the steps of a tile",
            )
        part = whole.inputs[1]
        tile, inner = (Var(self.shared.namer.new(name)) for name in ("turn", part.label))
        count = self.shared.apply(steps)
        dealt, entry = self.next(tile)
        known: dict[Group, Expr] = {part: inner, self.group: dealt}
        return LoadNest(tile * count + inner, known, entry, tile, self.stop, inner, count)

    def fetch_section(self, registers: int | None) -> Section:
        """What takes tiles, a load section of its own."""
        return Section("load", (FetchTiles(self.queue.name, self.tiles),), registers=registers)
