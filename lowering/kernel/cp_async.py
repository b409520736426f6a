"""Copies of 16 bytes that threads issue: what TMA cannot load, such as rows by index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lowering.ground.expr import Expr
from lowering.kernel.operands import Frag, GmemRef, MBarrierRef, SmemRef, Stmt
from lowering.kernel.traits import Memory, Threads, Traits

__all__ = ["CP_ASYNC_BYTES", "CP_ASYNC_LINE", "CpAsync", "CpAsyncArrive"]

CP_ASYNC_BYTES = 16
"""Bytes of one copy."""

CP_ASYNC_LINE = 64
"""Bytes of a row that four threads copy side by side."""


@dataclass(frozen=True, slots=True)
class CpAsync(Stmt):
    """``cp.async.cg``, global to shared: a tile of ``rows x cols``, by one warpgroup, asynchronous.

    Each thread copies pieces of the rows that it has of a fragment. Elements out of bounds, rows
    from ``limit`` on and those whose ``index`` is negative become zero (see
    ``frag.load_global``). Writes through the generic proxy, at any time until the thread's
    ``cp.async.mbarrier.arrive.noinc`` has arrived. Whoever gives the tile to wgmma or TMA waits for
    that and executes ``fence.proxy.async`` in between.

    ``src.col`` is a multiple of 16 bytes, ``dst.col`` the first one of a box.
    """

    OP: ClassVar[str] = "cp.async"
    TRAITS: ClassVar[Traits] = Traits(
        threads=Threads.WARPGROUP,
        reads=Memory.GLOBAL,
        writes=Memory.SHARED,
        plain=True,
    )
    dst: SmemRef
    src: GmemRef
    rows: int
    cols: int
    limit: Expr | None = None
    index: Frag | None = None


@dataclass(frozen=True, slots=True)
class CpAsyncArrive(Stmt):
    """``cp.async.mbarrier.arrive.noinc``: each executing thread arrives once all its ``cp.async``
    so far are complete. It counts as an arrival that the barrier awaits.
    """

    OP: ClassVar[str] = "cp.async.mbarrier.arrive.noinc"
    TRAITS: ClassVar[Traits] = Traits(synchronizes=True)
    bar: MBarrierRef
