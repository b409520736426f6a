"""From the last rung to the schedule that is taken for a problem, one decision after the other.

The last rung is parameters of the matmul scheduler, too, and so is what the heuristic chooses. They
differ in some *decisions*: fields of ``MatmulParams``, and of the tile its rows, its columns and
its K. Each turn of the way changes one of them to what the choice has: of those with which the
schedule is legal that with which the cost model has the least time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from typing import Any

from lowering.ground.errors import InternalError, ScheduleError, UnsupportedError
from lowering.ground.progress import doing
from wsched.choose.gpus import GPUS, Gpu
from wsched.choose.heuristics import choose_params
from wsched.choose.learned.order import predicted
from wsched.choose.problem import Problem, demands
from wsched.choose.tiles import TRAVERSAL
from wsched.front.known import import_fusion
from wsched.ladder.climb import rate
from wsched.ladder.decisions import TILE, Decisions
from wsched.ladder.rungs import DEFINITION, RUNGS
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.schedule.matmul.limits import require_legal_for
from wsched.schedule.matmul.params import (
    CircularBufferOptions,
    ClusterDims,
    GemmTile,
    MatmulParams,
    MatMulTileOptions,
    MmaMacro,
)

__all__ = ["Turn", "params_of", "to_choice", "way"]

_Path = tuple[str, ...]
_Change = tuple[Any, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """A schedule on the way.

    Args:
        decision: what differs from the one before, with its values; empty of the first.
        params: all of it.
        us: microseconds that the cost model has for it.
    """

    decision: str
    params: MatmulParams
    us: float

    @property
    def kernel(self) -> CompiledFusion:
        """Its kernel."""
        return compile_fusion(import_fusion(DEFINITION), self.params)

    def to_dict(self, m: int, n: int, k: int, measured_us: float | None = None) -> dict[str, Any]:
        """As JSON data, for a problem of these extents and what a GPU took, if one was asked."""
        return {
            "decision": self.decision, "params": self.params.to_dict(),
            "predicted_us": self.us, "predicted_tflops": rate(m, n, k, self.us),
            "measured_us": measured_us,
            "measured_tflops": None if measured_us is None else rate(m, n, k, measured_us),
        }  # fmt: skip


def to_choice(m: int, n: int, k: int, gpu: Gpu = GPUS["H200"]) -> tuple[Turn, ...]:
    """The way from the last rung to what the cost model chooses for a problem on a GPU, whatever
    tables of measured schedules have for it.

    Args:
        m: rows.
        n: columns.
        k: what is summed over.
        gpu: where it is run.
    """
    problem = Problem.of(
        import_fusion(DEFINITION), {"M": m, "N": n, "K": k}, gpu.sms, (),
        l2_bytes=gpu.l2_bytes, gpu=gpu.name,
    )  # fmt: skip
    return way(params_of(RUNGS[-1].decided), choose_params(problem, tuned=False), problem)


def params_of(decided: Decisions) -> MatmulParams:
    """What a rung with load warps decides, as the matmul scheduler takes it."""
    tile = GemmTile(decided.rows, TILE, decided.slice)
    ahead = decided.stages // 2
    return MatmulParams(
        circular_buffer_options=CircularBufferOptions(
            smem_circular_buffer_stage=decided.stages,
            smem_circular_buffer_prefetch_gap=decided.stages - ahead,
        ),
        tile_sizes=MatMulTileOptions(tile, GemmTile(TILE, TILE, decided.slice)),
        mma_macro=MmaMacro(n=TILE),
        grid_traversal_factor=TRAVERSAL,
        cluster_dims=ClusterDims(m=decided.cluster),
        num_registers=decided.registers,
        wgmma_in_flight=decided.stages - ahead - 1,
        epilogue_stages=1,
    )


def way(start: MatmulParams, goal: MatmulParams, problem: Problem) -> tuple[Turn, ...]:
    """The schedules from one to another, both of them too.

    Args:
        start: the first.
        goal: the last; legal for the problem.
        problem: what is predicted.
    """
    found = [Turn("", start, predicted(problem, start).us)]
    with doing(lambda: f"decision {len(found)} of the way to the choice"):
        while found[-1].params != goal:
            found.append(_next(found[-1].params, goal, problem))
    return tuple(found)


def _next(here: MatmulParams, goal: MatmulParams, problem: Problem) -> Turn:
    """One decision further; several where none is legal alone."""
    apart = _apart(here, goal)
    for count in range(1, len(apart) + 1):
        tried = (_turn(here, few, problem) for few in combinations(apart.items(), count))
        legal = [turn for turn in tried if turn is not None]
        if legal:
            return min(legal, key=lambda turn: turn.us)
    raise InternalError("ladder", f"no legal schedule on the way to\n{goal}")


def _turn(
    here: MatmulParams, decisions: Iterable[tuple[str, Mapping[_Path, _Change]]], problem: Problem
) -> Turn | None:
    """``here`` with some decisions changed; None if that is illegal."""
    data, words = here.to_dict(), list[str]()
    for name, changes in decisions:
        words.append(_words(name, changes))
        for path, (_, now) in changes.items():
            reduce(lambda at, key: at[key], path[:-1], data)[path[-1]] = now
    try:
        params = MatmulParams.from_dict(data)
        require_legal_for(demands(problem), params)
    except (ScheduleError, UnsupportedError):
        return None
    return Turn(", ".join(words), params, predicted(problem, params).us)


def _apart(here: MatmulParams, goal: MatmulParams) -> dict[str, dict[_Path, _Change]]:
    """By decision, what of it differs."""
    found: dict[str, dict[_Path, _Change]] = {}
    for (path, was), (_, now) in zip(_leaves(here.to_dict()), _leaves(goal.to_dict()), strict=True):
        if was != now:
            found.setdefault(_decision(path), {})[path] = was, now
    return found


def _leaves(data: Mapping[str, Any], path: _Path = ()) -> Iterator[tuple[_Path, Any]]:
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*path, key))
        else:
            yield (*path, key), value


def _decision(path: _Path) -> str:
    """What a value is a part of: the instruction is as wide as the tile of a warpgroup."""
    match path:
        case ("tile_sizes", _, axis) | ("mma_macro", axis):
            return f"tile_sizes.{axis}"
    return path[0]


def _words(name: str, changes: Mapping[_Path, _Change]) -> str:
    """A decision with its values; of several that differ otherwise each by its name."""
    if len(set(map(str, changes.values()))) == 1 and len(changes) > 1:
        changes = {(name,): next(iter(changes.values()))}
    return ", ".join(f"{'.'.join(p)}: {was} → {now}" for p, (was, now) in changes.items())
