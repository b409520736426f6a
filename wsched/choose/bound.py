"""The least that candidates can cost, of all at once: what need not be made and priced.

The laws of :mod:`wsched.choose.cost_model`, of arrays of tiles in clusters. What only a made
schedule knows is taken as the best that it can be (:mod:`wsched.choose.bound_tile` has stages and
chunks), so that the choice prices a handful; ``tests/choose/test_bound.py`` holds the cost of each
candidate against its bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from math import inf
from typing import TypeAlias

import numpy as np

from wsched.choose import cost_model
from wsched.choose.bound_tile import Counts, Held, Numbers, held_by
from wsched.choose.combine import added_us, combine_us
from wsched.choose.copy_engine import promotions
from wsched.choose.memory import (
    L2_KEEPS,
    START_US,
    moved_us,
    repeated_bytes,
    result_bytes,
    stream_us,
)
from wsched.choose.problem import Problem
from wsched.choose.shape import Shape
from wsched.choose.step import Step, steps_of_shape
from wsched.choose.stored_parts import in_parts_at_all, stored_in_parts
from wsched.choose.tiles import LEAST_STEPS, TRAVERSAL, Tile, parts_for
from wsched.schedule.matmul.params import ClusterDims, SplitKMode

__all__ = ["InParts", "least_in_parts", "least_us"]

InParts: TypeAlias = tuple[SplitKMode, int]
"""Who adds up parts of K, and how many."""

ROUNDING = 1 - 1e-9
"""What sums in another order may differ by."""


def least_us(problem: Problem, tried: Sequence[tuple[Tile, ClusterDims]]) -> list[float]:
    """Microseconds below which the model predicts no candidate of each tile in a cluster, however
    many parts K is in; infinite where registers or shared memory have no room for the tile.

    It is 0 where only the device knows the sizes; no tile is for tensor memory.
    """
    least: list[float] = least_in_parts(problem, tried)[1].min(axis=1).tolist()
    return least


def least_in_parts(
    problem: Problem, tried: Sequence[tuple[Tile, ClusterDims]]
) -> tuple[tuple[InParts, ...], Numbers]:
    """Ways to have K in parts, or in one, and the same of each tile in a cluster: a row of what it
    costs at least in each of these ways, infinite where it has no such parts.
    """
    every = _ways_to_part(problem.sms)
    if problem.grouped:
        return every, np.zeros((len(tried), len(every)))
    found = np.full((len(tried), len(every)), inf)
    turned = np.array([tile.exchanged for tile, _ in tried])
    for exchanged in (False, True):
        at = np.flatnonzero(turned == exchanged)
        if len(at):
            of = problem.exchanged if exchanged else problem
            found[at] = _least(of, Shape.of_all([tried[i] for i in at.tolist()], exchanged))
    return every, found


@lru_cache
def _ways_to_part(sms: int) -> tuple[InParts, ...]:
    """Those of a GPU of so many multiprocessors, by who adds them up; of one part nobody does."""
    return tuple(product(SplitKMode, (1, *parts_for(sms))))


def _least(problem: Problem, tiles: Shape) -> Numbers:
    """The same of tiles of one product."""
    across_m = _dealt(problem.m_entries or (problem.m,), tiles.m, tiles.cluster_m)
    across_n = _dealt(problem.n_entries or (problem.n,), tiles.n, tiles.cluster_n)
    clusters: Counts = problem.batch * across_m * across_n
    steps = np.sum([-(-part // tiles.k) for part in problem.k_entries or (problem.k,)], axis=0)
    at_once = np.array([cost_model.places(problem.sms, ctas) for ctas in tiles.ctas.tolist()])
    held = held_by(problem, tiles)
    tried = np.array([1, *parts_for(problem.sms)])
    at, which = _shared_out(problem, clusters, steps, at_once, tried)
    parts = tried[which]
    rounds = -(-clusters[at] // np.maximum(at_once[at] // parts, 1))
    work: Numbers = rounds.astype(np.float64) * -(-steps[at] // parts)  # 2^63 at sizes of 2^30
    energy = _energy(problem, across_m)
    repeated = repeated_bytes(problem, across_n, across_m)[at]
    combine = combine_us((tiles.m * tiles.n)[at], parts, tiles.ctas[at] > 1)
    added_up = [(held, combine)]
    if in_parts_at_all(problem):
        added = np.where(parts > 1, added_us(problem, parts), inf)
        added_up.append((held_by(stored_in_parts(problem), tiles), added))
    shares, together = (clusters * tiles.ctas)[at] * parts, (at_once * tiles.ctas)[at]
    streams = {d: _stream_us(problem, shares, together, d, repeated) for d in cost_model.LAUNCH_US}
    found = np.full((len(tiles.m), len(SplitKMode), len(tried)), inf)
    for mode, (room, put_together) in enumerate(added_up):
        steps_by_launch = steps_of_shape(
            problem, tiles, np.maximum(room.stages, 1), promotions(problem)
        )
        ways = []
        for dependent, launch in cost_model.LAUNCH_US.items():
            cycles = _cycles(problem, tiles, room, steps_by_launch[dependent], at, rounds, work)
            alone = cycles / (cost_model.GHZ * 1e3)
            longer = cost_model.slowed(alone, moved_us(problem), energy[at])
            fed = cost_model.joined(alone * longer, streams[dependent])
            ways.append(launch + put_together + fed)
        found[at, mode, which] = np.where(held.legal[at], ROUNDING * np.minimum(*ways), inf)
    return found.reshape(len(tiles.m), -1)


def _dealt(sizes: Sequence[int], tile: Counts, ctas: Counts) -> Counts:
    """Clusters of so many tiles that what stands side by side takes, at least."""
    tiles = -(-sum(sizes) // tile)
    found: Counts = -(-tiles // ctas)
    return found


def _shared_out(
    problem: Problem, clusters: Counts, steps: Counts, at_once: Counts, tried: Counts
) -> tuple[Counts, Counts]:
    """Which tiles, each as often as there are ways to part its K, and which of these it is."""
    every = np.arange(len(clusters))
    at = [every]
    if problem.products == 1 and not problem.batch_invariant:
        for parts in tried[1:].tolist():
            fits = (parts * clusters <= at_once) & (parts * LEAST_STEPS <= steps)
            at.append(every[fits])
    return np.concatenate(at), np.repeat(np.arange(len(at)), [len(found) for found in at])


def _cycles(
    problem: Problem, tiles: Shape, held: Held, step: Step, at: Counts, rounds: Counts,
    work: Numbers,
) -> Numbers:  # fmt: skip
    """Cycles of what :func:`~wsched.choose.cost_model.priced` has one after the other, where
    ``rounds`` tiles with ``work`` steps in all are computed ``at`` these places in the arrays.

    A step that takes longer than the least leaves less of the first stage to wait for, by no more
    than what one step takes longer: so the sum of both is least where the step is. Not where two
    epilogues hide it, and not of a kernel without steps.
    """
    turns, busy, fill = tiles.ping_pong, step.busy, step.fill
    longest = np.maximum(np.maximum(busy + step.meeting, fill), step.waited(busy))
    first = np.maximum(fill + busy - longest, 0.0)[at] * (work > 0)
    issued = cost_model.OVERLAPPED_WORK * problem.work * tiles.m * tiles.n
    behind = np.where(turns, cost_model.HAND_OVER + issued, 0.0)[at]
    epilogue = held.epilogue[at]
    last = np.where(turns[at], epilogue, rounds * epilogue)
    main = work * longest[at] + rounds * behind + first + last
    engine = work * fill[at] + rounds * cost_model.STORE_LINE * held.lines[at]
    hidden = (work * busy[at] + rounds * epilogue) / 2 + epilogue
    cycles = np.maximum(np.maximum(main, engine), np.where(turns[at], hidden, 0.0))
    found: Numbers = cycles + cost_model.START + cost_model.CLUSTER_START * (tiles.ctas > 1)[at]
    return found


def _stream_us(
    problem: Problem, shares: Counts, places: Counts, dependent: bool, repeated: Numbers
) -> Numbers:
    """What memory takes; of tensors side by side, of which there may be more tiles, at least."""
    if problem.m_entries or problem.n_entries:
        return np.where(shares > 0, moved_us(problem), START_US)
    found: Numbers = stream_us(problem, shares, places, dependent, repeated)
    return found


def _energy(problem: Problem, across_m: Counts) -> Numbers:
    """:func:`wsched.choose.cost_model.energy_of` of what is moved."""
    a, b = problem.operand_bytes
    again: Numbers = np.full(len(across_m), float(b))
    if b >= L2_KEEPS * problem.batch * problem.l2_bytes:
        again *= np.maximum(-(-across_m // TRAVERSAL[0]), 1)
    least = cost_model.energy_of(problem, float(a + result_bytes(problem)))
    found: Numbers = least + cost_model.BYTE_ENERGY * again
    return found
