"""A schedule that may be chosen, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass

from wsched.choose.cost import Cost
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["Candidate"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A schedule with as many stages as fit, and its predicted cost."""

    params: MatmulParams
    cost: Cost
