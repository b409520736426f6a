"""Which compute warpgroup runs which iterations: the loops on TIDy and TIDz."""

from __future__ import annotations

from dataclasses import dataclass

from lowering.ground.expr import Expr, Var
from lowering.nest.cluster import constant
from wsched.fusion import ParallelType, TensorView
from wsched.schedule.proof.sides import ROLES

__all__ = ["Warpgroups"]


@dataclass(frozen=True, slots=True)
class Warpgroups:
    """The compute warpgroups of a CTA.

    Args:
        extents: how many there are along each axis that is used, fastest first.
    """

    extents: tuple[tuple[ParallelType, int], ...]

    @staticmethod
    def of(t: TensorView) -> Warpgroups:
        """Those that a tensor is computed by.

        Raises:
            UnsupportedError: their number is not a constant.
        """
        loops = ((axis, t.axis_on(axis)) for axis in ROLES)
        return Warpgroups(tuple(
            (axis, constant(d.extent, f"{t.name}: {d.label}")) for axis, d in loops if d is not None
        ))  # fmt: skip

    @property
    def count(self) -> int:
        """All of them."""
        total = 1
        for _, n in self.extents:
            total *= n
        return total

    def index(self, axis: ParallelType, group: Var) -> Expr:
        """Index along an axis of the warpgroup with number ``group``."""
        below: int = 1
        for found, n in self.extents:
            if found is axis:
                behind = group // below
                return behind if below * n == self.count else behind % n
            below *= n
        return group
