"""What trees are told of a schedule: numbers that mean the same at every size, and on every GPU.

Times are shares of the predicted time and of a step, so that most of it carries over to a GPU with
other clocks and another memory.
"""

from __future__ import annotations

from math import log, log2

from lowering.ground.frozen import replaced
from wsched.choose.cost_model import Terms, places, priced, terms_of
from wsched.choose.memory import bytes_per_us
from wsched.choose.problem import Problem
from wsched.fusion import DataType
from wsched.schedule.matmul.chunks import chunk_columns
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["FEATURES", "features"]


def _of_laws(problem: Problem, params: MatmulParams, terms: Terms) -> dict[str, float]:
    """What the laws say of the whole kernel and of a step."""
    cost, step = priced(terms), terms.step
    busy, us = step.busy, cost.us
    cycles, _ = step.slowest(busy)
    cluster = params.cluster_dims
    ctas = cluster.m * cluster.n
    at_once = ctas * places(problem.sms, ctas)
    shares = terms.tiles * params.splitk_factor
    return {
        "log us": log(us),
        "launch": cost.launch_us / us,
        "k loops": cost.main_us / us,
        "epilogues": cost.epilogue_us / us,
        "adding parts": cost.combine_us / us,
        "memory": cost.memory_us / us,
        "power": cost.power_us / us,
        "streamed": terms.stream / us,
        "moved": terms.moved / us,
        "energy": terms.energy / us,
        "log rounds": log(terms.rounds),
        "log steps": log(max(terms.steps, 1.0)),
        "log shares": log(shares),
        "last round": shares / at_once % 1.0,
        "places taken": shares / at_once / terms.rounds,
        "busy": busy / cycles,
        "copies": step.fill / cycles,
        "latency": step.waited(busy) / cycles,
        "products": float(step.products / cycles),
        "shared memory": float(step.smem / cycles),
        "epilogue of loop": terms.epilogue / (max(terms.steps, 1.0) * cycles),
    }


def _of_schedule(problem: Problem, params: MatmulParams) -> dict[str, float]:
    """What the schedule is."""
    tile, cluster = params.output_tile, params.cluster_dims
    stages = params.circular_buffer_options.smem_circular_buffer_stage
    asked = (tile.m / cluster.n + tile.n / cluster.m) * tile.k * problem.operand.bytes
    return {
        "tile m": tile.m,
        "tile n": tile.n,
        "tile k": tile.k,
        "elements": tile.m * tile.n,
        "warpgroups": params.warpgroups,
        "ping-pong": params.ping_pong,
        "side by side": params.tile_sizes.warp_tile.n != tile.n,
        "exchanged": params.exchange_operands,
        "cluster m": cluster.m,
        "cluster n": cluster.n,
        "log parts": log(params.splitk_factor),
        "parts stored": params.stores_parts,
        "stages": stages,
        "log asked": log(asked),
        "on the way": stages * asked,
        "buffers": params.epilogue_stages,
        "chunk": chunk_columns(params, *problem.results),
        "through smem": params.use_smem_epilogue,
        "early": params.programmatic_dependent_launch,
        "hints": params.prefetched_steps > 0,
    }


def _of_problem(problem: Problem, params: MatmulParams) -> dict[str, float]:
    """What is multiplied, as the tiles see it: exchanged where these are."""
    p = problem.exchanged if params.exchange_operands else problem
    tile = params.output_tile
    across_m, across_n = -(-p.m // tile.m), -(-p.n // tile.n)
    bytes_ = (p.m * p.k + p.n * p.k) * p.operand.bytes
    return {
        "log m": log(p.m),
        "log n": log(p.n),
        "log k": log(p.k),
        "log k of a part": log(p.k / params.splitk_factor),
        "log tiles m": log(across_m),
        "log tiles n": log(across_n),
        "used m": p.m / (across_m * tile.m),
        "used n": p.n / (across_n * tile.n),
        "rows of A": log2(p.align_a),
        "rows of B": log2(p.align_b),
        "M-major": p.m_major,
        "N-major": p.n_major,
        "log of the L2": log(bytes_ / p.l2_bytes),
        "log of memory's rate": log(bytes_per_us(p)),
    }


def _all(problem: Problem, params: MatmulParams, terms: Terms) -> dict[str, float]:
    return {
        **_of_laws(problem, params, terms),
        **_of_schedule(problem, params),
        **_of_problem(problem, params),
    }


_SOME, _ANY = Problem(64, 64, 64, DataType.BFloat16, (DataType.BFloat16,), 132), MatmulParams()
FEATURES = tuple(_all(_SOME, _ANY, terms_of(_SOME, _ANY)))
"""Their names, in order."""


def features(
    problem: Problem, params: MatmulParams, terms: Terms | None = None
) -> tuple[float, ...]:
    """What trees are told of a schedule at a problem, in the order of :data:`FEATURES`: of the
    product alone, as if nothing were reduced beside it and all Bs were one.

    Args:
        problem: what is multiplied.
        params: the schedule.
        terms: what its time is made of there, where that is known.
    """
    alone = replaced(problem, n_entries=(), over_rows=0, over_columns=0, over_both=0, of_sums=False)
    known = terms if alone is problem else None
    return tuple(_all(alone, params, known or terms_of(alone, params)).values())
