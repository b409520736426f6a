"""What statements and what they start cost on an H200, for the machine's clock.

The numbers are those of the heuristic's cost model, where that has them for one statement. What it
has for many together, a step's barriers or a copy's way with all that waits in front of it, is from
recorded runs of the ladder's rungs and their times (design/0013-trace.md). The others are
estimates, and say so.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from lowering.ground.errors import InternalError
from lowering.ground.expr import children, parts_of
from lowering.kernel import nodes
from lowering.kernel.cp_async import CP_ASYNC_BYTES
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import Frag, Stmt
from lowering.kernel.visit import walk
from lowering.machine.clock import Slower, Work
from lowering.target import ptx
from wsched.choose.combine import COMBINE_TILE
from wsched.choose.cost_model import CLUSTER_START, GHZ, STORE_LINE
from wsched.choose.epilogue import OVER_COLUMNS, OVER_ROWS, WORK
from wsched.choose.epilogue_work import FUNCTION, FUNCTIONS, MATRIX
from wsched.choose.step import FILL_BYTES, FLOPS_PER_CYCLE, WGMMA
from wsched.choose.thread_loads import LOAD_LATENCY, PIECE

__all__ = ["Hopper", "Rates"]

QUARTERS = 4
"""Tensor cores of an SM; a warp uses that of its number modulo four (PTX ISA, wgmma)."""

LATENCY = 900
"""Cycles of a copy that nobody is in front of, which the clock sees to, where memory has what is
asked for, and whoever wants the same waits with it: with it rungs of one and of two stages are
predicted at 0.86 to 1.03 of what they take at 4096 and 8192, with the 1600 of the cost model at
1.09 to 1.29."""

L2_LATENCY, L2_LOADED = 400, 290
"""The same where the L2 has it: by the copy engine, in the trace of the seventh rung, and by
threads, in those of the first and of the second."""

ORDER = 20
"""Cycles of a barrier, a fence, or of an instruction that starts something. Estimated: 21 are what
the cost model has for all of a step of the k loop."""

CONVERT = 0.04
"""Cycles for an element of a fragment, to round it and to stage two bytes of it: in traces of rungs
4, 6 and 8 of the ladder and of a cooperative kernel, without what their stamps take; the cost
model's 0.165 have the waits for stores in them."""

READ_LINE = 2.3
"""Cycles for a line that is stored from when the copy engine is free for others until it has been
read: boxes of 128 lines are waited for twice as long as boxes of 64; from the same traces."""

SHARED_BYTES = 128
"""Bytes in a cycle of shared memory: 32 banks of 4 (CUDA C++ Programming Guide)."""

CROWDED = 1.35
"""How many times as long instructions take beside a warp of the same quarter that executes or has
products running."""

STAMP = 140
"""Cycles of a stamp, between its reading of the clock and the next one's: two stamps with nothing
but a wait that is over between them are 80 to 85 ns apart in all traces."""

NUMBER = 4
"""Cycles of an instruction on numbers that waits for the one before it."""

WORD = 16
"""Cycles of a quarter for a load from global memory and the store of what came to shared memory, of
32 threads a word each, with their addresses: the third rung is predicted at 0.93 of what it takes.
"""

SCATTERED = 0.2
"""Cycles for an element of a fragment that a warpgroup's threads store to global memory: 128 x 128
by a warpgroup, rounded before, take 2.0 us in the trace of the third rung."""

PARTIAL = COMBINE_TILE * GHZ * 1e3 / 8192
"""Cycles for an element of a part of a tile, to store or to add it: what the cost model has."""

_ORDERS = (
    nodes.MBarrierArrive, nodes.MBarrierExpectTx, nodes.MBarrierWait, nodes.FenceProxyAsync,
    nodes.WarpSync, nodes.BarSync, nodes.CtaSync, nodes.TmaLoad,
    nodes.TmaStore, nodes.BulkCommit, nodes.WgmmaFence, nodes.WgmmaCommit, nodes.WgmmaWait,
)  # fmt: skip


_INSTRUCTIONS = (
    nodes.FragCast, nodes.FragPointwise, nodes.FragUpdate, nodes.FragReduce,
    nodes.FragReduceToShared, nodes.StMatrix, nodes.StShared, nodes.LdMatrix, nodes.LdShared,
    nodes.FragStorePartial, nodes.FragAddPartial, nodes.Stamp,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rates:
    """What a kernel's neighbours leave it.

    Args:
        fill: bytes in a cycle that come to an SM from the L2 and from memory.
        latency: cycles of a copy until the first of them is there.
        loaded: the same of what threads load.
    """

    fill: float = FILL_BYTES[True]
    latency: float = LATENCY
    loaded: float = LATENCY

    @classmethod
    def of_l2(cls) -> Rates:
        """Where all is in the L2 before it is asked for."""
        return cls(latency=L2_LATENCY, loaded=L2_LOADED)


@dataclass(frozen=True, slots=True)
class Hopper:
    """Costs of a kernel's statements, in cycles of an SM.

    Args:
        kernel: says how large boxes are.
        rates: of copies.
        stamped: whether stamps take their time, as they do on a GPU; if not a time line is that of
            the kernel without them.
    """

    kernel: Kernel
    rates: Rates = Rates()
    stamped: bool = False

    def busy(self, stmt: Stmt) -> float:
        """For which a warp does nothing but execute a statement; of copies by threads all of it."""
        match stmt:
            case nodes.CopyTile(rows=rows, cols=cols, dst=ref):
                size = rows * cols * self.kernel.buffer(ref.buffer).dtype.bytes
                return self.rates.loaded + WORD * size / QUARTERS / (32 * 4)
            case nodes.CpAsync():
                return PIECE * self._copied(stmt) / ptx.WARPGROUP / CP_ASYNC_BYTES
            case nodes.FragPointwise(out=f, op=op) | nodes.FragUpdate(out=f, op=op):
                return WORK * (FUNCTION if op in FUNCTIONS else 1) * _size(f)
            case nodes.FragReduce(value=f):
                return WORK * OVER_COLUMNS * _size(f)
            case nodes.FragReduceToShared(value=f):
                return WORK * OVER_ROWS * _size(f)
            case nodes.FragLoadGlobal(out=f):
                return WORK * MATRIX * _size(f)
            case nodes.FragStorePartial(value=f) | nodes.FragAddPartial(out=f):
                return PARTIAL * _size(f)
            case nodes.FragStoreGlobal(value=f) | nodes.FragRedGlobal(value=f):
                return SCATTERED * _size(f)
            case nodes.Let(value=value):
                return NUMBER * len({p for p in parts_of(value) if children(p)})
            case nodes.Atom():
                return LOAD_LATENCY
            case nodes.ClusterSync():
                return CLUSTER_START / 2  # it meets at the beginning and at the end
            case nodes.Stamp():
                return STAMP if self.stamped else 0.0
            case (
                nodes.FragCast(value=f) | nodes.StMatrix(value=f) | nodes.StShared(value=f)
                | nodes.LdMatrix(out=f) | nodes.LdShared(out=f)
            ):  # fmt: skip
                return CONVERT / 2 * _size(f)
        return ORDER if isinstance(stmt, _ORDERS) else 0.0

    def slower(self, stmt: Stmt) -> Slower | None:
        """Instructions on elements, and stamps; what goes through shared memory gets what products
        that run leave of it.
        """
        if not isinstance(stmt, _INSTRUCTIONS):
            return None
        cycles = self.busy(stmt)
        more = least = (CROWDED - 1) * cycles
        match stmt:
            case (
                nodes.StMatrix(value=f) | nodes.StShared(value=f)
                | nodes.LdMatrix(out=f) | nodes.LdShared(out=f)
            ):  # fmt: skip
                size = _size(f) * f.type.dtype.bytes
                more = max(least, size / self._unread() - cycles)
            case nodes.Stamp():
                least = 0.0
        return Slower("tensor", more, least)

    def _unread(self) -> float:
        """Bytes in a cycle of shared memory that no product asks for while they run."""
        family = self.kernel.target.mma
        rates = [
            (family.m * family.k_bytes * (not isinstance(s.a, Frag)) + s.width * family.k_bytes)
            / self.work(s).cycles * (s.acc.type.rows // family.m)
            for s in walk(self.kernel.body) if isinstance(s, nodes.Wgmma)
        ]  # fmt: skip
        return max(SHARED_BYTES - max(rates, default=0.0), 1.0)

    def work(self, stmt: Stmt) -> Work:
        """What goes on by itself: copies, products, stores into another CTA."""
        match stmt:
            case nodes.Wgmma(acc=acc, width=cols):
                family, rows = self.kernel.target.mma, acc.type.rows
                cycles = rows * cols * family.k_bytes / FLOPS_PER_CYCLE  # of 16 bits: 2 FLOP each
                return Work("tensor", True, max(cycles, WGMMA * rows // family.m), 0.0)
            case nodes.TmaLoad(src=ref):
                return self._copy(self._bytes(ref))
            case nodes.CpAsync():
                # each of the four warps has a quarter
                return self._copy(self._copied(stmt) / QUARTERS)
            case nodes.BulkCopy(src=place):
                return self._copy(self.kernel.buffer(place.buffer).stage_bytes)
            case nodes.TmaStore(dst=ref):
                lines = self._bytes(ref) / ptx.WIDEST_SWIZZLE
                return Work("stores", False, lines * STORE_LINE, lines * READ_LINE)
            case nodes.StAsync() | nodes.StMatrix() | nodes.StShared():  # into another CTA
                return Work("cluster", False, 0.0, ORDER)
        raise InternalError("predict", f"no cost of what {stmt.OP} starts")

    def _copy(self, size: float) -> Work:
        """Of so many bytes to shared memory."""
        return Work("copies", False, size / self.rates.fill, self.rates.latency)

    def _bytes(self, ref: nodes.GmemRef) -> int:
        """Of the box that a copy moves."""
        moved = self.kernel.tensor_map(ref.map)
        return prod(moved.box) * moved.dtype.bytes

    def _copied(self, stmt: nodes.CpAsync) -> int:
        """Bytes of a tile that a warpgroup copies."""
        return stmt.rows * stmt.cols * self.kernel.buffer(stmt.dst.buffer).dtype.bytes


def _size(f: Frag) -> int:
    """Elements of a fragment."""
    return f.type.rows * f.type.cols
