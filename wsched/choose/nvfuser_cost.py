"""What nvFuser's own route takes: matmuls by ATen, which is cuBLAS, the rest in kernels between.

By default nvFuser's segmenter gives a matmul to ATen and makes a kernel of what is connected in
between (NVIDIA/Fuser, csrc/scheduler: ``fuse_matmul`` is off). A bias of ``linear`` is cuBLAS' own
epilogue. Everything else reads the product from memory and writes its results there. All constants
are of an H200 on 2026-11-21, design/performance.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from wsched.choose.arithmetic import busy_us, instructions_of
from wsched.choose.copy_cost import Copy, direct_us
from wsched.choose.price import price
from wsched.choose.problem import Problem
from wsched.fusion import Fusion, PointwiseOp
from wsched.importer import Definition
from wsched.importer.ops import PRODUCTS

__all__ = [
    "NvfuserCost", "cublas_us", "grouped_us", "host_us", "nvfuser_cost", "pointwise_us",
    "roofline_us",
]  # fmt: skip

CUBLAS = 1.034
"""cuBLAS' time over that of wsched's bare matmul as it is scheduled, geometric mean of the eight
anchors: a ratio of what was measured in the same rounds, so it counts of that schedule's price."""

CUBLAS_START_US, CUBLAS_FLOPS_PER_US, READ_BYTES_PER_US = 3.0, 670e6, 4.3e6
"""cuBLAS at its best: its start, operations in a microsecond (of the anchors from 2048³ on 639 to
687e6), and bytes of operands and result in a microsecond, where memory is what limits it."""

KERNEL_US, POINTWISE_BYTES_PER_US = 3.0, 4.3e6
"""A kernel between matmuls: its start, which nothing overlaps, and bytes that it reads and writes
(of copies of whole rows, ``python -m wsched.bench.unaligned``)."""

EXECUTE_HOST_US, KERNEL_HOST_US = 14.0, 5.5
"""``FusionDefinition.execute`` on the host, and each kernel that it launches: 19.5 us for a bare
linear, 25 us with an epilogue (``python -m wsched.bench.unaligned``)."""


GROUP_US, GROUPED_FLOPS_PER_US = 33.7, 591e6
"""Of a grouped matmul, for which nvFuser calls ATen once for each group when it has the ends on the
host: a call, and operations in a microsecond where these are large. Loops of ``linear`` over 64 and
128 groups of few rows, over 8 and 16 of many (H200, torch 2.11, 2026-11-22)."""


@dataclass(frozen=True, slots=True)
class NvfuserCost:
    """Predicted microseconds of nvFuser's route.

    Args:
        matmul_us: its matmuls, by cuBLAS.
        kernels_us: its own kernels.
        host_us: what the host takes; the GPU waits for it where it is longer.
    """

    matmul_us: float
    kernels_us: float
    host_us: float

    @property
    def gpu_us(self) -> float:
        """What the GPU takes."""
        return self.matmul_us + self.kernels_us

    @property
    def us(self) -> float:
        """From call to call, many in a row."""
        return max(self.gpu_us, self.host_us)

    def __str__(self) -> str:
        return (
            f"{self.us:.1f} us: matmul by cuBLAS {self.matmul_us:.1f}, other kernels "
            f"{self.kernels_us:.1f}, on the host {self.host_us:.1f}"
        )


def cublas_us(problem: Problem, copied: tuple[Copy, ...] = ()) -> float:
    """The products alone, by cuBLAS; ``copied`` are the operands that TMA cannot read."""
    if problem.products > 1:
        return problem.products * cublas_us(replace(problem, a_count=1, b_count=1), copied)
    if apart := problem.apart:
        return sum(cublas_us(each, copied) for each in apart)
    m, n, k, batch = problem.m, problem.n, problem.k, problem.batch
    flops = batch * 2 * m * n * k
    moved = batch * problem.operand.bytes * (m * k + n * k + m * n)
    if problem.grouped:
        return grouped_us(batch, flops, moved)
    if copied:
        return direct_us(m, n, k, batch)
    bare = replace(problem, results=(problem.operand,), inputs=(), work=0, pairs=True, matrices=())
    found = price(bare)
    us = CUBLAS * found.us
    if batch == 1 and moved / READ_BYTES_PER_US > flops / CUBLAS_FLOPS_PER_US:
        return min(us, found.scale * roofline_us(flops, moved))  # it is at its best there
    return us


def roofline_us(flops: float, moved: float) -> float:
    """The least time of a matmul of so many operations and bytes, however it is tiled."""
    return CUBLAS_START_US + max(flops / CUBLAS_FLOPS_PER_US, moved / READ_BYTES_PER_US)


def grouped_us(groups: int, flops: float, moved: float) -> float:
    """The products of so many groups, one after the other."""
    busy = max(flops / GROUPED_FLOPS_PER_US, moved / READ_BYTES_PER_US)
    return max(CUBLAS_START_US + busy, GROUP_US * groups)


def pointwise_us(moved: float, instructions: float = 0.0) -> float:
    """A kernel of nvFuser's that reads and writes so many bytes once, and what it computes."""
    return KERNEL_US + busy_us(moved / POINTWISE_BYTES_PER_US, instructions)


def host_us(kernels: int) -> float:
    """``execute`` on the host, with so many kernels, cuBLAS' among them."""
    return EXECUTE_HOST_US + KERNEL_HOST_US * kernels


def nvfuser_cost(
    definition: Definition, fusion: Fusion, problem: Problem, copied: tuple[Copy, ...] = ()
) -> NvfuserCost:
    """What it takes for a definition that is one fusion of wsched's: products and their epilogue.

    The epilogue's kernel reads the products and the inputs that are no operands and writes the
    results. There is none where the results are the product as the operation leaves it.
    """
    matmul, count = cublas_us(problem, copied), problem.products * max(len(problem.apart), 1)
    made = [definition.node(name) for name in definition.outputs]
    if all(node is not None and node.op in PRODUCTS for node in made):
        return NvfuserCost(matmul, 0.0, host_us(count))
    sizes = problem.extents(fusion)
    moved = problem.products * problem.batch * problem.m * problem.n * problem.operand.bytes
    for binding in (*fusion.inputs, *fusion.outputs):
        if binding.tensor not in fusion.operands:
            elements = 1
            for axis in binding.extents:
                elements *= sizes.get(axis, 1)
            moved += elements * binding.dtype.bytes
    each = problem.batch * problem.m * problem.n
    work = instructions_of((e.op, each) for e in fusion.exprs if isinstance(e, PointwiseOp))
    return NvfuserCost(matmul, pointwise_us(moved, work), host_us(count + 1))
