"""Operands of statements, and the base of all statements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from lowering.ground.expr import ZERO, Expr, ExprLike
from lowering.ground.frozen import quick, replaced
from lowering.ground.types import FragmentType
from lowering.kernel.traits import Traits

__all__ = [
    "IN_STAGES", "Body", "CounterRef", "Frag", "GmemRef", "MBarrierRef", "MapRef",
    "NamedBarrierRef", "PartialRef", "SmemRef", "Stmt", "TmemRef",
]  # fmt: skip


@quick
@dataclass(frozen=True, slots=True)
class Frag:
    """A fragment value: a tile in the registers of the executing warpgroup."""

    name: str
    type: FragmentType


class _Element:
    """A place in a tensor: ``coords``, one for each dimension, outermost first."""

    __slots__ = ()
    coords: tuple[Expr, ...]

    @property
    def row(self) -> Expr:
        """The last coordinate but one; 0 where there is only one."""
        return self.coords[-2] if len(self.coords) > 1 else ZERO

    @property
    def col(self) -> Expr:
        """The last coordinate."""
        return self.coords[-1]

    def moved(self, *steps: ExprLike) -> Self:
        """The element so many rows and columns from here; further steps, in front of them, count
        matrices. Of one dimension only the last step counts.
        """
        steps = steps[-len(self.coords) :]
        kept = len(self.coords) - len(steps)
        moved = (at + step for at, step in zip(self.coords[kept:], steps, strict=True))
        made: Any = self  # as all that have coordinates are
        found: Self = replaced(made, coords=(*self.coords[:kept], *moved))
        return found


@quick
@dataclass(frozen=True, slots=True)
class SmemRef(_Element):
    """Element ``[stage, *coords]`` of a shared buffer, in logical (unswizzled) coordinates."""

    buffer: str
    stage: Expr
    coords: tuple[Expr, ...]

    def along(self, line: ExprLike, k: ExprLike, trans: bool) -> SmemRef:
        """The element of a product's operand so many lines of the product, and ``k``, from here:
        its lines are rows, or, with ``trans`` (M- or N-major), K is.
        """
        return self.moved(k, line) if trans else self.moved(line, k)


@quick
@dataclass(frozen=True, slots=True)
class TmemRef(_Element):
    """Element ``[stage, row, column]`` of a buffer in tensor memory."""

    buffer: str
    stage: Expr
    coords: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class GmemRef(_Element):
    """Element ``coords`` of a tensor in global memory; may lie out of bounds.

    ``map`` names a tensor map (TMA), of an array of them ``entry`` of it, or, where the statement's
    traits say ``plain``, a ``GlobalTensor``.
    """

    map: str
    coords: tuple[Expr, ...]
    entry: Expr | None = None


@dataclass(frozen=True, slots=True)
class MapRef:
    """A tensor map itself, of an array of them ``entry`` of it."""

    map: str
    entry: Expr | None = None


@quick
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


@dataclass(frozen=True)
class Stmt:
    """Base of all statements; every kind says its ``OP``, the word of its text, and its traits.

    What a statement itself reads and defines, and which others are inside it, is asked in every
    pass, most of which leave most statements as they are: it is kept with the statement when it is
    first asked for (``visit``), as with expressions.
    """

    _defined: ClassVar[frozenset[str] | None] = None
    _inside: ClassVar[tuple[Stmt, ...] | None] = None
    _used: ClassVar[frozenset[str] | None] = None
    OP: ClassVar[str] = ""
    TRAITS: ClassVar[Traits] = Traits()


IN_STAGES = (SmemRef, TmemRef)
"""References into buffers that may have stages."""

Body = tuple[Stmt, ...]
