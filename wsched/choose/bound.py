"""The least that candidates can cost, of all at once: what need not be made and priced.

The model of :mod:`wsched.choose.cost_model`, with its constants, over arrays of tiles in clusters.
What only a made schedule knows is taken as the best that it can be (:mod:`wsched.choose.bound_tile`
has stages and chunks), so that the choice prices a handful. Whoever changes the model changes it
here as well: ``tests/choose/test_bound.py`` holds each candidate's cost against its bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np

from wsched.choose import cost_model
from wsched.choose.bound_tile import (
    Counts,
    Held,
    Many,
    Numbers,
    busy_cycles,
    filled_cycles,
    held_by,
)
from wsched.choose.copy_engine import asks_dearly
from wsched.choose.memory import (
    APART_BYTES,
    CLOSE_BYTES,
    CLOSE_BYTES_IN_ALL,
    L2_KEEPS,
    REPEATED,
    START_US,
    bytes_per_us,
    least_bytes,
    moved_us,
    result_bytes,
)
from wsched.choose.problem import Problem
from wsched.choose.step import CLUSTER_LATENCY, CLUSTER_STEP, FILL_BYTES, HELD_STEPS, LATENCY
from wsched.choose.tiles import LEAST_STEPS, SPLITS, TRAVERSAL, Tile
from wsched.schedule.matmul.params import ClusterDims

__all__ = ["least_us"]

ROUNDING = 1 - 1e-9
"""What sums in another order may differ by."""


def least_us(problem: Problem, tried: Sequence[tuple[Tile, ClusterDims]]) -> list[float]:
    """Microseconds below which the model predicts no candidate of each tile in a cluster, however
    many parts K is in; infinite where registers or shared memory have no room for the tile.

    It is 0 where only the device knows the sizes; no tile is for tensor memory.
    """
    if problem.grouped:
        return [0.0] * len(tried)
    found = np.full(len(tried), inf)
    for exchanged in (False, True):
        at = [i for i, (tile, _) in enumerate(tried) if tile.exchanged is exchanged]
        if at:
            of = problem.exchanged if exchanged else problem
            found[at] = _least(of, Many.of([tried[i] for i in at], exchanged))
    least: list[float] = (ROUNDING * found).tolist()
    return least


def _least(problem: Problem, tiles: Many) -> Numbers:
    """The same of tiles of one product, before rounding."""
    across_m = _dealt(problem.m_entries or (problem.m,), tiles.m, tiles.cluster_m)
    across_n = _dealt(problem.n_entries or (problem.n,), tiles.n, tiles.cluster_n)
    clusters: Counts = problem.batch * across_m * across_n
    steps = np.sum([-(-part // tiles.k) for part in problem.k_entries or (problem.k,)], axis=0)
    at_once = np.array([cost_model.places(problem.sms, ctas) for ctas in tiles.ctas.tolist()])
    held = held_by(problem, tiles)
    at, parts = _shared_out(problem, clusters, steps, at_once)
    rounds = -(-clusters[at] // np.maximum(at_once[at] // parts, 1))
    work: Numbers = rounds.astype(np.float64) * -(-steps[at] // parts)  # 2^63 at sizes of 2^30
    energy = _energy(problem, across_m)
    repeated = _repeated(problem, across_m, across_n)
    size = (tiles.m * tiles.n)[at] / 8192
    more = cost_model.COMBINE_TILE + cost_model.COMBINE_PART * (parts - 1)
    combine = np.where(parts > 1, cost_model.COMBINE + more * size, 0.0)
    shares, together = (clusters * tiles.ctas)[at] * parts, (at_once * tiles.ctas)[at]
    found = np.full(len(tiles.m), inf)
    for dependent, launch in cost_model.LAUNCH_US.items():
        cycles = _cycles(problem, tiles, held, dependent, at, rounds, work)
        alone = cycles / (cost_model.GHZ * 1e3)
        stream = _stream_us(problem, shares, together, dependent, repeated[at])
        fed = _joined(alone * _slowed(alone, moved_us(problem), energy[at]), stream)
        np.minimum.at(found, at, launch + combine + fed)
    return np.where(held.legal, found, inf)


def _dealt(sizes: Sequence[int], tile: Counts, ctas: Counts) -> Counts:
    """Clusters of so many tiles that what stands side by side takes, at least."""
    tiles = -(-sum(sizes) // tile)
    found: Counts = -(-tiles // ctas)
    return found


def _shared_out(
    problem: Problem, clusters: Counts, steps: Counts, at_once: Counts
) -> tuple[Counts, Counts]:
    """Which tiles, each as often as there are ways to part its K, and the parts."""
    every = np.arange(len(clusters))
    at, many = [every], [1]
    if problem.products == 1 and not problem.batch_invariant:
        for parts in SPLITS:
            fits = (parts * clusters <= at_once) & (parts * LEAST_STEPS <= steps)
            at.append(every[fits])
            many.append(parts)
    return np.concatenate(at), np.repeat(many, [len(found) for found in at])


def _cycles(
    problem: Problem, tiles: Many, held: Held, dependent: bool, at: Counts, rounds: Counts,
    work: Numbers,
) -> Numbers:  # fmt: skip
    """Cycles of what :func:`~wsched.choose.cost_model.priced` has one after the other, where
    ``rounds`` tiles with ``work`` steps in all are computed ``at`` these places in the arrays.

    A step that takes longer than the least leaves less of the first stage to wait for, by no more
    than what one step takes longer: so the sum of both is least where the step is. Not where two
    epilogues hide it, and not of a kernel without steps.
    """
    clustered, turns = tiles.ctas > 1, tiles.ping_pong
    busy = busy_cycles(problem, tiles)
    fill = filled_cycles(problem, tiles, FILL_BYTES[dependent or asks_dearly(problem)])
    holds = np.where(turns, HELD_STEPS[True], HELD_STEPS[False])
    latency = LATENCY + fill + CLUSTER_LATENCY * clustered + holds * busy
    step = np.maximum(busy + CLUSTER_STEP * clustered, fill)
    step = np.maximum(step, latency / np.maximum(held.stages, 1))
    first = np.maximum(fill + busy - step, 0.0)[at] * (work > 0)
    issued = cost_model.OVERLAPPED_WORK * problem.work * tiles.m * tiles.n
    behind = np.where(turns, cost_model.HAND_OVER + issued, 0.0)[at]
    epilogue = held.epilogue[at]
    last = np.where(turns[at], epilogue, rounds * epilogue)
    main = work * step[at] + rounds * behind + first + last
    engine = work * fill[at] + rounds * cost_model.STORE_LINE * held.lines[at]
    hidden = (work * busy[at] + rounds * epilogue) / 2 + epilogue
    longest = np.maximum(np.maximum(main, engine), np.where(turns[at], hidden, 0.0))
    found: Numbers = longest + cost_model.START + cost_model.CLUSTER_START * clustered[at]
    return found


def _stream_us(
    problem: Problem, shares: Counts, places: Counts, dependent: bool, repeated: Numbers
) -> Numbers:
    """:func:`wsched.choose.memory.stream_us`; of tensors side by side, of which there may be more
    tiles, what it is at least.
    """
    if problem.m_entries or problem.n_entries:
        return np.where(shares > 0, moved_us(problem), START_US)
    full, last = np.divmod(shares, places)
    each = (least_bytes(problem) + REPEATED * repeated) / np.maximum(shares, 1)
    rate, most = bytes_per_us(problem), CLOSE_BYTES_IN_ALL / np.maximum(last, 1)
    behind = np.maximum(CLOSE_BYTES, np.minimum(APART_BYTES, most))
    close = dependent & (2 * last > problem.sms)
    single = np.where(close, CLOSE_BYTES, APART_BYTES)
    end = np.maximum(last * each / rate, each / np.where(full > 0, behind, single))
    moved: Numbers = START_US + full * places * each / rate + np.where(last > 0, end, 0.0)
    return moved


def _repeated(problem: Problem, across_m: Counts, across_n: Counts) -> Numbers:
    """:func:`wsched.choose.memory.repeated_bytes`."""
    a, b = problem.operand_bytes
    asking_a, asking_b = (np.maximum(n, 1).astype(np.float64) for n in (across_n, across_m))
    found: Numbers = a * (1 - 1 / asking_a) + b * (1 - 1 / asking_b)
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


def _slowed(inner: Numbers, moved: float, energy: Numbers) -> Numbers:
    """:func:`wsched.choose.cost_model.slowed`."""
    us = _joined(inner, np.full_like(inner, moved))
    longer: Numbers = (1 + (energy / us) ** 6) ** (cost_model.CLOCK_EXPONENT / 6)
    return longer


def _joined(inner: Numbers, stream: Numbers) -> Numbers:
    """:func:`wsched.choose.cost_model.joined`."""
    largest = np.maximum(inner, stream)
    sharp = cost_model.MEMORY_SHARP
    both = (inner / largest) ** sharp + (stream / largest) ** sharp
    total: Numbers = largest * both ** (1 / sharp)
    return total
