"""What a schedule costs: microseconds on an H200, part by part (design/0014-heuristics.md).

A kernel's time is that of the SM with most tiles. Each tile costs its k steps and its epilogue; a
step takes as long as the slowest of what it needs: the tensor cores, reads of shared memory, the
copies that fill it, or the way to the L2 and back shared by the stages in flight. In ping-pong the
epilogue of one warpgroup runs under the main loop of the other. The copy engine of an SM loads and
stores line by line, and a kernel is never faster than all its lines. Where CTAs share a tile, its
steps are divided and what adds up the parts comes on top. The whole is at least what memory takes
for its bytes, and where its energy would exceed the power limit the clock gives way.

The constants were fitted to 41 schedules on 73 shapes, measured on an H200 at its power limit on
2026-11-21 (``wsched bench schedules``), those of copies, stores and parts to 230 drawn problems of
2026-11-22 as well (tests/data has the times, design/performance.md the method).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil

from lowering.ground.frozen import quick
from wsched.choose import groups
from wsched.choose.combine import COMBINE_COMPUTED, added_us, combine_us
from wsched.choose.cost import Cost
from wsched.choose.crowding import crowded_us
from wsched.choose.epilogue import epilogue_cycles, store_lines
from wsched.choose.launch import Launch
from wsched.choose.memory import memory_bytes, moved_us, repeated_bytes, stream_us
from wsched.choose.problem import Problem
from wsched.choose.reckoned import reckoned
from wsched.choose.shape import Number, most
from wsched.choose.step import Step, steps_of
from wsched.choose.stored_parts import stored_in_parts
from wsched.schedule.matmul.params import MatmulParams

__all__ = [
    "Terms", "Tiled", "cost", "energy_of", "joined", "places", "priced", "slowed", "terms_of",
    "tiled", "together",
]  # fmt: skip

LAUNCH_US = {True: 1.36, False: 2.17}
"""From one kernel's end to the next one's first copy, by whether it is launched dependently."""

GHZ = 1.904
"""Clock where power does not limit it."""

START, HAND_OVER = 500, 176
"""Cycles: prologue; one warpgroup's main loop behind the other's."""

OVERLAPPED_WORK = 0.003
"""Cycles that an instruction of the epilogue takes from a main loop that runs meanwhile (``wsched
bench pingpong``: gelu, residual and silu beside the bare matmul)."""

STORE_LINE = 2.4
"""Cycles of the copy engine for a line that it stores; copy_engine.py has those that it loads."""

CLUSTER_START = 493
"""Cycles that a cluster adds to a kernel."""

PLACED = {2: 1.0, 4: 10 / 11, 8: 28 / 33}
"""Share of the SMs on which clusters of up to so many CTAs find a place: a cluster lies in one GPC,
whose SMs are an even number, but no multiple of four. The driver has 30 clusters of four for an
H200 (``bench tma``), not 33, and 14 of eight, reckoned from these; other chips differ, and the
launch asks the driver."""

FLOP_ENERGY, BYTE_ENERGY, CLOCK_EXPONENT = 7.3e-9, 1.6e-7, 0.22
"""Microseconds at the power limit for 2 FLOP (a multiply-add) and for a byte from memory. Power is
about the fourth to fifth power of the clock, because voltage follows it."""

SIBLING_US = 8.0
"""Microseconds that each further kernel costs which shares groups out: beside the mix of what each
takes alone, 3 to 5 kernels of 16 groups (8192 x 8192 x 5120) took 10 to 24 more, two to three of
Mixtral's gate and up none to 11 (H200, 2026-11-29), launched one behind the other. In one grid a
kernel without a group takes nothing that shows, and one that has some about as much as before: of
16 groups a fourth and a fifth took 0.998 and 0.995 of what three take, where their padding alone
says 0.98."""

STREAM_K = 1.2
"""What the main loops of stream-K take longer: CTAs are at different k of their tiles, so that they
meet at fewer operands in the L2. 12 shapes, same run."""

MEMORY_SHARP = 5
"""How sharply the larger of two limits wins, the exponent of their norm: what SMs and what memory
does, whose bytes come to some CTAs later than to others."""


@quick
@dataclass(frozen=True, slots=True)
class Terms:
    """What a kernel's time is made of, before it is said what runs beside what.

    Args:
        rounds: tiles of the CTA with most.
        steps: of the k loop of each.
        step: one of these.
        behind: cycles of a tile's main loop beside its steps, in ping-pong.
        ping_pong: whether epilogues run under main loops.
        epilogue: cycles of a tile's.
        stores: cycles of the copy engine for a tile's results.
        start: cycles of the prologue.
        cluster: cycles that a cluster adds to it.
        launch: microseconds until the kernel starts.
        combine: microseconds to add up the parts of tiles that CTAs share.
        stream: microseconds that memory takes for what CTAs ask, as they ask.
        moved: the same of everything once, with all SMs.
        energy: microseconds that it takes at the power limit.
        tiles: output tiles, with those that a cluster adds at an edge.
        sharp: how sharply the larger of what SMs and what memory does wins.
        yields: how much of what power lacks the clock gives way by, as an exponent.
    """

    rounds: float
    steps: float
    step: Step
    behind: float
    ping_pong: bool
    epilogue: float
    stores: float
    start: float
    cluster: float
    launch: float
    combine: float
    stream: float
    moved: float
    energy: float
    tiles: int
    sharp: float = MEMORY_SHARP
    yields: float = CLOCK_EXPONENT


def cost(problem: Problem, params: MatmulParams) -> Cost:
    """Predicted cost of a schedule, on an idle H200 whose caches hold nothing of the problem; for a
    GPU with tensor memory only :func:`~wsched.choose.reckoned.reckoned`.
    """
    if problem.target.tensor_memory is not None:
        return reckoned(problem, params)
    kernels = (params, *params.siblings)
    terms = [terms_of(problem, p) for p in kernels]
    return together([*zip(terms, groups.shares_of(problem, kernels), strict=True)])


def terms_of(problem: Problem, params: MatmulParams) -> Terms:
    """What a schedule's time is made of; of one with siblings as if it took all groups."""
    return tiled(problem, params).terms(Launch.of(params))


@quick
@dataclass(frozen=True, slots=True)
class Tiled:
    """Of a schedule's terms what is the same however it is launched, and of how many parts K is in,
    where these are several.

    Args:
        problem: whose product is computed, exchanged where the schedule says so.
        params: one of those of which all of this is true.
        ctas: of a cluster.
        clusters: of tiles.
        along_k: steps of a tile.
        at_once: CTAs that run at the same time.
        repeated: bytes of operands for which more than one asks.
        behind, epilogue, stores, energy, sharp, yields: as :class:`Terms` has them.
        waits: what main loops take longer than their steps.
        steps: one of these, by whether the kernel is launched dependently.
    """

    problem: Problem
    params: MatmulParams
    ctas: int
    clusters: int
    along_k: int
    at_once: int
    repeated: float
    behind: float
    epilogue: float
    stores: float
    energy: float
    sharp: float
    yields: float
    waits: float
    steps: Mapping[bool, Step]

    def terms(self, launch: Launch) -> Terms:
        """What the time is made of where it is launched so."""
        problem, params, ctas = self.problem, self.params, self.ctas
        tile, dependent = params.output_tile, launch.dependent
        work = _share(params, launch.parts, self.clusters, self.along_k, self.at_once // ctas)
        shares = problem.sms if params.stream_k else self.clusters * ctas * work.parts
        if params.stores_parts:
            combine = added_us(problem, work.parts)
        else:
            combine = combine_us(tile.m * tile.n, work.parts, ctas > 1)
            if problem.computed is not None and work.parts > 1:
                combine += COMBINE_COMPUTED * tile.m * tile.n / 8192
        return Terms(
            rounds=work.rounds,
            steps=work.steps / max(work.rounds, 1) * self.waits,
            step=self.steps[dependent],
            behind=self.behind,
            ping_pong=params.ping_pong,
            epilogue=self.epilogue,
            stores=self.stores,
            start=START,
            cluster=CLUSTER_START if ctas > 1 else 0,
            launch=LAUNCH_US[dependent],
            combine=combine,
            stream=stream_us(problem, shares, self.at_once, dependent, self.repeated)
            + crowded_us(problem, params, min(shares, self.at_once)),
            moved=moved_us(problem),
            energy=self.energy,
            tiles=self.clusters * ctas,
            sharp=self.sharp,
            yields=self.yields,
        )


def tiled(problem: Problem, params: MatmulParams) -> Tiled:
    """What a schedule shares with all that differ in their :class:`Launch`, but not in whether K is
    in one part.
    """
    tiles_m, tiles_n = problem.tiles(params)
    problem = problem.exchanged if params.exchange_operands else problem
    tile, cluster = params.output_tile, params.cluster_dims
    ctas, elements = cluster.m * cluster.n, tile.m * tile.n
    shares_out, repeated = groups.shares_out(problem), 0.0
    if not shares_out:
        repeated = repeated_bytes(problem, -(-tiles_n // cluster.n), -(-tiles_m // cluster.m))
    moved = memory_bytes(problem, params, tiles_m, tiles_n)
    energy = energy_of(problem, moved, groups.multiplied(problem, params))
    stored = stored_in_parts(problem) if params.stores_parts else problem
    return Tiled(
        problem=problem,
        params=params,
        ctas=ctas,
        clusters=_clusters(problem, params, tiles_m, tiles_n),
        along_k=problem.steps(tile.k),
        at_once=ctas * places(problem.sms, ctas),
        repeated=repeated,
        behind=HAND_OVER + OVERLAPPED_WORK * problem.work * elements if params.ping_pong else 0.0,
        epilogue=epilogue_cycles(stored, params),
        stores=STORE_LINE * store_lines(stored, params),
        energy=energy * groups.ENERGY if shares_out else energy,
        sharp=groups.SHARP if shares_out else MEMORY_SHARP,
        yields=groups.YIELDS if shares_out else CLOCK_EXPONENT,
        waits=STREAM_K if params.stream_k else groups.longer(problem, params),
        steps=steps_of(problem, params),
    )


def priced(terms: Terms) -> Cost:
    """What that costs: which of it runs beside the rest, and what that leaves."""
    return together(((terms, 1.0),))


def together(kernels: Sequence[tuple[Terms, float]]) -> Cost:
    """The same of kernels one behind the other, each with a share of the tiles that its terms have.

    They read the same from memory, each its share.
    """
    clock, first = GHZ * 1e3, kernels[0][0]
    worked = [(_worked(terms), share) for terms, share in kernels]
    main, exposed, energy = (
        sum(share * x for x, share in found)
        for found in (
            [(w.main, share) for w, share in worked],
            [(w.exposed, share) for w, share in worked],
            [(terms.energy, share) for terms, share in kernels],
        )
    )
    start = worked[0][0].start + SIBLING_US * clock * (len(kernels) - 1)
    alone = (main + exposed + start) / clock
    fed = joined(alone, first.stream, first.sharp)
    longer = slowed(alone, first.moved, energy, first.sharp, first.yields)
    most, _ = max(worked, key=lambda x: x[1])
    return Cost(
        launch_us=first.launch + start / clock,
        main_us=main / clock,
        epilogue_us=exposed / clock,
        combine_us=first.combine,  # memory and tensor cores idle meanwhile
        memory_us=fed - alone,
        power_us=joined(alone * longer, first.stream, first.sharp) - fed,
        tiles=ceil(sum(share * terms.tiles for terms, share in kernels)),
        rounds=ceil(sum(share * terms.rounds for terms, share in kernels)),
        step=most.limit,
    )


@quick
@dataclass(frozen=True, slots=True)
class _Worked:
    """Cycles of the CTA with most tiles: main loops, what else no main loop hides, and its start;
    and what a step waits for.
    """

    main: float
    exposed: float
    start: float
    limit: str


def _worked(terms: Terms) -> _Worked:
    rounds, step = terms.rounds, terms.step
    busy = step.busy
    cycles, limit = step.slowest(busy)
    main, epilogue = terms.steps * cycles + terms.behind, terms.epilogue
    exposed = rounds * epilogue
    if terms.ping_pong:
        turns = (terms.steps * busy + epilogue) / 2  # of a tile, where both epilogues are longer
        exposed = rounds * max(0.0, turns - main) + epilogue
    engine = rounds * (terms.steps * step.fill + terms.stores)
    exposed += max(0.0, engine - rounds * main - exposed)
    first = max(step.fill + busy - cycles, 0.0)  # stage until it is full, and the last one's step
    return _Worked(rounds * main, exposed, terms.start + first + terms.cluster, limit)


def _clusters(problem: Problem, params: MatmulParams, tiles_m: int, tiles_n: int) -> int:
    """Clusters of tiles; of groups of any number of rows or columns, as many as on average."""
    cluster = params.cluster_dims
    across_m, across_n = -(-tiles_m // cluster.m), -(-tiles_n // cluster.n)
    if not groups.shares_out(problem):
        return problem.batch * across_m * across_n
    others = across_n if problem.grouped == "m" else across_m
    return ceil(problem.batch * groups.tiles_across(problem, params)) * others


@lru_cache
def places(sms: int, ctas: int) -> int:
    """How many clusters of so many CTAs run at the same time."""
    share = next(share for most, share in PLACED.items() if ctas <= most)
    return max(int(sms * share + 1e-9) // ctas, 1)


@quick
@dataclass(frozen=True, slots=True)
class _Share:
    """Of the CTA with most work: its steps of the k loop, its tiles, and CTAs that share one."""

    steps: int
    rounds: int
    parts: int


def _share(params: MatmulParams, parts: int, tiles: int, steps: int, places: int) -> _Share:
    """What is dealt out: ``tiles`` of ``steps`` in ``parts`` to ``places`` CTAs, or clusters."""
    if params.stream_k:
        share = -(-tiles * steps // places)
        parts = 1 + -(-(steps - 1) // share) if share % steps and share else 1
        return _Share(share, max(1, -(-share // max(steps, 1))), parts)
    if params.stores_parts:  # parts are tiles as others, none waits for another
        rounds = -(-tiles * parts // places)
    else:
        rounds = -(-tiles // max(places // parts, 1))
    return _Share(rounds * -(-steps // parts), rounds, parts)


def energy_of(problem: Problem, moved: Number, multiplied: float = 1.0) -> Number:
    """Microseconds at the power limit that so many bytes and the products take; those of zeros, of
    rows and columns beyond the edges, take next to none.

    Args:
        problem: what is multiplied.
        moved: bytes from memory and to it.
        multiplied: rows for each that is the problem's, of none that are zeros.
    """
    wide = problem.k * problem.operand.bytes / 2
    flops = problem.products * problem.batch * problem.m * problem.n * wide
    return FLOP_ENERGY * flops * multiplied + BYTE_ENERGY * moved


def slowed(
    inner: Number, moved: float, energy: Number, sharp: float = MEMORY_SHARP,
    yields: float = CLOCK_EXPONENT,
) -> Number:  # fmt: skip
    """How much longer the clock of the SMs makes ``inner`` microseconds so that power suffices.

    That of memory, which takes the :func:`moved_us`, does not change.
    """
    us = joined(inner, moved, sharp)
    return (1 + (energy / us) ** 6) ** (yields / 6)


def joined(inner: Number, stream: Number, sharp: float = MEMORY_SHARP) -> Number:
    """Microseconds of what SMs do and what memory does, which mostly run at the same time."""
    largest = most(inner, stream)
    both = (inner / largest) ** sharp + (stream / largest) ** sharp
    return largest * both ** (1 / sharp)
