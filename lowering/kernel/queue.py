"""A queue of tiles: what hands them out at run time, and words in shared memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lowering.ground.expr import Expr, Var
from lowering.kernel.operands import SmemRef, Stmt
from lowering.kernel.traits import Memory, Threads, Traits

__all__ = ["FetchTiles", "HandTile", "LdWord", "NextTile", "StWord"]


@dataclass(frozen=True, slots=True)
class FetchTiles(Stmt):
    """Take tiles ``0 .. tiles`` for this cluster, one after the other until none is left, and hand
    each to all CTAs of the cluster through a remote ring of words (tile level, until
    ``queue_tiles``).
    """

    OP: ClassVar[str] = "fetch.tiles"
    TRAITS: ClassVar[Traits] = Traits(synchronizes=True, until="queue_tiles")
    ring: str
    tiles: Expr


@dataclass(frozen=True, slots=True)
class HandTile(Stmt):
    """``value`` is word ``word`` of entry ``number`` of a queue, for all readers of this CTA; one
    thread, which hands over all words of an entry in order (tile level, until ``queue_tiles``).
    """

    OP: ClassVar[str] = "hand.tile"
    TRAITS: ClassVar[Traits] = Traits(synchronizes=True, until="queue_tiles")
    ring: str
    number: Expr
    value: Expr
    word: int = 0


@dataclass(frozen=True, slots=True)
class NextTile(Stmt):
    """``out`` is what entry ``number`` of a queue of ``tiles`` tiles holds, a ring of words (tile
    level, until ``queue_tiles``); of entries of several words one of them, all read in order.

    Entries ``0, 1, ...`` hold tiles in growing order. The first entry behind them holds ``tiles``;
    where entries are dealt out to the compute warpgroups in turn, the next one holds ``tiles + 1``,
    so that each warpgroup finds an end and knows whether it is the first one. Each reader reads its
    entries once and in order, and leaves its loop at the first end mark.
    """

    OP: ClassVar[str] = "next.tile"
    TRAITS: ClassVar[Traits] = Traits(threads=Threads.WARP, synchronizes=True, until="queue_tiles")
    out: Var
    ring: str
    number: Expr
    tiles: Expr
    word: int = 0


@dataclass(frozen=True, slots=True)
class StWord(Stmt):
    """``st.shared.u32``, one thread, to an element of 32 bits of a buffer without a swizzle; with
    ``cta`` into that CTA of the cluster (``mapa``). Generic proxy.
    """

    OP: ClassVar[str] = "st.word"
    TRAITS: ClassVar[Traits] = Traits(
        threads=Threads.ONE,
        writes=Memory.SHARED,
    )
    dst: SmemRef
    value: Expr
    cta: Expr | None = None


@dataclass(frozen=True, slots=True)
class LdWord(Stmt):
    """``ld.shared.u32``: every executing thread gets an element of 32 bits of a buffer without a
    swizzle. Generic proxy.
    """

    OP: ClassVar[str] = "ld.word"
    TRAITS: ClassVar[Traits] = Traits(reads=Memory.SHARED)
    out: Var
    src: SmemRef
