"""What would mend a loss: other values of the schedule, other data, each priced by the cost model.

A parameter alone is changed alone, and says by which rule it is illegal if it is. Besides, of all
schedules that the heuristic considers the fastest one that loses at most half as much is named:
what it costs elsewhere is why it was not taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from lowering.ground.frozen import replaced
from wsched.choose.cost_model import cost
from wsched.choose.heuristics import CLUSTERS, Candidate, candidates
from wsched.choose.made import refusal
from wsched.choose.problem import ALIGNED, Problem
from wsched.losses.effects import losses_of
from wsched.schedule.matmul.early import in_parts, in_shares, launched
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.matmul.tiles import MAX_STAGES

__all__ = ["Mend", "mends_of"]

_OF_ALL = frozenset({"power", "start"})
"""Effects that a slower schedule has less of for no other reason."""

HALF = 0.5
"""What of a loss another schedule may have to be named."""

Tried = Iterator[tuple[str, MatmulParams]]


@dataclass(frozen=True, slots=True)
class Mend:
    """Something that would lose less.

    Args:
        what: to change.
        us: microseconds of the whole kernel that it saves, fewer than 0 where it costs more; None
            where it is refused.
        why: by which rule it is refused.
    """

    what: str
    us: float | None
    why: str = ""

    def __str__(self) -> str:
        if self.us is None:
            return f"{self.what}: refused, {self.why}"
        if abs(self.us) < 0.05:
            return f"{self.what}: as long"
        return f"{self.what}: {abs(self.us):.1f} us {'less' if self.us > 0 else 'more'} in all"

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        return {"what": self.what, "saves_us": self.us, "refused": self.why or None}


def mends_of(problem: Problem, params: MatmulParams, effect: str) -> tuple[Mend, ...]:
    """What would mend an effect of a schedule, by the laws: what saves most first, what is refused
    last.

    Args:
        problem: which.
        params: the schedule, described by the cost model.
        effect: a key of :data:`wsched.losses.effects.EFFECTS`.
    """
    now = cost(problem, params).us
    found = [_priced(problem, now, what, p) for what, p in _TRIED.get(effect, _nothing)(params)]
    found = [*_best_of_each(found), *_of_data(problem, now, effect)]
    if effect not in _OF_ALL:
        found += _other(problem, params, effect, now)
    return tuple(sorted(found, key=lambda m: (m.us is None, -(m.us or 0.0))))


def _best_of_each(found: list[Mend]) -> list[Mend]:
    """Of values of one parameter (the first word) the best; of refusals alone the first."""
    best: dict[str, Mend] = {}
    for m in sorted(found, key=lambda m: (m.us is None, -(m.us or 0.0))):
        best.setdefault(m.what.partition(" ")[0], m)
    return list(best.values())


def _priced(problem: Problem, now: float, what: str, params: MatmulParams) -> Mend:
    if why := refusal(problem, params):
        return Mend(what, None, why)
    return Mend(what, now - cost(problem, params).us)


def _of_data(problem: Problem, now: float, effect: str) -> Iterator[Mend]:
    """What other data would do, with the schedule that is best for them."""
    if effect == "row alignment":
        padded = replaced(problem, align_a=ALIGNED, align_b=ALIGNED)
        us = candidates(padded)[0].cost.by_laws
        yield Mend(f"rows padded to {ALIGNED} bytes by who makes them", now - us)


def _other(problem: Problem, params: MatmulParams, effect: str, now: float) -> Iterator[Mend]:
    """The fastest of all candidates that loses at most half as much by an effect."""
    mine = _loss(problem, params, effect)
    for c in candidates(problem):
        if not c.params.matches(params) and _loss(problem, c.params, effect) <= HALF * mine:
            yield Mend(_name(c), now - c.cost.by_laws)
            return


def _loss(problem: Problem, params: MatmulParams, effect: str) -> float:
    return next(x.us for x in losses_of(problem, params)[1] if x.effect == effect)


def _name(c: Candidate) -> str:
    """A schedule in a few words."""
    p = c.params
    way = "ping-pong" if p.ping_pong else "cooperative"
    m, n = p.cluster_dims.m, p.cluster_dims.n
    cluster = f" in clusters of {m}x{n}" if m * n > 1 else ""
    parts = f", K in {p.splitk_factor} parts" if p.splitk_factor > 1 else ""
    tiles = " and ".join(str(k.output_tile) for k in (p, *p.siblings))
    return f"the {way} schedule with tiles of {tiles}{cluster}{parts}"


def _nothing(params: MatmulParams) -> Tried:
    return iter(())


def _dealt(params: MatmulParams) -> Tried:
    if not params.stream_k and params.splitk_factor == 1:
        yield "stream-K", in_shares(params)
        for parts in (2, 3, 4):
            yield f"split-K of {parts}", in_parts(params, parts)


def _stages(params: MatmulParams) -> Tried:
    options = params.circular_buffer_options
    for n in range(2, MAX_STAGES + 1):
        if n != options.smem_circular_buffer_stage:
            changed = replace(options, smem_circular_buffer_stage=n)
            yield f"stages {n}", replace(params, circular_buffer_options=changed)


def _clusters(params: MatmulParams) -> Tried:
    for c in CLUSTERS:
        if c != params.cluster_dims:
            yield f"clusters of {c.m}x{c.n}", replace(params, cluster_dims=c)


def _launch(params: MatmulParams) -> Tried:
    other = not params.programmatic_dependent_launch
    word = "a dependent launch" if other else "no dependent launch"
    yield word, launched(params, other)


def _orders(params: MatmulParams) -> Tried:
    for rows in (8, 16, 32):
        if (rows, 1) != params.grid_traversal_factor:
            changed = replace(params, grid_traversal_factor=(rows, 1))
            yield f"groups of {rows} rows of tiles", changed


def _whole(params: MatmulParams) -> Tried:
    if params.splitk_factor > 1:
        yield "K whole", replace(params, splitk_factor=1)


_TRIED: dict[str, Callable[[MatmulParams], Tried]] = {
    "idle SMs": _dealt, "edges": _dealt, "latency": _stages, "copies": _clusters,
    "clusters": _clusters, "row alignment": _clusters, "start": _launch, "memory": _launch,
    "power": _orders, "adding parts": _whole,
}  # fmt: skip
"""By effect the parameters that change what it costs."""
