"""A schedule that may be chosen, and the time by which it is ranked."""

from __future__ import annotations

from dataclasses import dataclass

from wsched.choose.cost import Cost
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["Candidate"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A schedule with as many stages as fit.

    Args:
        params: the schedule.
        cost: by the laws.
        factor: measured over predicted time of kernels like it, beside those of others at the same
            problem; 1 where nobody has measured such.
    """

    params: MatmulParams
    cost: Cost
    factor: float = 1.0

    @property
    def us(self) -> float:
        """Microseconds by which candidates are ranked."""
        return self.cost.us * self.factor
