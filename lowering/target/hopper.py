"""Limits of the Hopper SM (compute capability 9.0) that schedules and passes are checked against.

Sources: PTX ISA 8.x (wgmma, cp.async.bulk.tensor, setmaxnreg, bar), CUDA C++ Programming Guide,
table of technical specifications, and what ptxas 13.0 was seen to accept.
"""

from __future__ import annotations

__all__ = [
    "multicast_slice", "register_pair_problem", "register_pairs", "registers_at_entry",
    "registers_problem", "slice_problem",
]  # fmt: skip

WARPGROUP = 128
MAX_THREADS = 1024

SHARED_BYTES = 227 * 1024
"""Dynamic shared memory a CTA may ask for."""

REGISTERS = 65536
"""32-bit registers of an SM; one CTA of ours has them all."""

REGISTER_STEP = 8
"""setmaxnreg takes multiples of 8 from 24 to 240."""

SETMAXNREG_RANGE = (24, 240)

NAMED_BARRIERS = 16
"""Hardware ids 0..15; 0 is the CTA barrier (``__syncthreads``)."""

WGMMA_M = 64
WGMMA_K_BYTES = 32
"""One wgmma reads 32 bytes of K: 16 elements of a 16-bit type."""
WGMMA_K = 16
"""K of a wgmma of 16-bit types, which alone may be MN-major."""

WGMMA_N = range(8, 257, 8)

TMA_BOX_MAX = 256
"""Elements of a box per dimension."""

TMA_RANK_MAX = 5
"""Dimensions of a tensor map; at least 1."""

TMA_STRIDE_ALIGN = 16
"""Bytes; also the alignment of a tensor's base address."""

NARROWEST_SWIZZLE = 32
"""Bytes of the shortest swizzle span; lines of operand tiles are whole spans."""

WIDEST_SWIZZLE = 128

SWIZZLE_ROWS = 8
"""Lines after which the pattern of a swizzle repeats."""

SWIZZLE_ATOM = 1024
"""Bytes after which the 128-byte swizzle repeats; the alignment of every stage."""

MBARRIER_BYTES = 8


def multicast_slice(rows: int, cols: int, span: int, count: int) -> tuple[int, int] | None:
    """Rows and columns that each of ``count`` CTAs loads of a tile that all of them share.

    Whole boxes of ``span`` columns where their number allows it (fewer and larger copies), else
    whole groups of the rows after which the swizzle repeats; None where neither divides.
    """
    if cols % (count * span) == 0:
        return rows, cols // count
    return None if rows % (count * SWIZZLE_ROWS) else (rows // count, cols)


def stored_columns(cols: int, element_bytes: int) -> int:
    """Columns that an N-major tile of ``cols`` columns takes in shared memory.

    Beyond one swizzle span it is filled up to whole spans: a tile of 160 columns of 2 bytes is
    three boxes of 64, of which wgmma reads two and a half. Five boxes of 32 in a narrower swizzle
    made kernels 10 to 13 % slower (128x160 at 4096x14336x5120, H200, 2026-11-21).
    """
    span = WIDEST_SWIZZLE // element_bytes
    return cols if cols < span else -(-cols // span) * span


def slice_problem(rows: int, count: int) -> str:
    """What is wrong where :func:`multicast_slice` finds none."""
    return (
        f"each would load {rows / count:g} rows, and a slice is whole groups of {SWIZZLE_ROWS} rows"
    )


def registers_at_entry(threads: int) -> int:
    """Registers per thread that the kernel starts with: the SM's, rounded down to a multiple of 8.

    ``__launch_bounds__(threads, 1)`` makes ptxas use this count at entry (168 at 384 threads). An
    instruction can name 255, of which whole steps are 248. Registers are given to whole
    warpgroups, a warp to each quarter of the SM.
    """
    given = -(-threads // WARPGROUP) * WARPGROUP
    return min(REGISTERS // given, 255) // REGISTER_STEP * REGISTER_STEP


def registers_problem(threads: int, shares: tuple[tuple[int, int], ...]) -> str | None:
    """Why roles of a CTA cannot have the registers that each wants; None if they can.

    The pool is what the CTA was launched with: setmaxnreg only moves registers within it, and an
    increase beyond it waits for ever, which ptxas does not notice.

    Args:
        threads: of the CTA.
        shares: (threads, registers per thread) of each role.
    """
    return _count_problem(*(n for _, n in shares)) or _pool_problem(threads, shares)


def register_pair_problem(threads: int, load: int, compute: int) -> str | None:
    """Why one load warpgroup cannot keep ``load`` registers a thread and the others ``compute``.

    As :func:`registers_problem`; besides, the load warpgroup gives and the others take.
    """
    if problem := _count_problem(load, compute):
        return problem
    entry = registers_at_entry(threads)
    if not load <= entry <= compute:
        return (
            f"{load} and {compute} must lie on either side of the {entry} registers that {threads} "
            "threads start with"
        )
    return _pool_problem(threads, ((WARPGROUP, load), (threads - WARPGROUP, compute)))


def _count_problem(*counts: int) -> str | None:
    low, high = SETMAXNREG_RANGE
    for n in counts:
        if n % REGISTER_STEP or not low <= n <= high:
            return f"setmaxnreg takes multiples of {REGISTER_STEP} from {low} to {high}, not {n}"
    return None


def _pool_problem(threads: int, shares: tuple[tuple[int, int], ...]) -> str | None:
    need, entry = sum(n * count for n, count in shares), registers_at_entry(threads)
    if need <= threads * entry:
        return None
    parts = " + ".join(f"{n} x {count}" for n, count in shares)
    return f"{parts} = {need} registers, the CTA has {threads} x {entry} = {threads * entry}"


def register_pairs(threads: int) -> tuple[tuple[int, int], ...]:
    """Pairs (load, compute) that leave the compute warpgroups as much as possible."""
    entry, high = registers_at_entry(threads), SETMAXNREG_RANGE[1]
    most: dict[int, int] = {}
    for load in (24, 32, 40):
        fitting = [
            compute
            for compute in range(entry, high + 1, REGISTER_STEP)
            if register_pair_problem(threads, load, compute) is None
        ]
        if fitting:
            most[fitting[-1]] = load
    return tuple((load, compute) for compute, load in most.items())
