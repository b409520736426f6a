"""Which of the schedules that the laws put in front is the fastest, by what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import log
from pathlib import Path

import numpy as np

from lowering.ground.frozen import replaced
from wsched.choose.candidate import Candidate
from wsched.choose.cost import Cost
from wsched.choose.cost_model import cost
from wsched.choose.learned.features import FEATURES, features
from wsched.choose.learned.trees import Numbers, Trees
from wsched.choose.problem import Problem
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["FURTHEST", "NEAR", "TREES", "in_order", "near", "near_best", "predicted", "told"]

TREES = Path(__file__).with_name("hopper.npz")
"""Fitted to drawn problems on an H200 and an H100 by ``python -m wsched.bench.drawn.fit``."""

NEAR = 1.12
"""Of the least prediction: schedules up to there are put in order."""

FURTHEST = 1.2
"""The most that trees make a prediction longer or shorter by, as a factor."""

FEW_ROWS, LEAST_FLOP = 64, 1e9
"""Rows or columns up to which a problem is one of few rows, and what takes less than a few
microseconds: nobody drew such, and what the laws put first is faster (0041)."""


def near(problem: Problem) -> float:
    """How far from the least prediction a schedule may be and still come first, as a factor."""
    return NEAR if _is_known(problem) else 1.0


def in_order(problem: Problem, found: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Candidates, the fastest first; of equals the first.

    Those that the laws put near their best have factors by trees, where there are measurements of
    such problems: what tells schedules apart, not what the predictions of all are off by. They
    come first whatever their factors are; behind them the others stand as the laws have them.
    """
    by_laws = sorted(found, key=lambda c: c.cost.by_laws)
    if not by_laws or not _is_known(problem):
        return tuple(by_laws)
    first = near_best(by_laws)
    factors = _factors(problem, first)
    known = [
        replaced(c, cost=replaced(c.cost, factor=factor))
        for c, factor in zip(first, factors, strict=True)
    ]
    return (*sorted(known, key=lambda c: c.cost.us), *by_laws[len(first) :])


def near_best(found: Sequence[Candidate]) -> list[Candidate]:
    """Those that the laws put near the best of them, in their order."""
    furthest = NEAR * min(c.cost.by_laws for c in found)
    return [c for c in found if c.cost.by_laws <= furthest]


def predicted(problem: Problem, params: MatmulParams) -> Cost:
    """What a schedule that is or may be taken costs, with its factor where there are measurements
    of such problems: of one of the first candidates what :func:`in_order` has. It says nothing of
    one that the laws put far behind, which trees never rank.
    """
    found = cost(problem, params)
    if not _is_known(problem):
        return found
    (factor,) = _factors(problem, [Candidate(params, found)])
    return replaced(found, factor=factor)


def told(trees: Trees, rows: Numbers) -> Numbers:
    """The logarithm of the factor of each row of features, at most that of :data:`FURTHEST`."""
    return np.clip(trees.of(rows), -log(FURTHEST), log(FURTHEST))


def _factors(problem: Problem, found: Sequence[Candidate]) -> list[float]:
    rows = np.array([features(problem, c.params, c.terms) for c in found], np.float32)
    factors: list[float] = np.exp(told(_trees(), rows)).tolist()
    return factors


def _is_known(problem: Problem) -> bool:
    """Whether measurements tell of such a problem: one product of two matrices of 16 bits that TMA
    reads, of neither few rows nor few columns, with one result of 16 bits that TMA stores, whatever
    the epilogue computes or reduces of it, of rows and of columns; or Bs side by side.
    """
    p = problem
    one = p.products == 1 and p.batch == 1 and not p.batch_invariant
    listed = p.grouped or p.m_entries or p.k_entries
    plain = p.computed is None and p.scaled is None and not p.promotion
    of_16_bits = p.operand.bytes == 2 and [r.bytes for r in p.results] == [2]
    read = not (p.thread_a or p.thread_b) and p.target.tensor_memory is None
    stored = p.unaligned is None and not p.matrices
    drawn = min(p.m, p.n) > FEW_ROWS and 2 * p.m * p.n * p.k >= LEAST_FLOP
    return bool(one and not listed and plain and of_16_bits and read and stored and drawn)


@lru_cache(maxsize=1)
def _trees() -> Trees:
    return Trees.read(TREES, FEATURES)
