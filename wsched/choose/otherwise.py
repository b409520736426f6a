"""What other values of a schedule's parameters would cost, by the cost model.

A parameter that goes with others, the tile or who shares it, is priced by the best schedule that
has the other value; one that stands alone is changed alone, so that its row says what it itself is
worth, or why it may not be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from lowering.ground.frozen import replaced
from wsched.choose.cost import Cost
from wsched.choose.cost_model import cost
from wsched.choose.heuristics import CLUSTERS, Candidate, candidates
from wsched.choose.learned.order import predicted
from wsched.choose.made import refusal
from wsched.choose.problem import Problem
from wsched.schedule.matmul.early import in_parts, launched
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.matmul.tiles import MAX_STAGES

__all__ = ["Alternative", "Priced", "alternatives"]

MOST = 12
"""Other values of a parameter that are shown, the best ones."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another value of a parameter.

    Args:
        value: it, as an explanation writes the chosen one.
        us: predicted microseconds of the kernel with it; None where it is illegal.
        why: what costs more, or why it is illegal.
    """

    value: str
    us: float | None
    why: str


@dataclass(frozen=True, slots=True)
class Priced:
    """A parameter under nvFuser's name, its value, and what others cost, the best first."""

    name: str
    value: str
    others: tuple[Alternative, ...]


_WITH_OTHERS: dict[str, Callable[[MatmulParams], str]] = {
    "tile_sizes": lambda p: str(p.tile_sizes.cta_tile),
    "buffering_loop_level": lambda p: p.buffering_loop_level.name,
    "exchange_operands": lambda p: str(p.exchange_operands),
}

_ALONE: dict[str, Callable[[MatmulParams], str]] = {
    "smem_circular_buffer_stage": lambda p: str(
        p.circular_buffer_options.smem_circular_buffer_stage
    ),
    "cluster_dims": lambda p: f"{p.cluster_dims.m}x{p.cluster_dims.n}",
    "splitk_factor": lambda p: str(p.splitk_factor),
    "programmatic_dependent_launch": lambda p: str(p.programmatic_dependent_launch),
}


def alternatives(problem: Problem, params: MatmulParams) -> tuple[Priced, ...]:
    """The parameters that the cost model tells apart, with what other values cost.

    Args:
        problem: for which.
        params: a schedule that the cost model describes: persistent and warp-specialized.
    """
    best, found = predicted(problem, params), candidates(problem)
    known = {c.params: c.cost for c in found}
    together = (
        Priced(name, of(params), tuple(_best_of(found, params, best, of)))
        for name, of in _WITH_OTHERS.items()
    )
    alone = (
        Priced(name, of(params), _priced(problem, best, known, _changed(params, name, of)))
        for name, of in _ALONE.items()
    )
    return (*together, *alone)


def _best_of(
    found: Iterable[Candidate],
    params: MatmulParams,
    best: Cost,
    of: Callable[[MatmulParams], str],
) -> Iterator[Alternative]:
    """The first of the candidates with each other value."""
    seen = {of(params)}
    for c in found:
        if (value := of(c.params)) not in seen and len(seen) <= MOST:
            seen.add(value)
            yield Alternative(value, c.cost.us, _beside(c.cost, best))


def _changed(
    params: MatmulParams, name: str, of: Callable[[MatmulParams], str]
) -> list[tuple[str, MatmulParams]]:
    """The same parameters but for one, with the value that it has."""
    options = params.circular_buffer_options
    tried: dict[str, list[MatmulParams]] = {
        "smem_circular_buffer_stage": [
            replace(params, circular_buffer_options=replace(options, smem_circular_buffer_stage=n))
            for n in range(2, MAX_STAGES + 2)
        ],
        "cluster_dims": [replace(params, cluster_dims=c) for c in CLUSTERS],
        "splitk_factor": [in_parts(params, n) for n in (1, 2, 4, 8)],
        "programmatic_dependent_launch": [launched(params, x) for x in (True, False)],
    }
    return [(of(p), p) for p in tried[name] if of(p) != of(params)]


def _priced(
    problem: Problem,
    best: Cost,
    known: Mapping[MatmulParams, Cost],
    tried: list[tuple[str, MatmulParams]],
) -> tuple[Alternative, ...]:
    """Legal ones by their predicted time, then the illegal ones. What is no candidate, and so
    nobody's rank, has the factor of the schedule from which it differs in one parameter.
    """
    found = []
    for value, params in tried:
        if why := refusal(problem, params):
            found.append(Alternative(value, None, why))
        else:
            made = known.get(params) or replaced(cost(problem, params), factor=best.factor)
            found.append(Alternative(value, made.us, _beside(made, best)))
    return tuple(sorted(found, key=lambda a: (a.us is None, a.us or 0.0)))


def _beside(made: Cost, best: Cost) -> str:
    """What takes longer than in the schedule at hand; where nothing does, that it is faster."""
    difference = made.us - best.us
    if abs(difference) < 0.005:
        return "the same by the model"
    return made.worse(best) if difference > 0 else f"{-difference:.2f} us less by the model"
