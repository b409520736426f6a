"""A schedule that may be chosen, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass

from wsched.choose.cost import Cost
from wsched.choose.cost_model import Terms, priced, terms_of
from wsched.choose.problem import Problem
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["Candidate"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A schedule with as many stages as fit, and its predicted cost.

    Args:
        params: the schedule.
        cost: what is predicted of it.
        terms: what the laws made that of; None where it was reckoned by others.
    """

    params: MatmulParams
    cost: Cost
    terms: Terms | None = None

    @staticmethod
    def by_laws(problem: Problem, params: MatmulParams) -> Candidate:
        """A schedule with what the laws say of it."""
        terms = terms_of(problem, params)
        return Candidate(params, priced(terms), terms)
