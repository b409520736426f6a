"""What statements and what they start cost on an H200, for the machine's clock.

The numbers are those of the heuristic's cost model, where it has them; they were fitted to
measurements of warp-specialized kernels. The others are estimates, and say so.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from lowering.ground.errors import InternalError
from lowering.kernel import nodes
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import Stmt
from lowering.machine.clock import Work
from lowering.target import ptx
from wsched.choose.cost_model import FILL_BYTES, FLOPS_PER_CYCLE, LATENCY, STORE_LINE, WGMMA
from wsched.choose.epilogue import ELEMENT

__all__ = ["Hopper"]

QUARTERS = 4
"""Tensor cores of an SM; a warp uses that of its number modulo four (PTX ISA, wgmma)."""

ORDER = 20
"""Cycles of a barrier, a fence, or of an instruction that starts something. Estimated: 21 are what
the cost model has for all of a step of the k loop."""

WORD = 16
"""Cycles of a quarter for a load from global memory and the store of what came to shared memory, of
32 threads a word each, with their addresses. Estimated."""

SCATTERED = 0.5
"""Cycles for an element of a fragment that a warpgroup's threads store to global memory. Estimated:
a warp's store reaches 8 rows."""

_ORDERS = (
    nodes.MBarrierArrive, nodes.MBarrierExpectTx, nodes.MBarrierWait, nodes.FenceProxyAsync,
    nodes.WarpSync, nodes.BarSync, nodes.CtaSync, nodes.ClusterSync, nodes.TmaLoad,
    nodes.TmaStore, nodes.BulkCommit, nodes.WgmmaFence, nodes.WgmmaCommit, nodes.WgmmaWait,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Hopper:
    """Costs of a kernel's statements, in cycles of an SM.

    Args:
        kernel: says how large boxes are.
    """

    kernel: Kernel

    def busy(self, stmt: Stmt) -> float:
        """For which a warp does nothing but execute a statement; of copies by threads all of it."""
        match stmt:
            case nodes.CopyTile(rows=rows, cols=cols, dst=ref):
                size = rows * cols * self.kernel.buffer(ref.buffer).dtype.bytes
                return LATENCY + WORD * size / QUARTERS / (32 * 4)
            case nodes.FragCast(value=f) | nodes.StMatrix(value=f):
                return ELEMENT / 2 * f.type.rows * f.type.cols
            case nodes.FragStoreGlobal(value=f):
                return SCATTERED * f.type.rows * f.type.cols
        return ORDER if isinstance(stmt, _ORDERS) else 0.0

    def work(self, stmt: Stmt) -> Work:
        """What goes on by itself: copies by TMA, products."""
        match stmt:
            case nodes.Wgmma(acc=acc, width=cols):
                family, b = self.kernel.target.mma, self.kernel.buffer(stmt.b.buffer)
                rows, k = acc.type.rows, family.k(b.dtype)
                least = WGMMA * rows // family.m
                return Work("tensor", True, max(2 * rows * cols * k / FLOPS_PER_CYCLE, least), 0.0)
            case nodes.TmaLoad(src=ref):
                return Work("copies", False, self._bytes(ref) / FILL_BYTES[True], LATENCY)
            case nodes.TmaStore(dst=ref):
                lines = self._bytes(ref) / ptx.WIDEST_SWIZZLE
                return Work("copies", False, lines * STORE_LINE, 0.0)  # nobody waits for more
        raise InternalError("ladder", f"no cost of what {stmt.OP} starts")

    def _bytes(self, ref: nodes.GmemRef) -> int:
        """Of the box that a copy moves."""
        moved = self.kernel.tensor_map(ref.map)
        return prod(moved.box) * moved.dtype.bytes
