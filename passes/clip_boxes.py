"""Load no rows that the tensor does not have.

TMA fills what lies outside of the tensor with zeros, and takes its time: about 4.5 ns for each row
of a box (H200, 2026-11-21). With 16 rows of A and boxes of 64 that is three quarters of what is
loaded. A *clipped* tensor map's box has ``min(box rows, the tensor's rows)`` rows in each launch;
the descriptor is made for the launch anyway, and the kernel computes the bytes.

*All rows are still loaded.* A box at a row >= 0 that is as high as the whole tensor covers every
row of it that the box had covered before. Boxes that lie wholly outside are loaded as before,
clipped as well. A tensor map has one box, so a tensor of 100 rows keeps boxes of 64.

*What is not written is not needed.* Behind the clipped rows shared memory holds what was there
before, NaNs too. Row m of A reaches row m of D only, row n of B column n, and a row of a matrix
that the epilogue reads the same row of the result; rows and columns of D beyond M and N are never
stored. But an MN-major operand is stored by rows of K, and each k reaches every element of D:
there the zeros are needed, and its boxes stay whole. So do those whose rows become K on the way: B
of a product whose result is A of another one, in registers or where threads store it; what threads
read, and store transposed as an operand. So do boxes of several matrices, whose lines would move,
and of one dimension, which have no rows; those of a list of tensors, whose descriptors have one
box; and of descriptors in device memory, which may change.

Requires: tensor maps with boxes, ``mma.tile`` that says which operands are MN-major.
Guarantees: every tensor map that is loaded through is clipped, unless one of its loads fills a
buffer whose rows are K or become it, its box is not one matrix, or it is one of a list or in device
memory.

After ``swizzle_shared`` (boxes), before ``synchronize_wgmma`` (``mma.tile``) and ``expect_tx``
(bytes).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import (
    Body,
    For,
    Frag,
    LdMatrix,
    LdShared,
    MmaTensor,
    MmaTile,
    SmemRef,
    StMatrix,
    StShared,
    TmaLoad,
)
from lowering.kernel.visit import defined, used, walk
from passes.options import LoweringOptions

__all__ = ["clip_boxes"]


def clip_boxes(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """Mark the tensor maps whose boxes need no rows beyond the tensor.

    before::

        tensormap A: bf16[M, K] box 64x64 swizzle 128
        tensormap B: bf16[K, N] box 64x64 swizzle 128
        tma.load A_s[0, 0, 0], A[row, k]
        tma.load B_s[0, 0, 0], B[k, col]
        total: frag<f32, 64x64> = mma.tile acc, A_s[0, 0, 0], B_s[0, 0, 0], 64, true, trans_b=true

    after::

        tensormap A: bf16[M, K] box 64x64 clipped swizzle 128
        tensormap B: bf16[K, N] box 64x64 swizzle 128
        ...
    """
    rows_are_k = _rows_of_k(kernel.body)
    loads = [s for s in walk(kernel.body) if isinstance(s, TmaLoad)]
    whole = {load.src.map for load in loads if load.dst.buffer in rows_are_k}
    whole |= {m.name for m in kernel.tensor_maps if len(m.box) < 2 or prod(m.box[:-2]) > 1}
    whole |= {m.name for m in kernel.tensor_maps if m.device or m.count is not None}
    clipped = {load.src.map for load in loads} - whole
    maps = (replace(m, clipped=True) for m in kernel.tensor_maps if m.name in clipped)
    return kernel.redeclare(*maps)


def _rows_of_k(body: Body) -> set[str]:
    """Buffers whose rows are K of a product, as they are or in what threads make of them."""
    operands = {
        ref.buffer: transposed
        for mma in walk(body) if isinstance(mma, MmaTile | MmaTensor)
        for ref, transposed in ((mma.a, mma.trans_a), (mma.b, mma.trans_b))
        if isinstance(ref, SmemRef)
    }  # fmt: skip
    found = {name for name, transposed in operands.items() if transposed}
    made_of = _made_of(body)
    by_rows, by_columns = set[str](), set[str]()  # fragments whose rows, or columns, are K
    for stmt in walk(body):
        match stmt:
            case MmaTile(a=Frag(name)):
                by_columns |= made_of(name)
            case StMatrix() | StShared() if stmt.dst.buffer in operands:
                turned = isinstance(stmt, StMatrix) and stmt.trans
                rows = operands[stmt.dst.buffer] is not turned
                (by_rows if rows else by_columns).update(made_of(stmt.value.name))
    for stmt in walk(body):
        match stmt:
            case LdMatrix() | LdShared() if stmt.out.name in by_rows:
                found.add(stmt.src.buffer)
            case MmaTile():
                if stmt.out.name in by_columns:
                    found.add(stmt.b.buffer)
                if stmt.out.name in by_rows and isinstance(stmt.a, SmemRef):
                    found.add(stmt.a.buffer)
    return found


def _made_of(body: Body) -> Callable[[str], set[str]]:
    """What fragments a fragment is computed from, over any number of steps and trips."""
    direct: dict[str, frozenset[str]] = {}
    for stmt in walk(body):
        if isinstance(stmt, For):
            for carry, value in zip(stmt.carries, stmt.yields, strict=True):
                found = frozenset(x.name for x in (carry.init, value) if isinstance(x, Frag))
                for var in (carry.var, carry.result):
                    direct[var.name] = found
        else:
            direct |= dict.fromkeys(defined(stmt), used(stmt))

    def closure(name: str) -> set[str]:
        found, new = set[str](), {name}
        while new:
            found |= new
            new = set[str]().union(*(direct.get(n, ()) for n in new)) - found
        return found

    return closure
