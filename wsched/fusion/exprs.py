"""The expressions of a fusion, found by the tensors that they make and read."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from wsched.fusion.expr import FusionExpr, MmaOp, inputs_of

__all__ = ["Exprs"]


class Exprs(tuple[FusionExpr, ...]):
    """Expressions in topological order.

    Most calls of a schedule leave these as they are, so the states of a schedule share what is
    found here once.
    """

    @cached_property
    def making(self) -> Mapping[str, FusionExpr]:
        """The expression that makes a tensor, by its name."""
        return {e.output: e for e in reversed(self)}

    @cached_property
    def reading(self) -> Mapping[str, tuple[FusionExpr, ...]]:
        """Those that read a tensor, in order, by its name."""
        found: dict[str, list[FusionExpr]] = {}
        for e in self:
            for name in dict.fromkeys(inputs_of(e)):
                found.setdefault(name, []).append(e)
        return {name: tuple(exprs) for name, exprs in found.items()}

    @cached_property
    def mmas(self) -> tuple[MmaOp, ...]:
        """The matrix multiplications."""
        return tuple(e for e in self if isinstance(e, MmaOp))
