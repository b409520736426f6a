"""Notes of when something happened; no kernel has them unless it is traced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lowering.ground.expr import Expr
from lowering.kernel.operands import Stmt
from lowering.kernel.traits import Memory, Threads, Traits

__all__ = ["CLOCKS", "PHASES", "Stamp"]

PHASES = ("begin", "end")
CLOCKS = ("clock64", "globaltimer")


@dataclass(frozen=True, slots=True)
class Stamp(Stmt):
    """One thread of the executing warp adds a record to the warp's part of a ``TraceBuffer``.

    ``event`` begins or ends here (``phase``). ``value`` is a number of 31 bits to tell the event
    from others of its name, such as the tile. ``clock`` is read first: ``clock64`` counts the SM's
    cycles, ``globaltimer`` the device's nanoseconds. It orders nothing.
    """

    OP: ClassVar[str] = "stamp"
    TRAITS: ClassVar[Traits] = Traits(threads=Threads.WARP, writes=Memory.TRACE, since="trace")
    buffer: str
    event: str
    phase: str
    value: Expr
    clock: str = "clock64"
