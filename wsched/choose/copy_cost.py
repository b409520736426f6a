"""What it costs that TMA cannot address an operand where it lies: a copy, or the way without one.

A copy is a pass over the operand, so where that is large and the matmul small another way may be
faster; :func:`slower_than_direct` decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Copy", "copies_us", "copy_us", "direct_us", "slower_than_direct"]

COPY_US, COPY_BYTES_PER_US = 2.5, 3.2e6
"""What a copy takes on the GPU: its start, and bytes read and written in a microsecond: 3.0e6 to
3.4e6 by wsched's own kernel, 1.75e6 by torch. All constants here: ``python -m
wsched.bench.unaligned`` on an H200, design/performance.md."""

DIRECT_US, DIRECT_TFLOPS, DIRECT_BYTES_PER_US = 15.0, 132.0, 1.4e6
"""What cuBLAS takes on the GPU for operands with an odd row stride: its start, 10^12 operations in
a second, and bytes of operands in a microsecond where they are what takes the time."""

CALL_HOST_US, COPY_HOST_US = 8.0, 7.0
"""What the host takes for a call of a kernel and for each copy in front of it. The GPU waits for
the host where that is longer."""

STEP_HOST_US = 4.5
"""What of a call is the kernel's: the second kernel of a call takes this much more."""

NUMBER_HOST_US, APART_HOST_US = 2.5, 9.0
"""And for an input that is a number, whose element is kept, and for one of an epilogue whose
columns are apart, which each call copies (2-core x86 machine, a driver that does nothing)."""

NVFUSER_HOST_US = {False: 19.5, True: 25.0}
"""And for nvFuser's ``execute``, by whether there is an epilogue, a kernel of its own there."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of an operand.

    Args:
        argument: which input.
        reason: why the kernel cannot read it where it lies.
        bytes: read and written by the copy.
    """

    argument: str
    reason: str
    bytes: int


def copies_us(needed: Sequence[Copy]) -> float:
    """What copies take on the GPU."""
    return sum(copy_us(c.bytes) for c in needed)


def copy_us(moved: int) -> float:
    """What a copy takes on the GPU that reads and writes so many bytes."""
    return COPY_US + moved / COPY_BYTES_PER_US


def direct_us(m: int, n: int, k: int, batch: int = 1) -> float:
    """What cuBLAS takes on the GPU for 16-bit operands that TMA cannot read."""
    flops_us = batch * 2 * m * n * k / (DIRECT_TFLOPS * 1e6)
    bytes_us = batch * 2 * (m * k + n * k) / DIRECT_BYTES_PER_US
    return DIRECT_US + max(flops_us, bytes_us)


def slower_than_direct(
    needed: Sequence[Copy],
    m: int,
    n: int,
    k: int,
    kernel_us: float,
    epilogue: bool = False,
    batch: int = 1,
    threads: bool = False,
) -> str:
    """Why copies and the kernel are expected to take longer than nvFuser, which copies nothing.

    Args:
        needed: the copies.
        m: rows of A.
        n: rows of B.
        k: columns of both, which have 16-bit elements.
        kernel_us: predicted time of wsched's kernel.
        epilogue: whether something is computed from the product.
        batch: number of products.
        threads: whether the kernel's threads load operands that TMA cannot read.

    Returns:
        The reason, or nothing if the copies pay.
    """
    if not needed and not threads:
        return ""
    wsched_us = max(CALL_HOST_US + COPY_HOST_US * len(needed), copies_us(needed) + kernel_us)
    other_us = max(NVFUSER_HOST_US[epilogue], direct_us(m, n, k, batch))
    if wsched_us <= other_us:
        return ""
    which = ", ".join(f"{c.argument} ({c.reason})" for c in needed)
    kernel = "a kernel whose threads load operands" if threads else "the kernel"
    if not needed:
        return (
            f"{kernel} is predicted to take {wsched_us:.1f} us, the matmul of the operands as they "
            f"lie {other_us:.1f} us"
        )
    return (
        f"a copy of {which} and {kernel} are predicted to take {wsched_us:.1f} us, the "
        f"matmul of the operands as they lie {other_us:.1f} us"
    )
