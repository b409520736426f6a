"""Partial results: accumulators on their way from one CTA to another, through a workspace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lowering.ir.operands import Frag, PartialRef, Stmt

__all__ = ["Await", "FragAddPartial", "FragStorePartial", "Publish"]


@dataclass(frozen=True, slots=True)
class FragStorePartial(Stmt):
    """``st.global.v4``: a whole fragment into a slot, each thread its own registers."""

    OP: ClassVar[str] = "frag.store_partial"
    dst: PartialRef
    value: Frag


@dataclass(frozen=True, slots=True)
class FragAddPartial(Stmt):
    """``out = acc + slot`` by ``ld.global.v4``, each thread its own registers. Consumes ``acc``.

    Reads what a ``frag.store_partial`` of the same grid wrote, so it stands behind a wait for it.
    """

    OP: ClassVar[str] = "frag.add_partial"
    out: Frag
    acc: Frag
    src: PartialRef


@dataclass(frozen=True, slots=True)
class Publish(Stmt):
    """What the executing warpgroup stored in a slot is complete (tile level, until
    ``synchronize_partials``).
    """

    OP: ClassVar[str] = "publish"
    slot: PartialRef


@dataclass(frozen=True, slots=True)
class Await(Stmt):
    """Wait until a slot is complete; nobody else waits for it (tile level, until
    ``synchronize_partials``).
    """

    OP: ClassVar[str] = "await"
    slot: PartialRef
