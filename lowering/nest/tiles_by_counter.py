"""Tiles that are dealt out by a counter: who asks first gets the next one."""

from __future__ import annotations

from dataclasses import dataclass

from lowering.ground.expr import Expr
from lowering.kernel.kernel import Ring, Storage
from lowering.kernel.nodes import Body, FetchTiles
from lowering.nest.loops_from_queue import Word
from wsched.schedule.graph import Group

__all__ = ["TilesByCounter"]


@dataclass(frozen=True, slots=True)
class TilesByCounter:
    """Entries of one word, the tile's number.

    Args:
        group: loops whose index an entry is.
        tiles: how many tiles there are.
    """

    group: Group
    tiles: Expr

    remote = True

    @property
    def words(self) -> tuple[Word, ...]:
        """The tile."""
        return (Word(self.group, "tile", "dealt"),)

    @property
    def end(self) -> Expr:
        """The number of tiles."""
        return self.tiles

    @property
    def most(self) -> Expr:
        """One CTA may get all of them."""
        return self.tiles

    @property
    def storage(self) -> tuple[Storage, ...]:
        """Nothing: the counter is that of ``fetch.tiles``."""
        return ()

    def filling(self, queue: Ring) -> Body:
        """What takes tiles."""
        return (FetchTiles(queue.name, self.tiles),)
