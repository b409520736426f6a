"""Schedules that differ in how they are launched, or in how many parts of K there are: most of what
the cost model asks of one is the same of all of these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any

from lowering.ground.frozen import quick
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["LAUNCH", "Tiled"]

LAUNCH = ("programmatic_dependent_launch", "prefetched_steps", "splitk_factor")
"""In what they differ."""

_rest: Callable[[MatmulParams], tuple[Any, ...]] = attrgetter(
    *(f.name for f in fields(MatmulParams) if f.name not in LAUNCH)
)


@quick
@dataclass(frozen=True, slots=True)
class Tiled:
    """One of them, which is like any other: a key of what is remembered.

    Args:
        rest: the parameters in which they agree, and whether K is in several parts.
        params: those of one of them; of its :data:`LAUNCH` nobody reads more than that.
    """

    rest: tuple[Any, ...]
    params: MatmulParams = field(compare=False)

    @staticmethod
    def of(params: MatmulParams) -> Tiled:
        """What a schedule is one of."""
        return Tiled((*_rest(params), params.splitk_factor > 1), params)
