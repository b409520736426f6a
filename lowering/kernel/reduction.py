"""Reductions of fragments: in a thread, over the lanes of a warp, over warps, over CTAs.

A loop over chunks carries ``acc``. Every order of operations is fixed and is the one in which the
machine computes, so that fp32 sums are the same bits there, on the GPU, and in every launch.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import ClassVar

from lowering.ground.dtypes import DType
from lowering.ground.expr import Expr
from lowering.kernel.operands import Frag, GmemRef, SmemRef, Stmt
from lowering.kernel.traits import Memory, Threads, Traits

__all__ = [
    "ABSENT", "HALVES", "NEUTRAL", "REDUCTIONS", "RED_OPS", "WARP_ROWS", "FragBelow",
    "FragRedGlobal", "FragReduce", "FragReduceFromShared", "FragReduceRows",
    "FragReduceToShared", "FragStoreReduced",
]  # fmt: skip

REDUCTIONS = ("sum", "max", "min")
"""Of fp32. ``max`` and ``min`` are NaN if any element is; +0 counts as greater than -0."""

NEUTRAL = {"sum": 0.0, "max": -inf, "min": inf}
"""What each gives of no elements."""

ABSENT = NEUTRAL | {"sum": -0.0}
"""What stands for an element that does not count: it leaves every bit of the others as it is."""

RED_OPS = ("add", "max", "min")
"""PTX's operations of ``red``, here of fp32."""

HALVES = (DType.BF16, DType.F16)
"""Types that ``add`` is of, too, in any layout."""

WARP_ROWS = 4
"""Rows that the warps of a warpgroup store on the way from one to the other, one each."""


@dataclass(frozen=True, slots=True)
class FragReduce(Stmt):
    """``out = op(acc, value)``, where ``acc`` has fewer rows or columns than ``value``, or both.

    Rows are all of ``value``'s, or 64: then blocks of 64 rows fall together. Columns are all, or
    those of one group: then groups fall together, in the thread that holds them; or 1: all columns
    of a row fall together. Other rows and columns keep their places; where all do, it is
    ``frag.update``. Consumes ``acc``.

    Order: onto ``acc`` a thread's elements that fall together, from block to block and within each
    from group to group. To one column they fall together by themselves, in the same order and then
    from the first neighbouring column to the last; then the sums of a row's lanes, each with that
    of the lane ``l ^ 1``, then of ``l ^ 2`` and so on (``shfl.sync.bfly``), which gives all of them
    the same bits, and ``acc`` comes in front of that total.

    Where ``below``, a row or a column of pred, is false, elements do not count (``ABSENT``): those
    of a tile behind the end of its tensor.

    With ``factor``, as large as ``value`` or a row or a column of it, products of both are summed:
    each is added without having been rounded (``fma.rn.f32``), but for one that nothing is in front
    of (``mul.rn.f32``).

    ``op`` is one of ``REDUCTIONS``; all are fragments of f32 in one layout. All rows together
    are further warps' as well: see ``frag.reduce_to_shared``.
    """

    OP: ClassVar[str] = "frag.reduce"
    TRAITS: ClassVar[Traits] = Traits(threads=Threads.WARPGROUP, consumes=("acc",))
    out: Frag
    op: str
    acc: Frag
    value: Frag
    below: Frag | None = None
    factor: Frag | None = None


@dataclass(frozen=True, slots=True)
class FragReduceRows(Stmt):
    """``out = op(acc, value)`` over all rows of a warpgroup's tile: ``acc`` has one row, and as
    many columns as ``value``; ``below`` and ``factor`` as for ``frag.reduce``. Consumes ``acc``.
    Tile level.

    ``reduce_across_warps`` makes ``frag.reduce_to_shared`` and ``frag.reduce_from_shared`` of it.
    """

    OP: ClassVar[str] = "frag.reduce_rows"
    TRAITS: ClassVar[Traits] = Traits(
        threads=Threads.WARPGROUP, consumes=("acc",), until="reduce_across_warps"
    )
    out: Frag
    op: str
    acc: Frag
    value: Frag
    below: Frag | None = None
    factor: Frag | None = None


@dataclass(frozen=True, slots=True)
class FragReduceToShared(Stmt):
    """Each warp's rows of ``value`` as one row to shared memory: warp ``w`` of the warpgroup to
    row ``dst.row + w``, from column ``dst.col`` on, which is even unless there is only one.
    ``below`` and ``factor`` as for ``frag.reduce``.

    Order: a thread's elements of a column from block to block, then the two halves of a block;
    then eight lanes of a column, each with that of the lane ``l ^ 4``, of ``l ^ 8``, of ``l ^ 16``.

    By ordinary stores (``st.shared``, generic proxy), each element by one lane. The buffer is f32
    without a swizzle; a barrier of all warps that read the rows stands behind it, and one between
    their reading and the next store to the same place.
    """

    OP: ClassVar[str] = "frag.reduce_to_shared"
    TRAITS: ClassVar[Traits] = Traits(threads=Threads.WARPGROUP, writes=Memory.SHARED)
    op: str
    dst: SmemRef
    value: Frag
    below: Frag | None = None
    factor: Frag | None = None


@dataclass(frozen=True, slots=True)
class FragReduceFromShared(Stmt):
    """``out = op(acc, rows)``: ``rows`` rows of shared memory from ``src`` on, the first one first,
    then ``acc`` in front of their total. Consumes ``acc``, of one row.

    What ``frag.reduce_to_shared`` of one warpgroup or of several stored, 4 rows each, behind a
    barrier. Every warp that executes it gets the same bits.
    """

    OP: ClassVar[str] = "frag.reduce_from_shared"
    TRAITS: ClassVar[Traits] = Traits(
        threads=Threads.WARPGROUP, reads=Memory.SHARED, consumes=("acc",)
    )
    out: Frag
    op: str
    acc: Frag
    src: SmemRef
    rows: int


@dataclass(frozen=True, slots=True)
class FragStoreReduced(Stmt):
    """``rows`` rows of shared memory from ``src`` on, put together to a row of ``cols`` elements in
    global memory at ``dst``: what ``frag.reduce_from_shared`` onto ``NEUTRAL`` and
    ``frag.store_global`` do, with the same bits, but no thread reads what another one stores.

    Bounds as for ``frag.store_global``; the tensor is f32.
    """

    OP: ClassVar[str] = "frag.store_reduced"
    TRAITS: ClassVar[Traits] = Traits(
        threads=Threads.WARPGROUP, reads=Memory.SHARED, writes=Memory.GLOBAL, plain=True
    )
    op: str
    dst: GmemRef
    src: SmemRef
    rows: int
    cols: int


@dataclass(frozen=True, slots=True)
class FragBelow(Stmt):
    """Which elements of a tile lie below a line: those with ``down * row + right * column <
    limit``, in whole numbers without bounds; rows and columns are counted from the tile's first.

    Where ``out`` has one column these are rows below ``limit``, of one row columns: what a
    reduction takes of a tile at an edge. Of a whole tile it is a mask by the elements' indices.
    ``down`` and ``right`` are at most ``MOST_STEEP`` in size.
    """

    OP: ClassVar[str] = "frag.below"
    TRAITS: ClassVar[Traits] = Traits(threads=Threads.WARPGROUP)
    out: Frag
    limit: Expr
    down: int = 1
    right: int = 1


@dataclass(frozen=True, slots=True)
class FragRedGlobal(Stmt):
    """``red.relaxed.gpu.global``: each element of ``value`` onto the one at its place in ``dst``,
    which other CTAs may do meanwhile.

    ``op`` is one of ``RED_OPS``. ``max`` and ``min`` of fp32 are integer operations, on the bits as
    s32 where the sign is clear and as u32 where it is set. Any order gives the same bits, NaN if an
    element is, as long as the tensor holds no NaN when the grid starts. ``add`` rounds in the
    order in which CTAs come, which differs from launch to launch: only with ``any_order``, which
    says that this is meant. Of fp32 it takes subnormal numbers as zeros; of 16 bits it does not
    (``noftz``), and neighbouring columns are added at once, each for itself, as many as the layout
    has together and the tensor's ``align`` allows (``bf16x2``, ``.v2`` and ``.v4`` of it).

    Bounds, ``limit`` and ``index`` are those of ``frag.store_global``; no thread of the kernel
    reads the tensor. Vectors and single values count once for each warpgroup.
    """

    OP: ClassVar[str] = "frag.red_global"
    TRAITS: ClassVar[Traits] = Traits(threads=Threads.WARPGROUP, writes=Memory.GLOBAL, plain=True)
    op: str
    dst: GmemRef
    value: Frag
    limit: Expr | None = None
    index: Frag | None = None
    any_order: bool = False
