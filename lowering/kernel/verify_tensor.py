"""What stands in tensor memory, and what multiplies and loads there. Part of ``verify``."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from lowering.ground.dtypes import DType
from lowering.ground.expr import Const
from lowering.ground.frozen import fields_of
from lowering.kernel.kernel import Kernel, SharedBuffer, TensorBuffer
from lowering.kernel.nodes import (
    LdTensor,
    MmaTensor,
    Stmt,
    Tcgen05Alloc,
    Tcgen05Commit,
    Tcgen05Dealloc,
    Tcgen05Fence,
    Tcgen05Load,
    Tcgen05Mma,
    TmemRef,
)
from lowering.kernel.rules import about
from lowering.target.tensor_memory import LANES

__all__ = ["RULES", "declared_tensors"]


def declared_tensors(kernel: Kernel) -> Iterator[str]:
    """Rules that declarations break: the target has the memory, and buffers share no column."""
    memory, group = kernel.target.tensor_memory, kernel.cta_group
    if kernel.cluster % group.size:
        yield f"clusters of {kernel.cluster} CTAs are no groups of {group.size}"
    for t in kernel.tensors:
        if memory is None:
            yield f"{kernel.target.arch} has no tensor memory, in: tensor {t.name}"
        elif t.dtype.bits != 32 or len(t.shape) != 2 or t.rows % LANES:
            what = f"{t.dtype.value} of {'x'.join(map(str, t.shape))}"
            yield f"{what}: a tile is of 32 bits and {LANES} rows, in: tensor {t.name}"
    placed = sorted(
        (t.column, t.column + t.columns, t.name) for t in kernel.tensors if t.column is not None
    )
    for (_, stop, first), (start, _, second) in pairwise(placed):
        if start < stop:
            yield f"{first} and {second} share columns {start} .. {stop} of tensor memory"
    if memory is not None and placed and placed[-1][1] > memory.columns:
        yield f"{placed[-1][1]} columns of tensor memory, of {memory.columns}"


def _cells(kernel: Kernel, stmt: Stmt) -> Iterator[str]:
    """What a statement takes of a tile lies in it."""
    for ref in fields_of(stmt):
        t = kernel.find(TensorBuffer, ref.buffer) if isinstance(ref, TmemRef) else None
        if t is not None:
            yield from _inside(t, ref, *_covered(stmt, t))


def _loaded(kernel: Kernel, stmt: LdTensor | Tcgen05Load) -> Iterator[str]:
    """A fragment has the type that a load gives it."""
    out, flying = stmt.out, isinstance(stmt, Tcgen05Load)
    if out.type.layout != kernel.target.mma.layout or out.type.rows % LANES:
        yield f"{out.name} is {out.type}, which is not whole lanes as a warp reads them"
    if out.type.in_flight is not flying:
        left = "in flight" if flying else "settled"
        yield f"{out.name} is {out.type}, {stmt.OP} leaves it {left}"
    t = kernel.find(TensorBuffer, stmt.src.buffer)
    if t is not None and t.dtype is not out.type.dtype:
        yield f"{out.name} is {out.type}, {t.name} is {t.dtype.value}"


def _told(kernel: Kernel, stmt: Tcgen05Commit) -> Iterator[str]:
    """A mask has CTAs of the cluster, and some."""
    match stmt.multicast:
        case Const(mask) if not 0 < mask < 1 << kernel.cluster:
            yield f"a mask of {mask:#b} in a cluster of {kernel.cluster}"


def _fence(kernel: Kernel, stmt: Tcgen05Fence) -> Iterator[str]:
    if stmt.when not in ("before", "after"):
        yield f"a fence {stmt.when}, not before or after"


def _allocation(kernel: Kernel, stmt: Tcgen05Alloc | Tcgen05Dealloc) -> Iterator[str]:
    """The target can allocate so many columns."""
    memory = kernel.target.tensor_memory
    problem = "no tensor memory" if memory is None else memory.problem(stmt.columns)
    if problem:
        yield f"{problem}, not {stmt.columns}"


def _word(kernel: Kernel, stmt: Tcgen05Alloc) -> Iterator[str]:
    """An address goes to a word."""
    slot = kernel.find(SharedBuffer, stmt.dst.buffer)
    if slot is not None and (slot.dtype is not DType.S32 or slot.swizzle.value):
        yield f"{slot.name} is no word"


def _covered(stmt: Stmt, t: TensorBuffer) -> tuple[int, int]:
    """Rows and columns that a statement takes from an element on."""
    match stmt:
        case MmaTensor(rows=rows, cols=cols):
            return rows, cols
        case Tcgen05Mma(cols=cols):
            return LANES, cols
        case LdTensor(out) | Tcgen05Load(out):
            return out.type.rows, out.type.cols
    return t.rows, t.cols


def _inside(t: TensorBuffer, ref: TmemRef, rows: int, cols: int) -> Iterator[str]:
    if len(ref.coords) != 2:
        yield f"{t.name} has rows and columns, not {len(ref.coords)} dimensions"
        return
    if isinstance(ref.row, Const) and (ref.row.value % LANES or ref.row.value + rows > t.rows):
        yield f"rows {ref.row.value} .. {ref.row.value + rows} of {t.name} are no whole lanes of it"
    if isinstance(ref.col, Const) and ref.col.value + cols > t.cols:
        yield f"columns {ref.col.value} .. {ref.col.value + cols} of {t.name}, which has {t.cols}"


def _product(kernel: Kernel, stmt: MmaTensor | Tcgen05Mma) -> Iterator[str]:
    """Types and tiles are such that instructions multiply."""
    family = kernel.target.mma
    a, b = (kernel.find(SharedBuffer, x.buffer) for x in (stmt.a, stmt.b))
    d = kernel.find(TensorBuffer, stmt.d.buffer)
    if a is None or b is None or d is None:
        return
    cols, rows, k = stmt.cols, family.m, family.k(a.dtype)
    if isinstance(stmt, MmaTensor):  # a pass cuts it, and refuses its columns
        form = family.form(a.dtype, b.dtype, d.dtype)
        cols, rows, k = (min(form.n) if form is not None else cols), stmt.rows, stmt.k
    if problem := family.problem(a.dtype, b.dtype, d.dtype, cols):
        yield problem
    mine = stmt.cols // family.ctas
    for x, extent, trans in ((a, rows, stmt.trans_a), (b, mine, stmt.trans_b)):
        tile = (k, extent) if trans else (extent, k)
        if tile[0] > x.rows or tile[1] > x.cols:
            what = "x".join(map(str, tile))
            yield f"a tile of {what} does not fit into {x.name} of {x.rows}x{x.cols}"


RULES = (
    about(_cells, MmaTensor, LdTensor, Tcgen05Mma, Tcgen05Load),
    about(_product, MmaTensor, Tcgen05Mma),
    about(_loaded, LdTensor, Tcgen05Load),
    about(_told, Tcgen05Commit),
    about(_fence, Tcgen05Fence),
    about(_allocation, Tcgen05Alloc, Tcgen05Dealloc),
    about(_word, Tcgen05Alloc),
)
"""Of tensor memory."""
