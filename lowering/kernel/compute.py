"""Fragments and the warpgroup matrix instruction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lowering.ground.expr import TRUE, Expr
from lowering.ground.frozen import quick, replaced
from lowering.ground.types import FragmentType
from lowering.kernel.operands import Frag, GmemRef, SmemRef, Stmt
from lowering.kernel.traits import Memory, Threads, Traits

__all__ = [
    "FragCast",
    "FragColumns",
    "FragFill",
    "FragLoadGlobal",
    "FragPointwise",
    "FragRows",
    "FragUpdate",
    "LdMatrix",
    "LdShared",
    "MmaTile",
    "Wgmma",
    "WgmmaCommit",
    "WgmmaFence",
    "WgmmaWait",
]

_WGMMA_GROUP = Traits(threads=Threads.WARPGROUP, synchronizes=True, since="synchronize_wgmma")


@dataclass(frozen=True, slots=True)
class FragFill(Stmt):
    """A fragment with every element ``value``."""

    OP: ClassVar[str] = "frag.fill"
    out: Frag
    value: float


@dataclass(frozen=True, slots=True)
class FragCast(Stmt):
    """``value`` converted to the result's dtype by way of fp32, round to nearest even; times
    ``2 ** exponent``, which is that of the types in ``lowering.ground.pairs.SMALLER``.
    """

    OP: ClassVar[str] = "frag.cast"
    out: Frag
    value: Frag
    exponent: int = 0


@dataclass(frozen=True, slots=True)
class FragColumns(Stmt):
    """Columns ``start .. start + out.cols`` of ``value``; a renaming of registers.

    ``start`` is a multiple of 8 and constant once the unrolled loops around it are unrolled.
    """

    OP: ClassVar[str] = "frag.columns"
    out: Frag
    value: Frag
    start: Expr


@dataclass(frozen=True, slots=True)
class FragRows(Stmt):
    """Rows ``start .. start + out.rows`` of ``value``; a renaming of registers.

    ``start`` is a multiple of 64 and constant once the unrolled loops around it are unrolled.
    """

    OP: ClassVar[str] = "frag.rows"
    out: Frag
    value: Frag
    start: Expr


@dataclass(frozen=True, slots=True)
class FragPointwise(Stmt):
    """``out = op(args)``, element by element; ``op`` is a key of ``lowering.kernel.pointwise.OPS``.

    Arguments are settled fragments, whose rows or columns of 1 are repeated as in NumPy, and
    numbers, rounded to fp32. Arithmetic is fp32; a 16-bit argument is converted first, and so is
    one of s32, rounded to nearest even. ``out`` has dtype f32, or pred for a comparison; nothing
    but ``frag.pointwise`` reads a predicate. A sum or difference of a whole tile may have one of 16
    bits, which all arguments have then: pairs are computed at once (``lowering.ground.pairs``).
    """

    OP: ClassVar[str] = "frag.pointwise"
    out: Frag
    op: str
    args: tuple[Frag | float, ...]


@dataclass(frozen=True, slots=True)
class FragUpdate(Stmt):
    """``out = op(acc, *args)``, element by element as ``frag.pointwise``, in the registers of
    ``acc``: what a loop carries from trip to trip. Consumes ``acc``, a value of f32 like ``out``.

    A second accumulator is such a value: ``add`` puts the sum of a few steps onto that of all, in
    fp32, where wgmma itself adds with fewer bits.

    With ``rows``, or ``cols``, only so many of ``acc`` are updated, from ``row`` (a multiple of the
    layout's rows) or ``col`` (of its columns) on; the others stay. Arguments are of that part.
    """

    OP: ClassVar[str] = "frag.update"
    TRAITS: ClassVar[Traits] = Traits(consumes=("acc",))
    out: Frag
    op: str
    acc: Frag
    args: tuple[Frag | float, ...]
    row: int = 0
    rows: int | None = None
    col: int = 0
    cols: int | None = None

    @property
    def part(self) -> FragmentType:
        """What is updated of ``acc``."""
        kind = self.acc.type
        rows = kind.rows if self.rows is None else self.rows
        return replaced(kind, rows=rows, cols=kind.cols if self.cols is None else self.cols)


@dataclass(frozen=True, slots=True)
class FragLoadGlobal(Stmt):
    """``out`` from global memory at ``src``: a tile, or with rows or cols of 1 a vector or scalar.

    Elements out of bounds are zero, and so are rows of ``out`` from ``limit`` on. With ``index``, a
    column of s32, row ``r`` comes from that many rows behind ``src`` as ``index`` says at ``r``;
    where that is negative, it is zero. Ordinary loads (``ld.global``) of what no kernel writes
    meanwhile; as many columns at a time as the layout has side by side and the tensor's ``align``
    allows, and then ``src.col`` is a multiple of as many. ``out`` has the tensor's dtype, pred of
    bool.

    With ``trans`` element ``[r, c]`` of ``out`` is the one ``c`` rows and ``r`` columns behind
    ``src``; one element at a time, of all rows.

    ``fetched`` is a hint for what is loaded one element at a time: bytes around it that the L2 gets
    from memory where it misses, 64, 128 or 256; 0 leaves that to the L2.
    """

    OP: ClassVar[str] = "frag.load_global"
    TRAITS: ClassVar[Traits] = Traits(threads=Threads.WARPGROUP, reads=Memory.GLOBAL, plain=True)
    out: Frag
    src: GmemRef
    limit: Expr | None = None
    index: Frag | None = None
    trans: bool = False
    fetched: int = 0


@dataclass(frozen=True, slots=True)
class LdMatrix(Stmt):
    """``ldmatrix.sync.aligned.m8n8.x4``: a 16-bit tile from shared memory, generic proxy.

    The inverse of ``stmatrix``: ``out`` has the accumulator's layout.
    """

    OP: ClassVar[str] = "ldmatrix"
    TRAITS: ClassVar[Traits] = Traits(threads=Threads.WARPGROUP, reads=Memory.SHARED)
    out: Frag
    src: SmemRef


@dataclass(frozen=True, slots=True)
class LdShared(Stmt):
    """A tile of 32-bit or 8-bit elements from shared memory, generic proxy: the two neighbours that
    a thread holds of a row at once, by ``ld.shared.v2`` or ``ld.shared.u16``.

    ``out`` has the accumulator's layout. Of 32 bits the inverse of ``st.shared``, and with ``cta``
    from that CTA of the cluster, which may not leave before it has heard that the elements have
    been read. Of 8 bits what ``frag.cast`` makes the A of a wgmma of: ``ldmatrix`` would deal four
    neighbours to a thread, which lanes would have to exchange.
    """

    OP: ClassVar[str] = "ld.shared"
    TRAITS: ClassVar[Traits] = Traits(threads=Threads.WARPGROUP, reads=Memory.SHARED)
    out: Frag
    src: SmemRef
    cta: Expr | None = None


@dataclass(frozen=True, slots=True)
class MmaTile(Stmt):
    """``out = acc + A · Bᵀ`` over ``k`` columns of one stage (tile level, until
    ``synchronize_wgmma``). Where ``accumulate`` is false the accumulator counts as zero.

    A is ``rows x k`` from ``a`` on, B is ``cols x k`` from ``b`` on, both K-major; with ``trans_a``
    or ``trans_b`` (of 16 bits only) the operand is MN-major instead, stored as ``k x rows`` or
    ``k x cols``. A may be a fragment of ``rows x k`` elements. Consumes ``acc``. With ``cols`` only
    so many columns of ``acc`` are added to, from ``col`` on; the others stay.

    ``by_row`` and ``by_col`` are numbers that the product counts times, one for each row (or 1) and
    each column (or 1), until ``promote_sums``: the instruction knows none. Of several each is for
    as much of ``k`` as the others, in order, until ``share_slices`` gives each to who sums that.
    ``zeros`` are likewise, one for each row, what is taken from A, a fragment, before it is
    multiplied; the difference is rounded to A's type.
    """

    OP: ClassVar[str] = "mma.tile"
    TRAITS: ClassVar[Traits] = Traits(
        threads=Threads.WARPGROUP,
        reads=Memory.SHARED_ASYNC,
        consumes=("acc",),
        until="synchronize_wgmma",
    )
    out: Frag
    acc: Frag
    a: SmemRef | Frag
    b: SmemRef
    k: int
    accumulate: Expr
    trans_a: bool = False
    trans_b: bool = False
    col: int = 0
    cols: int | None = None
    by_row: tuple[Frag, ...] = ()
    by_col: tuple[Frag, ...] = ()
    zeros: tuple[Frag, ...] = ()

    @property
    def width(self) -> int:
        """Columns that are added to."""
        return self.acc.type.cols if self.cols is None else self.cols


@dataclass(frozen=True, slots=True)
class WgmmaFence(Stmt):
    """``wgmma.fence.sync.aligned``: orders register accesses before the next wgmma."""

    OP: ClassVar[str] = "wgmma.fence"
    TRAITS: ClassVar[Traits] = _WGMMA_GROUP


@quick
@dataclass(frozen=True, slots=True)
class Wgmma(Stmt):
    """``wgmma.mma_async.sync.aligned.m64nNkK``, once for each 64 rows of the accumulator.

    Asynchronous: reads the two shared tiles through 64-bit descriptors and updates the
    accumulator's registers until a ``wgmma.wait`` of the executing warp covers its group. Consumes
    ``acc``; ``out`` is in flight. ``accumulate`` is PTX's scale-d: false overwrites.

    A may be a fragment, of one instruction's K and the layout of ``operand_layout``. Its registers
    are read until the same wait; nobody may write them before.

    The target's table (``MmaFamily.forms``) says which types of A, B and the accumulator go
    together. Sums of s32 wrap around.

    ``trans_a`` and ``trans_b`` are PTX's imm-trans-a and imm-trans-b, for 16-bit types only: the
    operand is MN-major, its buffer holds K as rows and M or N as columns.

    With ``cols`` that is N, and the registers are those of so many columns of the accumulator, from
    ``col`` on, a multiple of 8; the others stay.
    """

    OP: ClassVar[str] = "wgmma"
    TRAITS: ClassVar[Traits] = Traits(
        threads=Threads.WARPGROUP,
        reads=Memory.SHARED_ASYNC,
        consumes=("acc",),
        flying=("acc",),
        since="synchronize_wgmma",
    )
    out: Frag
    acc: Frag
    a: SmemRef | Frag
    b: SmemRef
    accumulate: Expr = TRUE
    trans_a: bool = False
    trans_b: bool = False
    col: int = 0
    cols: int | None = None

    @property
    def width(self) -> int:
        """N of the instruction."""
        return self.acc.type.cols if self.cols is None else self.cols


@dataclass(frozen=True, slots=True)
class WgmmaCommit(Stmt):
    """``wgmma.commit_group.sync.aligned``: the warp's wgmmas since the last commit."""

    OP: ClassVar[str] = "wgmma.commit"
    TRAITS: ClassVar[Traits] = _WGMMA_GROUP


@dataclass(frozen=True, slots=True)
class WgmmaWait(Stmt):
    """``wgmma.wait_group.sync.aligned pending``: at most ``pending`` of the executing warp's groups
    are incomplete. ``out`` is ``acc``, settled if ``pending`` is 0. Consumes ``acc``.
    """

    OP: ClassVar[str] = "wgmma.wait"
    TRAITS: ClassVar[Traits] = Traits(
        threads=Threads.WARPGROUP,
        synchronizes=True,
        consumes=("acc",),
        flying=("acc",),
        since="synchronize_wgmma",
    )
    out: Frag
    acc: Frag
    pending: int
