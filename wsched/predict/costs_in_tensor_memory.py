"""What statements and what they start are taken to cost where sums are in tensor memory.

There was no such GPU. Public are the rate of its products and the ways that sums go; the rest is
what it is on an H200. So a time line shows who waits for whom, and in which order, by these
assumptions; how long any of it takes on the GPU is not known.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowering.kernel import nodes
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import Stmt
from lowering.machine.clock import Costs, Slower, Work
from wsched.choose.reckoned import PRODUCTS
from wsched.predict.costs import ORDER, Hopper

__all__ = ["InTensorMemory", "costs_of"]

LANES_READ = 32
"""Cells that a warp reads in a cycle: a column of its lanes (assumed)."""

_ORDERS = (nodes.Tcgen05Mma, nodes.Tcgen05Commit, nodes.Tcgen05Load, nodes.Tcgen05WaitLoad)


@dataclass(frozen=True, slots=True)
class InTensorMemory:
    """Costs of a kernel's statements, in cycles of an SM.

    Args:
        kernel: says how large boxes are.
    """

    kernel: Kernel

    def busy(self, stmt: Stmt) -> float:
        """For which a warp does nothing but execute a statement."""
        return ORDER if isinstance(stmt, _ORDERS) else Hopper(self.kernel).busy(stmt)

    def slower(self, stmt: Stmt) -> Slower | None:
        """Nothing is known of it."""
        return None

    def work(self, stmt: Stmt) -> Work:
        """What goes on by itself: products hold the SM's tensor core, a commit is behind them."""
        match stmt:
            case nodes.Tcgen05Mma(cols=cols):
                family = self.kernel.target.mma
                halves = family.k_bytes // 2  # of narrower types there are more in as many bytes
                return Work("tensor", False, family.m * cols * halves / PRODUCTS, 0.0)
            case nodes.Tcgen05Commit():
                return Work("tensor", False, 0.0, 0.0)
            case nodes.Tcgen05Load(out=out):
                cells = out.type.rows * out.type.cols / 4  # of a warp's quarter
                return Work("cells", True, cells / LANES_READ, 0.0)
        return Hopper(self.kernel).work(stmt)


def costs_of(kernel: Kernel) -> Costs:
    """What a kernel's statements cost on its target."""
    return Hopper(kernel) if kernel.target.tensor_memory is None else InTensorMemory(kernel)
