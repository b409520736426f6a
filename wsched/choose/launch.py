"""How a schedule is launched, and in how many parts of K: most of its cost depends on neither."""

from __future__ import annotations

from dataclasses import dataclass

from lowering.ground.frozen import quick
from wsched.schedule.matmul.early import in_parts, launched
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["Launch"]


@quick
@dataclass(frozen=True, slots=True)
class Launch:
    """What schedules of the same tile differ in.

    Args:
        dependent: whether the kernel starts before the grid in front of it has ended.
        parts: of K.
    """

    dependent: bool
    parts: int = 1

    @staticmethod
    def of(params: MatmulParams) -> Launch:
        """That of a schedule."""
        return Launch(params.programmatic_dependent_launch, params.splitk_factor)

    def given_to(self, params: MatmulParams) -> MatmulParams:
        """The schedule with this in place of its own."""
        return launched(in_parts(params, self.parts), self.dependent)
