"""The warpgroups that compute a CTA's tiles: which there are, and who takes which steps."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from lowering.ground.expr import Expr, Var
from wsched.fusion import ParallelType

__all__ = ["ROLES", "Warpgroups"]

ROLES = (ParallelType.TIDy, ParallelType.TIDz)
"""What counts warpgroups, fastest first as CUDA numbers threads; TIDx counts those of one."""


@dataclass(frozen=True, slots=True)
class Warpgroups:
    """The compute warpgroups of a CTA.

    Args:
        extents: how many there are along each axis that is used, fastest first: axes whose
            warpgroups share a tile, as CUDA numbers threads, in front of those that take turns, as
            the load index has these: the one whose turn is next has the next number.
        taking: how many of them take each load step: those that share what it is for.
        dealing: in how many runs those that share a tile deal out its steps, 1 where all of them
            take each.
    """

    extents: tuple[tuple[ParallelType, int], ...]
    taking: int
    dealing: int = 1

    @property
    def count(self) -> int:
        """All of them."""
        return prod(n for _, n in self.extents)

    @property
    def teams(self) -> int:
        """How many take turns, each a tile."""
        return self.count // (self.taking * self.dealing)

    def index(self, axis: ParallelType, group: Var) -> Expr:
        """Index along an axis of the warpgroup with number ``group``."""
        below = 1
        for found, n in self.extents:
            if found is axis:
                behind = group // below
                return behind if below * n == self.count else behind % n
            below *= n
        return group
