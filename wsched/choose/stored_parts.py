"""Parts of K that are results: of which problems they can be, and what is stored then."""

from __future__ import annotations

from functools import lru_cache

from lowering.ground.frozen import replaced
from wsched.choose.problem import Problem, demands
from wsched.fusion import DataType
from wsched.schedule.matmul.part_limits import not_in_parts

__all__ = ["in_parts_at_all", "stored_in_parts"]


@lru_cache(maxsize=1024)
def in_parts_at_all(problem: Problem) -> bool:
    """Whether parts of K can be results of a kernel for this problem."""
    return not (problem.batch_invariant or not_in_parts(demands(problem)))


@lru_cache(maxsize=1024)
def stored_in_parts(problem: Problem) -> Problem:
    """The same with what such a kernel stores, fp32."""
    return replaced(problem, results=(DataType.Float,) * len(problem.results))
