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

from dataclasses import dataclass
from math import ceil

from lowering.target.ptx import WARPGROUP, stored_columns
from wsched.choose.computed import computing_cycles
from wsched.choose.copy_engine import asks_dearly, fill_cycles
from wsched.choose.epilogue import epilogue_cycles, store_lines
from wsched.choose.memory import moved_us, repeated_bytes, result_bytes, stream_us
from wsched.choose.problem import Problem
from wsched.choose.thread_loads import thread_cycles
from wsched.schedule.matmul.params import ClusterDims, MatmulParams

__all__ = [
    "Cost", "combine_us", "cost", "energy_of", "joined", "places", "slowed",
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

FLOPS_PER_CYCLE = 4096
"""Of the tensor cores of an SM, 16-bit operands; narrower ones in proportion to their bytes (NVIDIA
H100 white paper: 989.4 TFLOP/s at 1830 MHz with 132 SMs)."""

WGMMA, WGMMA_N, STEP, SHARED_STEP = 30, 16, 21, 72
"""Cycles: least time of a wgmma; columns that it computes at once, so that 152 take as long as 160
(fitted: exchanged tiles of 104, 152 and 200 columns beside those of 144 and 160); barriers of a
step; more, where two warpgroups share it."""

SMEM_BYTES, FILL_BYTES = 146, {True: 60, False: 75}
"""Bytes in a cycle: shared memory read by wgmma and filled; loaded from the L2, by whether the
kernel is launched dependently (then CTAs of one GPC do not start together and share less). Beside
lines that come slowly others come no faster than ``bench tma`` has for lines: 61."""

STORE_LINE = 2.4
"""Cycles of the copy engine for a line that it stores; copy_engine.py has those that it loads."""

PROMOTED = 60
"""Cycles of a wait for all wgmmas, and of the first one behind it. Two warpgroups hide it (128x192
within 2 % of what is predicted), three do not (192x96 took 14 % longer; H200, 2026-11-22)."""

LATENCY = 1600
"""Cycles of a copy from the L2 into shared memory, of a kernel that is busy with others."""

HELD_STEPS = {True: 1.0, False: 1.15}
"""Steps for which a stage is held from full to empty, by whether the kernel is ping-pong: its own
step, and of two warpgroups that share it until the later one has let go."""

CLUSTER_LATENCY, CLUSTER_STEP, CLUSTER_START = 195, 14, 493
"""Cycles that a cluster adds to a copy, to a step and to a kernel."""

PLACED = (10, 11)
"""Share of the SMs on which clusters of more than two CTAs find a place: a cluster lies in one GPC,
whose SMs are an even number, but no multiple of four. The driver has 30 clusters of four for an
H200 (``bench tma``), not 33; other chips differ, and the launch asks the driver."""

FLOP_ENERGY, BYTE_ENERGY, CLOCK_EXPONENT = 7.3e-9, 1.6e-7, 0.22
"""Microseconds at the power limit for 2 FLOP (a multiply-add) and for a byte from memory. Power is
about the fourth to fifth power of the clock, because voltage follows it."""

COMBINE, COMBINE_TILE, COMBINE_PART = 1.2, 0.4, 0.4
"""Microseconds that parts of a tile cost: the way of a flag through the L2; for 8192 elements of
the tile, once and for each part that is added. 213 kernels with 2, 3, 4 and 8 parts beside the same
without (H200, 2026-11-21) had 1.4 for a tile of 64x64 in two parts, 2.3 for 128x128, 10.2 for
128x256 in eight; in the problems of ``bench random`` each part takes a third more."""

STREAM_K = 1.2
"""What the main loops of stream-K take longer: CTAs are at different k of their tiles, so that they
meet at fewer operands in the L2. 12 shapes, same run."""

UNEVEN = 0.5
"""Tiles of a group that its last rows leave empty, on average over sizes."""

IDLE = 0.5
"""What of the time of a warpgroup is saved that has nothing of such a tile: its share is loaded all
the same. Estimated."""

MEMORY_SHARP = 5
"""How sharply the larger of two limits wins, the exponent of their norm: what SMs and what memory
does, whose bytes come to some CTAs later than to others."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Microseconds of a kernel, and what they are made of.

    Args:
        launch_us: start of the kernel.
        main_us: the k loops of the SM with most tiles.
        epilogue_us: epilogues that no main loop hides.
        combine_us: adding up the parts of tiles that CTAs share.
        memory_us: more, because L2 or memory are slower than that.
        power_us: more, because the power limit takes clock.
        tiles: output tiles, with those that a cluster adds at an edge.
        rounds: tiles of the CTA with most.
        step: what a step of the k loop waits for: ``tensor cores``, ``shared memory``,
            ``copies``, ``latency`` or ``threads that load``.
    """

    launch_us: float
    main_us: float
    epilogue_us: float
    combine_us: float
    memory_us: float
    power_us: float
    tiles: int
    rounds: int
    step: str

    @property
    def parts(self) -> dict[str, float]:
        """Microseconds by what takes them."""
        return {
            "start": self.launch_us,
            "k loops": self.main_us,
            "epilogues": self.epilogue_us,
            "adding parts": self.combine_us,
            "memory": self.memory_us,
            "power": self.power_us,
        }

    @property
    def us(self) -> float:
        """The sum."""
        return sum(self.parts.values())

    def __str__(self) -> str:
        shown = {n: us for n, us in self.parts.items() if us or n != "adding parts"}
        parts = ", ".join(f"{name} {us:.1f}" for name, us in shown.items())
        rounds = f"{self.rounds} round{'s' * (self.rounds != 1)}"
        return f"{self.us:.1f} us: {parts} ({rounds} of tiles, a step waits for {self.step})"

    def worse(self, best: Cost) -> str:
        """What costs more than in a faster schedule: the part with the largest difference."""
        more = {name: us - best.parts[name] for name, us in self.parts.items()}
        name = max(more, key=lambda n: more[n])
        why = {
            "k loops": f", which wait for {self.step} in {self.rounds} rounds, not {best.rounds}"
            if self.rounds != best.rounds
            else f", which wait for {self.step}",
        }.get(name, "")
        return f"{more[name]:.1f} us more in {name}{why}"


def cost(problem: Problem, params: MatmulParams) -> Cost:
    """Predicted cost of a schedule, on an idle H200 whose caches hold nothing of the problem."""
    tiles_m, tiles_n = problem.tiles(params)
    problem = problem.exchanged if params.exchange_operands else problem
    tile, cluster = params.output_tile, params.cluster_dims
    ctas = cluster.m * cluster.n
    clusters = _clusters(problem, params, tiles_m, tiles_n)
    steps = problem.steps(tile.k)
    work = _share(params, clusters, steps, places(problem.sms, ctas))
    rounds = work.rounds
    step = _step(problem, params)
    each = work.steps / max(rounds, 1) * (STREAM_K if params.stream_k else 1)
    main, epilogue = each * step.cycles, epilogue_cycles(problem, params)
    exposed = rounds * epilogue
    if params.ping_pong:
        main += HAND_OVER + OVERLAPPED_WORK * problem.work * tile.m * tile.n
        turns = (each * step.busy + epilogue) / 2  # of a tile, where both epilogues are longer
        exposed = rounds * max(0.0, turns - main) + epilogue
    engine = rounds * (each * step.fill + STORE_LINE * store_lines(problem, params))
    exposed += max(0.0, engine - rounds * main - exposed)
    start = START + step.first + (CLUSTER_START if ctas > 1 else 0)
    clock = GHZ * 1e3
    alone = (rounds * main + exposed + start) / clock
    shares = problem.sms if params.stream_k else clusters * ctas * work.parts
    at_once = ctas * places(problem.sms, ctas)
    repeated = repeated_bytes(problem, -(-tiles_n // cluster.n), -(-tiles_m // cluster.m))
    dependent = params.programmatic_dependent_launch
    stream = stream_us(problem, shares, at_once, dependent, repeated)
    energy = energy_of(problem, _memory_bytes(problem, params, tiles_m, tiles_n))
    fed = joined(alone, stream)
    combine = combine_us(tile.m * tile.n, work.parts)  # memory and tensor cores idle meanwhile
    return Cost(
        launch_us=LAUNCH_US[dependent] + start / clock,
        main_us=rounds * main / clock,
        epilogue_us=exposed / clock,
        combine_us=combine,
        memory_us=fed - alone,
        power_us=joined(alone * slowed(alone, moved_us(problem), energy), stream) - fed,
        tiles=clusters * ctas,
        rounds=rounds,
        step=step.limit,
    )


def _clusters(problem: Problem, params: MatmulParams, tiles_m: int, tiles_n: int) -> int:
    """Clusters of tiles; of groups of any number of rows or columns, half a one more for each than
    they fill.
    """
    tile, cluster = params.output_tile, params.cluster_dims
    across_m, across_n = -(-tiles_m // cluster.m), -(-tiles_n // cluster.n)
    if problem.grouped not in ("m", "n"):
        return problem.batch * across_m * across_n
    if problem.grouped == "n":
        filled, others = problem.n / (tile.n * cluster.n), across_m
    else:
        filled, others = problem.m / (tile.m * cluster.m), across_n
    empty = UNEVEN
    if problem.grouped == "m" and not params.ping_pong:
        warps = params.tile_sizes.warp_tile.m / tile.m
        empty -= IDLE * UNEVEN * (1 - warps)
    return ceil(problem.batch * (filled + empty)) * others


def places(sms: int, ctas: int) -> int:
    """How many clusters of so many CTAs run at the same time."""
    filled = sms * PLACED[0] // PLACED[1] if ctas > 2 else sms
    return max(filled // ctas, 1)


@dataclass(frozen=True, slots=True)
class _Share:
    """Of the CTA with most work: its steps of the k loop, its tiles, and CTAs that share one."""

    steps: int
    rounds: int
    parts: int


def _share(params: MatmulParams, tiles: int, steps: int, places: int) -> _Share:
    """What is dealt out: ``tiles`` of ``steps`` to ``places`` CTAs, or clusters of them."""
    if params.stream_k:
        share = -(-tiles * steps // places)
        parts = 1 + -(-(steps - 1) // share) if share % steps and share else 1
        return _Share(share, max(1, -(-share // max(steps, 1))), parts)
    parts = params.splitk_factor
    rounds = -(-tiles // max(places // parts, 1))
    return _Share(rounds * -(-steps // parts), rounds, parts)


def combine_us(elements: int, parts: int) -> float:
    """Microseconds to add up ``parts`` of a tile of so many elements."""
    size = elements / 8192
    return COMBINE + (COMBINE_TILE + COMBINE_PART * (parts - 1)) * size if parts > 1 else 0.0


@dataclass(frozen=True, slots=True)
class _Step:
    """Cycles of a step of the k loop: of the whole, by what takes them, of the wgmmas, and of the
    copies that fill a stage.
    """

    cycles: float
    limit: str
    busy: float
    fill: float

    @property
    def first(self) -> float:
        """Of the first stage until it is full, and of the last one when nothing is filled."""
        return max(self.fill + self.busy - self.cycles, 0.0)


def _step(problem: Problem, params: MatmulParams) -> _Step:
    """A step of the k loop of the product that is computed."""
    tile, clustered = params.output_tile, params.cluster_dims != ClusterDims()
    blocks = tile.m // 64 * params.across
    size = problem.operand.bytes
    wide = tile.k * size / 2  # columns of 16-bit operands that take as long
    flops = 2 * tile.m * -(-tile.n // WGMMA_N) * WGMMA_N * wide
    one = max(flops / FLOPS_PER_CYCLE, blocks * wide / 16 * WGMMA)
    tensor = problem.products * one
    shared = not params.ping_pong and params.warpgroups > 1
    tensor += STEP + (SHARED_STEP if shared else 0)
    smem = (_read_bytes(problem, params) + _stage_bytes(problem, params)) / SMEM_BYTES
    computing = computing_cycles(problem, params)
    busy = max(tensor, smem, computing)
    if problem.promotion:
        busy += _promoted(problem, params)
    rate = FILL_BYTES[params.programmatic_dependent_launch or asks_dearly(problem)]
    fill = fill_cycles(problem, tile, params.cluster_dims, params.l2_promotions, rate)
    latency = LATENCY + fill + (CLUSTER_LATENCY if clustered else 0)
    stages = params.circular_buffer_options.smem_circular_buffer_stage
    limits = {
        _busy_with(tensor, smem, computing): busy + (CLUSTER_STEP if clustered else 0),
        "copies": fill,
        "latency": (latency + HELD_STEPS[params.ping_pong] * busy) / stages,
    }
    if params.thread_loads:
        limits["threads that load"] = thread_cycles(problem, params)
    slowest = max(limits, key=lambda name: limits[name])
    return _Step(limits[slowest], slowest, busy, fill)


def _busy_with(tensor: float, smem: float, computing: float) -> str:
    """What takes the most cycles of a step; of equals the first."""
    times = {"tensor cores": tensor, "shared memory": smem, "threads that compute A": computing}
    return max(times, key=lambda name: times[name])


def _stage_bytes(problem: Problem, params: MatmulParams) -> int:
    """Bytes of a stage."""
    tile, (a, b) = params.output_tile, problem.element_bytes
    n = stored_columns(tile.n, b) if problem.n_major else tile.n
    return (problem.a_count * tile.m * a + problem.b_count * n * b) * tile.k


def _read_bytes(problem: Problem, params: MatmulParams) -> int:
    """Bytes that are read of a stage, of B by the wgmma of each 64 rows. What threads read of A,
    two bytes in the time of four, takes as long as four.
    """
    tile, columns = params.output_tile, params.tile_sizes.warp_tile.n
    a, b = problem.element_bytes
    if problem.computed is not None:
        a *= 2 if a == 1 else 1
    return (64 * a + problem.products * columns * b) * tile.k * (tile.m // 64 * params.across)


def _promoted(problem: Problem, params: MatmulParams) -> float:
    """Cycles of a step in which no wgmma runs, because its sums are added to those of all steps:
    where several warpgroups share a step one adds under the wgmmas of the others.
    """
    warp = params.tile_sizes.warp_tile
    spans = max(1.0, warp.k / problem.promotion)
    alone = params.ping_pong or params.warpgroups == 1
    adds = problem.products * spans * warp.m * warp.n / WARPGROUP
    if alone:
        return PROMOTED + adds
    return adds / 2 + PROMOTED * (params.warpgroups > 2)


def _memory_bytes(problem: Problem, params: MatmulParams, tiles_m: int, tiles_n: int) -> int:
    """Bytes from memory: B again for each group of tile rows, unless the L2 keeps it; of groups of
    rows, whose tiles of a strip of B follow each other, A for each such strip.
    """
    size_a, size_b = problem.element_bytes
    a = problem.a_count * problem.m * problem.k * size_a
    b = problem.b_count * problem.n * problem.k * size_b
    traversed = params.grid_traversal_factor[0] * params.cluster_dims.m
    strips = -(-tiles_n // params.cluster_dims.n), -(-tiles_m // traversed)
    by_columns = problem.grouped == "m"
    again, once, passes = (a, b, strips[0]) if by_columns else (b, a, strips[1])
    if again < 0.8 * problem.l2_bytes:
        passes = 1
    return problem.batch * (once + again * max(passes, 1)) + result_bytes(problem)


def energy_of(problem: Problem, moved: float) -> float:
    """Microseconds at the power limit that so many bytes and the products take; those of zeros, of
    rows and columns beyond the edges, take next to none.
    """
    wide = problem.k * problem.operand.bytes / 2
    flops = problem.products * problem.batch * problem.m * problem.n * wide
    return FLOP_ENERGY * flops + BYTE_ENERGY * moved


def slowed(inner: float, moved: float, energy: float) -> float:
    """How much longer the clock of the SMs makes ``inner`` microseconds so that power suffices.

    That of memory, which takes the :func:`moved_us`, does not change.
    """
    us = joined(inner, moved)
    longer: float = (1 + (energy / us) ** 6) ** (CLOCK_EXPONENT / 6)
    return longer


def joined(inner: float, stream: float) -> float:
    """Microseconds of what SMs do and what memory does, which mostly run at the same time."""
    largest = max(inner, stream)
    both: float = (inner / largest) ** MEMORY_SHARP + (stream / largest) ** MEMORY_SHARP
    total: float = largest * both ** (1 / MEMORY_SHARP)
    return total
