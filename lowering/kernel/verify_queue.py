"""Which rings hand out tiles. Part of ``verify``."""

from __future__ import annotations

from collections.abc import Iterator

from lowering.kernel.kernel import Kernel, Ring
from lowering.kernel.nodes import FetchTiles, Stmt

__all__ = ["queue_rules"]


def queue_rules(kernel: Kernel, stmt: Stmt) -> Iterator[str]:
    """Rules that one statement breaks.

    Teams ask for entries when they like, each for every so many. With fewer stages than teams a
    stage would be filled again for others between two entries of one team, whose parity is then
    that of the entry before the one it waits for.
    """
    ring = kernel.find(Ring, stmt.ring) if isinstance(stmt, FetchTiles) else None
    if ring is not None and ring.stages < ring.teams:
        yield (
            f"{ring.name} has {ring.stages} stages for {ring.teams} teams, each of which takes "
            "entries of its own: it needs as many"
        )
