"""Steps of rings: who fills a stage, who reads it, and when (tile level)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lowering.ground.expr import Expr
from lowering.kernel.operands import Stmt
from lowering.kernel.traits import Traits

__all__ = ["Acquire", "Commit", "Consume", "Produce", "Release", "WaitFull"]

_STEP = Traits(synchronizes=True, until="circular_buffer")
_HANDED = Traits(synchronizes=True, since="circular_buffer", until="allocate_mbarriers")


@dataclass(frozen=True, slots=True)
class Produce(Stmt):
    """The rest of this block fills step ``step`` of a ring, or this role's part of it (tile level,
    until ``circular_buffer``).
    """

    OP: ClassVar[str] = "produce"
    TRAITS: ClassVar[Traits] = _STEP
    ring: str
    step: Expr


@dataclass(frozen=True, slots=True)
class Consume(Stmt):
    """The rest of this block reads step ``step`` (tile level, until ``circular_buffer``).

    ``step`` is the legality relation's load index in terms of the compute side's loops.
    """

    OP: ClassVar[str] = "consume"
    TRAITS: ClassVar[Traits] = _STEP
    ring: str
    step: Expr


@dataclass(frozen=True, slots=True)
class Acquire(Stmt):
    """Wait until the stage of ``step`` is empty (tile level, until ``allocate_mbarriers``)."""

    OP: ClassVar[str] = "acquire"
    TRAITS: ClassVar[Traits] = _HANDED
    ring: str
    step: Expr


@dataclass(frozen=True, slots=True)
class Commit(Stmt):
    """What the executing threads have written themselves of ``step`` is there: their stores, and
    their ``cp.async`` once these have landed (tile level, until ``allocate_mbarriers``). TMA
    completes its part by itself. With ``cta``, that CTA of the cluster is told, for a remote ring.
    """

    OP: ClassVar[str] = "commit"
    TRAITS: ClassVar[Traits] = _HANDED
    ring: str
    step: Expr
    cta: Expr | None = None


@dataclass(frozen=True, slots=True)
class WaitFull(Stmt):
    """Wait until ``step`` has been filled by all who fill it (tile level, until
    ``allocate_mbarriers``).
    """

    OP: ClassVar[str] = "wait_full"
    TRAITS: ClassVar[Traits] = _HANDED
    ring: str
    step: Expr


@dataclass(frozen=True, slots=True)
class Release(Stmt):
    """Give the stage of ``step`` back to those who fill it (tile level, until
    ``allocate_mbarriers``).
    """

    OP: ClassVar[str] = "release"
    TRAITS: ClassVar[Traits] = _HANDED
    ring: str
    step: Expr
