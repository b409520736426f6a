"""Statements of a summary's kernel, and what it loads."""

from __future__ import annotations

from dataclasses import dataclass, field

from lowering.ground.expr import ZERO, Expr
from lowering.kernel.nodes import FragLoadGlobal, GmemRef
from lowering.sweep.statements import Statements
from wsched.fusion.summary import Extent, Summary, Value

__all__ = ["Builder"]

_SINGLE = 1, 1


@dataclass
class Builder(Statements):
    """The body of a summary's kernel.

    Args:
        summary: what the kernel computes.
    """

    summary: Summary = field(kw_only=True)

    def load(self, value: Value, at: tuple[Expr, ...], rows: int, cols: int) -> None:
        """An input from its place in global memory; one of a single element from its only one."""
        if value.extent is Extent.ONE:
            rows, cols = _SINGLE
            at = (ZERO,) * len(at)
        out = self.new(value.name, value.dtype.element.register, rows, cols)
        self.emit(FragLoadGlobal(out, GmemRef(value.name, at)))
        self.held[value.name] = out
