"""Statements of a summary's kernel: what it loads, and its reductions."""

from __future__ import annotations

from dataclasses import dataclass, field

from lowering.ground.dtypes import DType
from lowering.ground.expr import ZERO, Expr
from lowering.kernel.nodes import Frag, FragBelow, FragCast, FragLoadGlobal, GmemRef
from lowering.sweep.statements import Statements
from wsched.fusion.summary import Extent, Summary, Value
from wsched.fusion.types import DataType

__all__ = ["Builder"]

_SINGLE = 1, 1


@dataclass
class Builder(Statements):
    """The body of a summary's kernel.

    Args:
        summary: what the kernel computes.
    """

    summary: Summary = field(kw_only=True)

    def below(self, limit: Expr, rows: int, cols: int) -> Frag:
        """Which rows or columns of a tile count."""
        out = self.new("inside", DType.PRED, rows, cols)
        self.emit(FragBelow(out, limit))
        return out

    def load(self, value: Value, at: tuple[Expr, ...], rows: int, cols: int) -> None:
        """An input from its place in global memory; one of a single element from its only one."""
        if value.extent is Extent.ONE:
            rows, cols = _SINGLE
            at = (ZERO,) * len(at)
        out = self.new(value.name, value.dtype.element, rows, cols)
        self.emit(FragLoadGlobal(out, GmemRef(value.name, at)))
        self.held[value.name] = out

    def wide(self, name: str) -> Frag:
        """A value as fp32, which reductions take."""
        found = self.held[name]
        if found.type.dtype is DType.F32:
            return found
        out = self.new(f"{name}_wide", DType.F32, found.type.rows, found.type.cols)
        self.emit(FragCast(out, found))
        return out

    def reduced(self, value: Value, total: Frag) -> None:
        """Hold what a reduction has come to, as its type."""
        self.held[value.name] = total if value.dtype is DataType.Float else self._cast(value, total)
