"""What every part of wsched may want to know of a kind of statement, said once, at the node.

The verifier, the walks and the passes ask these instead of listing classes, so a new node says
here what it is, and what does not concern it need not be edited.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, Flag, auto

__all__ = ["PLACED", "Filled", "Memory", "Threads", "Traits"]

Filled = tuple[tuple[str, str], ...]
"""(field, pass) pairs: a field that is not None any more once the pass has run."""

PLACED: Filled = (("offset", "allocate_shared"),)
"""Of what has a place in shared memory."""


class Memory(Flag):
    """Memory as threads and copies see it: an address space, and the proxy that it goes through.

    ``GLOBAL`` is memory that other grids may use as well. ``SHARED`` is shared memory through the
    generic proxy (the threads' own accesses), ``SHARED_ASYNC`` through the async proxy (TMA,
    wgmma). ``TRACE`` is what nobody reads before the launch has ended. ``TENSOR`` is tensor memory.
    """

    NONE = 0
    GLOBAL = auto()
    SHARED = auto()
    SHARED_ASYNC = auto()
    TRACE = auto()
    TENSOR = auto()


class Threads(Enum):
    """Which threads execute a statement.

    ``ANY``: each thread for itself, under ``elect`` or not. ``WARP``: all threads of a warp
    together, so never under ``elect``. ``WARPGROUP``: all threads of a warpgroup, four warps from
    a multiple of four on, so only in a role of whole warpgroups. ``ONE``: one thread, so under
    ``elect``, where a kernel has roles.
    """

    ANY = auto()
    WARP = auto()
    WARPGROUP = auto()
    ONE = auto()


@dataclass(frozen=True, slots=True)
class Traits:
    """Properties of all statements of one kind.

    Args:
        threads: who executes it.
        reads: memory that it reads, perhaps after the statement is over.
        writes: likewise.
        synchronizes: whether it waits, signals, or orders what others do.
        consumes: fields whose fragments' registers the result takes over.
        flying: fields whose fragments may be in flight.
        binds: fields that hold what it defines.
        plain: whether its references to global memory name plain tensors, not tensor maps.
        since: the pass that first makes such statements; none for those of the tile level.
        until: the pass that leaves none of them; none for those of the final kernel.
        filled: fields that a pass fills.
    """

    threads: Threads = Threads.ANY
    reads: Memory = Memory.NONE
    writes: Memory = Memory.NONE
    synchronizes: bool = False
    consumes: tuple[str, ...] = ()
    flying: tuple[str, ...] = ()
    binds: tuple[str, ...] = ("out",)
    plain: bool = False
    since: str | None = None
    until: str | None = None
    filled: Filled = ()

    pure: bool = field(init=False)
    """Whether nothing is lost where nobody reads the result: no effect but the value."""

    def __post_init__(self) -> None:
        pure = not (self.writes or self.synchronizes or self.consumes)
        object.__setattr__(self, "pure", pure)

    @property
    def touches(self) -> Memory:
        """Memory that it reads or writes."""
        return self.reads | self.writes
