"""Launches that are not refused."""

from __future__ import annotations

from dataclasses import dataclass

from lowering.ground.expr import Expr

__all__ = ["Admitted"]


@dataclass(frozen=True, slots=True)
class Admitted:
    """Which launches a kernel has.

    Args:
        numbers: over parameters and ``%nctaid.x``, with 0 for ``%ctaid``: what is computed for a
            launch, which is refused where one of them, or a parameter, is above ``largest``.
        largest: of any of them.
    """

    numbers: tuple[Expr, ...]
    largest: int
