"""Kernels that share groups out by the lengths of their tiles, as a schedule among others.

Groups of any size, from nothing to twice the mean, are padded least by tiles of several lengths. A
set of kernels is priced as its kernels are, each by its share of what it would do alone, and a
little for each further one (:func:`wsched.choose.cost_model.together`).

*Kernels of a kind.* All have the rows of the best single kernel for a warpgroup, and as many
warpgroups that take turns or do not: what the laws say of such is comparable within a percent or
two. Of tiles of other kinds they are further off than what padding costs. Down of Mixtral was
predicted to gain 2 % where 64x256 by one warpgroup was put beside 128x168 exchanged, and lost 2 to
8; gate and up, by 128x104, 128x88 and 128x80 in turns, was to gain 1.3, and gained 1.3.

*Not where memory takes half of the time* (:data:`MEMORY`): what is not multiplied gains nothing
there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import inf

from lowering.ground.frozen import replaced
from wsched.choose import groups
from wsched.choose.candidate import Candidate
from wsched.choose.cost_model import together
from wsched.choose.problem import Problem
from wsched.schedule.matmul.early import launched
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.matmul.siblings import length_along, shared

__all__ = ["LEAST_GAIN", "MOST", "NEAR", "OF_SEVERAL", "sharing_groups"]

MOST, OF_SEVERAL = 3, 4
"""Kernels, and of several products. Of one product sets with a fourth, which the laws have 1 to 2 %
in front, took 0.998, 1.010 and 0.997 of the cycles that three take (16 groups, 8192 x 8192 x 5120;
32, 16384 x 4096 x 4096; 8, 8192 x 14336 x 4096; six lists of sizes each, H200, 2026-11-30). Of gate
and up 0.994, 0.998, 0.989 and 0.998 (Llama 4 and Mixtral, each with two numbers of tokens)."""

MEMORY = 0.55
"""Of the best single kernel's time, what memory takes at most. Gate and up of 128 groups of 256
rows (1536 x 4096), where it takes 0.57, were to gain 4.6 % and took 1.004 times as long; those of
16 (8192 x 5120), 0.51, were to gain 4.1 and gained 3.0 (six lists each, H200, 2026-11-29)."""

NEAR = 1.005
"""Of the best prediction, up to where the set with most kernels is taken. Laws do not see how a set
begins: CTAs of its first kernel start as those of the grid in front end, and with tiles that ask
for more than 53 bytes in a cycle some stay out of step. Two kernels of gate and up, which were to
take 0.997 of what four take, did so one behind the other; in layers 1.008 and 1.011 by 104 and 96
rows, and 1.03 to 1.08 by 96 and 88 (Mixtral, four lists, cycles, H200, 2026-11-30)."""

LEAST_GAIN = 0.99
"""Of the best single kernel's time that several have to be predicted to take at most."""


def sharing_groups(problem: Problem, found: Sequence[Candidate]) -> Candidate | None:
    """The fastest kernels that share the groups out, with the best single one among them; None
    where they gain next to nothing.

    Args:
        problem: any.
        found: single kernels, the best first.
    """
    if not found or not groups.shares_out(problem) or problem.batch_invariant:
        return None
    terms = found[0].terms
    if terms is None or terms.stream > MEMORY * found[0].cost.by_laws:
        return None
    sets = [_candidate(problem, kernels) for kernels in _sets(problem, found)]
    least = min((c.cost.by_laws for c in sets), default=inf)
    most = min(NEAR * least, LEAST_GAIN * found[0].cost.by_laws)
    near = [c for c in sets if c.cost.by_laws <= most]
    return max(near, key=lambda c: (len(c.params.siblings), -c.cost.by_laws), default=None)


def _sets(problem: Problem, found: Sequence[Candidate]) -> Iterator[tuple[Candidate, ...]]:
    """The best single kernel with one to three others, the longest tiles first: what they leave at
    the end is least where the last ones are short.
    """
    best, rows = found[0], problem.grouped == "m"
    kind, by_length = _kind(best.params), dict[int, Candidate]()
    for c in found:
        if _kind(c.params) == kind:
            by_length.setdefault(length_along(c.params, rows), _alike(problem, c))
    mine = length_along(best.params, rows)
    others = [n for n in by_length if n != mine]
    most = OF_SEVERAL if problem.products > 1 else MOST
    for count in range(1, most):
        for some in combinations(others, count):
            lengths = sorted((mine, *some), reverse=True)
            yield tuple(by_length[n] for n in lengths)


def _kind(params: MatmulParams) -> tuple[object, ...]:
    """What kernels that share groups out have in common."""
    return (
        params.tile_sizes.warp_tile.m, params.warpgroups, params.ping_pong, params.cluster_dims,
        params.use_smem_epilogue, params.thread_loads,
    )  # fmt: skip


def _alike(problem: Problem, single: Candidate) -> Candidate:
    """A kernel that may stand in one grid with others of its kind, which are launched as it is."""
    params = replaced(single.params, delayed_groups=0)  # which costs them up to 1.6 % (0031)
    return Candidate.by_laws(problem, launched(params, True))


def _candidate(problem: Problem, kernels: Sequence[Candidate]) -> Candidate:
    """Several kernels as one schedule."""
    params = tuple(c.params for c in kernels)
    shares = groups.shares_of(problem, params)
    terms = [c.terms for c in kernels if c.terms is not None]
    return Candidate(shared(params), together([*zip(terms, shares, strict=True)]))
