"""Launches that are not refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lowering.ground.expr import Expr

__all__ = ["FIRST_CTA", "Admitted"]

FIRST_CTA: Mapping[str, int] = {"%ctaid.x": 0, "%ctaid.y": 0, "%ctaid.z": 0}
"""The CTA that has the most steps: where numbers of a launch depend on one, it is this."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """Which launches a kernel has.

    Args:
        numbers: over parameters and ``%nctaid.x``, of :data:`FIRST_CTA`: what is computed for a
            launch, which is refused where one of them, or a parameter, is above ``largest``.
        largest: of any of them.
    """

    numbers: tuple[Expr, ...]
    largest: int
