"""Partial results: accumulators on their way from one CTA to another, through a workspace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lowering.ground.expr import Expr
from lowering.kernel.operands import Frag, PartialRef, Stmt
from lowering.kernel.traits import Memory, Threads, Traits

__all__ = ["Await", "FragAddPartial", "FragStorePartial", "Publish"]

_HANDED = Traits(threads=Threads.WARPGROUP, synchronizes=True, until="synchronize_partials")


@dataclass(frozen=True, slots=True)
class FragStorePartial(Stmt):
    """``st.global.v4``: a whole fragment into a slot, each thread its own registers."""

    OP: ClassVar[str] = "frag.store_partial"
    TRAITS: ClassVar[Traits] = Traits(threads=Threads.WARPGROUP, writes=Memory.GLOBAL)
    dst: PartialRef
    value: Frag


@dataclass(frozen=True, slots=True)
class FragAddPartial(Stmt):
    """``out = acc + slot`` by ``ld.global.v4``, each thread its own registers. Consumes ``acc``.

    Reads what a ``frag.store_partial`` of the same grid wrote, so it stands behind a wait for it.
    """

    OP: ClassVar[str] = "frag.add_partial"
    TRAITS: ClassVar[Traits] = Traits(
        threads=Threads.WARPGROUP, reads=Memory.GLOBAL, consumes=("acc",)
    )
    out: Frag
    acc: Frag
    src: PartialRef


@dataclass(frozen=True, slots=True)
class Publish(Stmt):
    """What the executing warpgroup stored is complete, for whoever awaits ``at``, the slot that
    stands for the tile (tile level, until ``synchronize_partials``).
    """

    OP: ClassVar[str] = "publish"
    TRAITS: ClassVar[Traits] = _HANDED
    at: PartialRef


@dataclass(frozen=True, slots=True)
class Await(Stmt):
    """Wait until ``count`` parts were published at ``at``; nobody else waits there (tile level,
    until ``synchronize_partials``).
    """

    OP: ClassVar[str] = "await"
    TRAITS: ClassVar[Traits] = _HANDED
    at: PartialRef
    count: Expr
