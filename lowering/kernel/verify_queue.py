"""Which rings hand out tiles. Part of ``verify``."""

from __future__ import annotations

from collections.abc import Iterator

from lowering.kernel.kernel import Kernel, Ring
from lowering.kernel.nodes import FetchTiles
from lowering.kernel.rules import about

__all__ = ["RULES"]


def _teams(kernel: Kernel, stmt: FetchTiles) -> Iterator[str]:
    """Teams ask for entries when they like, each for every so many. With fewer stages than teams a
    stage would be filled again for others between two entries of one team, whose parity is then
    that of the entry before the one it waits for.
    """
    ring = kernel.find(Ring, stmt.ring)
    if ring is not None and ring.stages < ring.teams:
        yield (
            f"{ring.name} has {ring.stages} stages for {ring.teams} teams, each of which takes "
            "entries of its own: it needs as many"
        )


RULES = (about(_teams, FetchTiles),)
"""Of what hands out tiles."""
