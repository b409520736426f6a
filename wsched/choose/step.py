"""What a step of the k loop takes: each of its limits in cycles, and the slowest of them.

A step takes as long as the slowest of what it needs: the tensor cores, reads of shared memory, the
copies that fill it, or the way to the L2 and back shared by the stages in flight.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowering.ground.frozen import quick, replaced
from lowering.target.ptx import WARPGROUP
from lowering.target.wgmma import AT_ONCE
from wsched.choose import groups
from wsched.choose.computed import computing_cycles
from wsched.choose.copy_engine import Extents, asks_dearly, fill_cycles, stored_columns
from wsched.choose.problem import Problem
from wsched.choose.shape import Number, Shape, either, most
from wsched.choose.thread_loads import thread_cycles
from wsched.schedule.matmul.params import L2Promotions, MatmulParams

__all__ = ["Step", "stage_bytes", "steps_of", "steps_of_shape", "tensor_cycles"]

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

PARTED_BYTES = 50
"""The same where K is in parts and CTAs in no cluster, launched either way: CTAs are at different
k, so that fewer ask for the same line meanwhile. 292 kernels of 34 problems (H200, 2026-11-24): of
aligned rows these took 1.19 and 1.05 of what 75 and 60 predict, those in clusters 0.91."""

PROMOTED, IN_TURN, SCALED = 130, 40, 2.0
"""Cycles of a wait for all wgmmas, and of the first one behind it, where nobody multiplies then
(ping-pong 128x128 at 2048x2048x2048 and 4096x3584x512); of a step whose warpgroups add the rows of
one instruction after those of another; and for an addition that scales, where another warpgroup
multiplies (128x128 and 256x128). Without scales it is a quarter. Three warpgroups hide as much as
two: 192x128 is within 2 % of 128x192 (H200, 2026-11-24)."""

COMPUTED_GROUP, PIECEWISE = 200, 90
"""Cycles of a step of which threads compute A and scale the sums of groups: nothing of the next one
is made before all wgmmas of this one are done. Of 4 bits by 16 rows 215 to 300 (H200, 2026-11-24);
of 8 bits up to 530, of groups of 32 more; with weights that the L2 evicts first 110 to 150 (H200,
2026-11-28). And where fewer warpgroups than :data:`AT_ONCE` make A
piece by piece, so that but the last one's are waited for (H200, 2026-11-28)."""

LATENCY = 1600
"""Cycles of a copy from the L2 into shared memory, of a kernel that is busy with others."""

HELD_STEPS = {True: 1.0, False: 1.15}
"""Steps for which a stage is held from full to empty, by whether the kernel is ping-pong: its own
step, and of two warpgroups that share it until the later one has let go."""

CLUSTER_LATENCY, CLUSTER_STEP = 195, 14
"""Cycles that a cluster adds to a copy and to a step."""


@quick
@dataclass(frozen=True, slots=True)
class Step:
    """A step of the k loop of a CTA, in cycles by what takes them; or of each of many shapes.

    Args:
        products: wgmmas.
        barriers: of a step, on top of these.
        smem: reads of shared memory by wgmma, and filling it.
        computing: threads that compute an operand.
        promoted: in which no wgmma runs, because sums are added to those of all steps.
        fill: copies that fill a stage.
        latency: of a copy until the first bytes are there.
        held: steps for which a stage is held from full to empty.
        stages: that are filled at a time.
        far: what a cluster adds to the latency.
        meeting: what a cluster adds to the step.
        threads: for which those that load are busy; 0 where none do.
    """

    products: Number
    barriers: Number
    smem: Number
    computing: Number
    promoted: Number
    fill: Number
    latency: float
    held: Number
    stages: Number
    far: Number
    meeting: Number
    threads: float

    @property
    def busy(self) -> Number:
        """Cycles for which a warpgroup that computes is busy with a stage."""
        issued = self.products + self.barriers
        return most(most(issued, self.smem), self.computing) + self.promoted

    def waited(self, busy: Number) -> Number:
        """Cycles of a step that is :attr:`busy` for so many, by the latency of copies."""
        return (self.latency + self.fill + self.far + self.held * busy) / self.stages

    def slowest(self, busy: float) -> tuple[float, str]:
        """Cycles of the whole and what takes them, of a step that is :attr:`busy` for so many."""
        limits = {
            self._busy_with(): busy + self.meeting,
            "copies": self.fill,
            "latency": self.waited(busy),
        }
        if self.threads:
            limits["threads that load"] = self.threads
        name = max(limits, key=limits.__getitem__)
        return limits[name], name

    def _busy_with(self) -> str:
        """What takes the most cycles of a step; of equals the first."""
        tensor = self.products + self.barriers
        if tensor >= max(self.smem, self.computing):
            return "tensor cores"
        return "shared memory" if self.smem >= self.computing else "threads that compute A"


def steps_of(problem: Problem, params: MatmulParams) -> dict[bool, Step]:
    """A step of the k loop of the product that is computed, by whether the kernel is launched
    dependently; of how many parts K is in, where these are several, it does not depend.
    """
    threads = thread_cycles(problem, params) if params.thread_loads else 0.0
    stages = params.circular_buffer_options.smem_circular_buffer_stage
    return steps_of_shape(
        problem, Shape.of(params), stages, params.l2_promotions, threads, params.splitk_factor > 1
    )


def steps_of_shape(
    problem: Problem, shape: Shape, stages: Number, promoted: L2Promotions, threads: float = 0.0,
    parted: bool = False,
) -> dict[bool, Step]:  # fmt: skip
    """The same.

    Args:
        problem: what is computed.
        shape: the tile.
        stages: of the ring.
        promoted: what the L2 fetches at once.
        threads: cycles for which those that load are busy.
        parted: whether K is in parts; False is the least that it takes.
    """
    clustered = shape.ctas > 1
    step = Step(
        products=problem.products * tensor_cycles(problem, shape),
        barriers=STEP + either(shape.alone, 0, SHARED_STEP),
        smem=(_read_bytes(problem, shape) + stage_bytes(problem, shape)) / SMEM_BYTES,
        computing=computing_cycles(problem, shape),
        promoted=_promoted(problem, shape) if problem.promotion else 0.0,
        fill=fill_cycles(problem, shape, promoted, _fill_rate(FILL_BYTES[True], shape, parted)),
        latency=LATENCY,
        held=either(shape.ping_pong, HELD_STEPS[True], HELD_STEPS[False]),
        stages=stages,
        far=either(clustered, CLUSTER_LATENCY, 0),
        meeting=either(clustered, CLUSTER_STEP, 0),
        threads=threads,
    )
    if asks_dearly(problem):
        return {True: step, False: step}
    rate = _fill_rate(FILL_BYTES[False], shape, parted)
    return {True: step, False: replaced(step, fill=fill_cycles(problem, shape, promoted, rate))}


def _fill_rate(rate: Number, shape: Shape, parted: bool) -> Number:
    """Bytes in a cycle of lines from the L2, ``rate`` where K is whole."""
    return either(shape.ctas > 1, rate, PARTED_BYTES) if parted else rate


def tensor_cycles(problem: Problem, shape: Shape) -> Number:
    """Cycles of the wgmmas of one product in a step."""
    blocks = shape.m // 64 * shape.across
    wide = shape.k * problem.operand.bytes / 2  # columns of 16-bit operands that take as long
    at_once = groups.COLUMNS if groups.shares_out(problem) else WGMMA_N
    flops = 2 * shape.m * -(-shape.n // at_once) * at_once * wide
    return most(flops / FLOPS_PER_CYCLE, blocks * wide / 16 * WGMMA)


def stage_bytes(problem: Problem, tile: Extents) -> Number:
    """Bytes of a stage."""
    a, b = problem.element_bytes
    n = stored_columns(tile.n, int(b)) if problem.n_major else tile.n
    return (problem.a_count * tile.m * a + problem.b_count * n * b) * tile.k


def _read_bytes(problem: Problem, shape: Shape) -> Number:
    """Bytes that are read of a stage, of B by the wgmma of each 64 rows. What threads read of A,
    two bytes in the time of four, takes as long as four.
    """
    a, b = problem.element_bytes
    if problem.computed is not None:
        a *= 2 if a <= 1 else 1
    blocks = shape.m // 64 * shape.across
    return (64 * a + problem.products * shape.warp_n * b) * shape.k * blocks


def _promoted(problem: Problem, shape: Shape) -> Number:
    """Cycles of a step in which no wgmma runs, because its sums are added to those of all steps:
    where several warpgroups share a step one adds under the wgmmas of the others.
    """
    if problem.computed is not None:
        group = either(shape.warpgroups < AT_ONCE, PIECEWISE, COMPUTED_GROUP)
        return group + SCALED * shape.warp_m * shape.warp_n / WARPGROUP
    spans = most(1.0, shape.k / problem.promotion)
    adds = problem.products * spans * shape.warp_m * shape.warp_n / WARPGROUP
    adds *= 2 if problem.scaled == (1, 1) else 1  # a number for all is multiplied and added at once
    blocks = shape.warp_m / problem.target.mma.m
    alone = PROMOTED * blocks * spans + 2 * adds
    in_turn = either(shape.warp_m > problem.target.mma.m, IN_TURN, 0)
    shared = SCALED * adds if problem.scaled is not None else adds / 4 + in_turn
    return either(shape.alone, alone, shared)
