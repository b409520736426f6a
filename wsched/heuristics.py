"""Which schedule for which problem: MatmulParams from the extents and the device.

The time of a kernel is that of the SM that has most tiles: for each tile its k steps, and what the
tile costs besides (epilogue, start of its pipeline; little in ping-pong, where the other group's
main loop runs meanwhile). Both were measured for each schedule of :data:`SCHEDULES` on an H200 at
its power limit, by a least-squares fit over twelve shapes of 2026-11-21 (design/performance.md).
The choice they lead to was within 0.96 of the fastest schedule at each of the twelve.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from lowering.hopper import TMA_STRIDE_ALIGN
from wsched.fusion import DataType, Fusion, PointwiseOp
from wsched.schedule.params import GemmTile, MatmulParams, SupportedVectorization
from wsched.schedule.tiles import fit_stages, with_tile

__all__ = [
    "SCHEDULES",
    "Costed",
    "Problem",
    "choose_params",
    "epilogue_work",
    "predicted_us",
    "ranked",
]

TILE_K = 64

WORK_US = {False: 1.1e-5, True: 0.6e-5}
"""Microseconds for an instruction on one element, by whether the kernel is ping-pong: bias and gelu
(tanh), counted as 17, took 6.2 us of a cooperative 128x256 tile and 1.6 us of a ping-pong 128x128
tile (H200 at 8192x14336x4096, 2026-11-21); under another group's main loop it costs power."""

FUNCTION, MATRIX = 8, 12
"""What a function of several instructions, and reading an element of a matrix, count for."""

_FUNCTIONS = frozenset(
    {"div", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt"}
    | {"reciprocal", "tanh", "erf", "erfc", "sigmoid", "silu", "pow"}
)

TRAVERSAL = (8, 1)
"""Tiles along M that are visited together, so that operands are still in the L2 when they are read
again: row-major order lost a quarter of the speed at 8192x28672x4096 on an H200 (2026-11-21)."""


@dataclass(frozen=True, slots=True)
class Problem:
    """``D[m, n] = A[m, k] · B[n, k]ᵀ`` with the types of its operands and of all its results.

    ``sms`` is the number of multiprocessors, ``inputs`` the types of the matrices that TMA loads
    for the epilogue, None where threads read them instead; ``work`` is the epilogue's
    :func:`epilogue_work`. ``pairs`` says whether threads can read two columns at once of what they
    read for it, ``smem_epilogue`` whether results may go through shared memory.
    """

    m: int
    n: int
    k: int
    operand: DataType
    results: tuple[DataType, ...]
    sms: int
    inputs: tuple[DataType, ...] | None = ()
    work: int = 0
    pairs: bool = True
    smem_epilogue: bool = True

    @property
    def unaligned(self) -> DataType | None:
        """Type of the first result whose rows TMA cannot store: no multiples of 16 bytes."""
        found = (r for r in self.results if self.n * r.bytes % TMA_STRIDE_ALIGN)
        return next(found, None)


@dataclass(frozen=True, slots=True)
class Costed:
    """A schedule and its measured cost.

    Args:
        m: rows of an output tile (a warpgroup's in ping-pong).
        n: its columns.
        ping_pong: whether two warpgroups alternate, else two share each tile.
        step_us: microseconds for 64 elements of K of one tile.
        tile_us: microseconds for everything else that a tile costs, with a 16-bit result.
    """

    m: int
    n: int
    ping_pong: bool
    step_us: float
    tile_us: float


SCHEDULES = (
    Costed(128, 256, False, 0.764, 1.52),
    Costed(128, 192, False, 0.575, 1.50),
    Costed(128, 128, False, 0.392, 0.75),
    Costed(128, 64, False, 0.272, 0.40),
    Costed(128, 128, True, 0.388, 0.58),
    Costed(64, 256, True, 0.409, 0.47),
    Costed(64, 192, True, 0.313, 0.50),
    Costed(64, 128, True, 0.222, 0.30),
)


@lru_cache(maxsize=4096)
def choose_params(problem: Problem) -> MatmulParams:
    """The schedule with the smallest predicted time, with as many stages as fit."""
    return ranked(problem)[0][1]


def ranked(problem: Problem) -> list[tuple[float, MatmulParams]]:
    """Predicted microseconds and parameters of every schedule that fits, best first.

    Where shared memory has no room for the operands beside the epilogue, threads read its matrices
    themselves; where that is not enough, they store the results, too.
    """
    by_time = sorted(SCHEDULES, key=lambda s: predicted_us(problem, s))
    fitting = ((predicted_us(problem, s), _params(problem, s)) for s in by_time)
    found = [(us, params) for us, params in fitting if params is not None]
    if found:
        return found
    if problem.inputs:
        return ranked(replace(problem, inputs=None))
    return ranked(replace(problem, smem_epilogue=False))


def predicted_us(problem: Problem, schedule: Costed) -> float:
    """Microseconds on the SM that has most to do."""
    tiles = -(-problem.m // schedule.m) * -(-problem.n // schedule.n)
    rounds = -(-tiles // problem.sms)
    steps = -(-problem.k // TILE_K)
    epilogue = schedule.tile_us * sum(r.bytes for r in problem.results) / 2
    epilogue += problem.work * WORK_US[schedule.ping_pong] * schedule.m * schedule.n
    return rounds * (steps * schedule.step_us + epilogue)


def epilogue_work(fusion: Fusion) -> int:
    """What the epilogue does for each element of the result beside its casts, in instructions."""
    work = 0
    for e in fusion.exprs:
        if isinstance(e, PointwiseOp):
            work += FUNCTION if e.op in _FUNCTIONS else 1
    whole = [b for b in fusion.inputs if {"M", "N"} <= set(b.axes)]
    return work + MATRIX * len(whole)


def _params(problem: Problem, schedule: Costed) -> MatmulParams | None:
    """The parameters of a schedule; None where fewer than three stages fit."""
    base = MatmulParams(
        grid_traversal_factor=TRAVERSAL,
        use_smem_epilogue=problem.smem_epilogue and problem.unaligned is None,
        supported_vec_size=SupportedVectorization(2 if problem.pairs and problem.n % 2 == 0 else 1),
        epilogue_input_stages=0 if problem.inputs is None else 2,
    )
    params = with_tile(base, GemmTile(schedule.m, schedule.n, TILE_K), 2, schedule.ping_pong)
    return fit_stages(params, problem.operand, problem.results, problem.inputs or ())
