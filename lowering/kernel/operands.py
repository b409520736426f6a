"""Operands of statements, and the base of all statements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lowering.ground.expr import Expr
from lowering.ground.types import FragmentType
from lowering.kernel.traits import Traits

__all__ = [
    "Body", "CounterRef", "Frag", "GmemRef", "MBarrierRef", "NamedBarrierRef", "PartialRef",
    "SmemRef", "Stmt", "WordRef",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Frag:
    """A fragment value: a tile in the registers of the executing warpgroup."""

    name: str
    type: FragmentType


@dataclass(frozen=True, slots=True)
class SmemRef:
    """Element ``[stage, row, col]`` of a shared buffer, in logical (unswizzled) coordinates."""

    buffer: str
    stage: Expr
    row: Expr
    col: Expr


@dataclass(frozen=True, slots=True)
class GmemRef:
    """Element ``[row, col]`` of a tensor in global memory; may lie out of bounds.

    ``map`` names a tensor map (TMA), or a ``GlobalTensor`` in ``frag.load_global`` and
    ``frag.store_global``.
    """

    map: str
    row: Expr
    col: Expr


@dataclass(frozen=True, slots=True)
class MBarrierRef:
    """Barrier ``index`` of an mbarrier array in shared::cta memory."""

    array: str
    index: Expr


@dataclass(frozen=True, slots=True)
class NamedBarrierRef:
    """Named barrier ``index`` of a named-barrier array (hardware id = base id + index)."""

    array: str
    index: Expr


@dataclass(frozen=True, slots=True)
class CounterRef:
    """Counter ``index`` of a counter array in global memory."""

    array: str
    index: Expr


@dataclass(frozen=True, slots=True)
class PartialRef:
    """Slot ``index`` of a workspace."""

    array: str
    index: Expr


@dataclass(frozen=True, slots=True)
class WordRef:
    """Word ``index`` of a word array in shared memory."""

    array: str
    index: Expr


@dataclass(frozen=True, slots=True)
class Stmt:
    """Base of all statements; every kind says its ``OP``, the word of its text, and its traits."""

    OP: ClassVar[str] = ""
    TRAITS: ClassVar[Traits] = Traits()


Body = tuple[Stmt, ...]
