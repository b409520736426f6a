"""Tensor memory: products that one thread issues, loads of a warpgroup, allocation, and order.

Cells of tensor memory are asynchronous for everybody but the thread, or warp, that made the access:
``tcgen05.commit`` tells an mbarrier that products are complete, ``tcgen05.wait.ld`` tells a warp
that its loads are. From thread to thread order takes a fence on either side: what one did, ``fence
before``, a signal; a wait, ``fence after``, what the other does (PTX ISA, tcgen05 memory
consistency model).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lowering.ground.expr import ONE, TRUE, Expr
from lowering.kernel.operands import Frag, MBarrierRef, SmemRef, Stmt, TmemRef
from lowering.kernel.traits import Memory, Threads, Traits

__all__ = [
    "LdTensor",
    "MmaTensor",
    "Tcgen05Alloc",
    "Tcgen05Base",
    "Tcgen05Commit",
    "Tcgen05Dealloc",
    "Tcgen05Fence",
    "Tcgen05Load",
    "Tcgen05Mma",
    "Tcgen05Relinquish",
    "Tcgen05WaitLoad",
]

_SINCE = "synchronize_tcgen05"
_BY_WARP = Traits(threads=Threads.WARP, synchronizes=True, since="allocate_tensor_memory")


@dataclass(frozen=True, slots=True)
class MmaTensor(Stmt):
    """``rows x cols`` cells from ``d`` on become A · Bᵀ over ``k`` columns of one stage, plus what
    they were where ``accumulate`` is true (tile level, until ``synchronize_tcgen05``).

    A is ``rows x k`` from ``a`` on, B is ``cols x k`` from ``b`` on, both K-major; with ``trans_a``
    or ``trans_b`` the operand is MN-major instead, stored as ``k x rows`` or ``k x cols``.

    Issued by the leader of the kernel's ``cta_group`` for all CTAs of it: each has ``rows`` of A
    and of the cells, and a part of the ``cols`` of B, those of the leader first.
    """

    OP: ClassVar[str] = "mma.tensor"
    TRAITS: ClassVar[Traits] = Traits(
        threads=Threads.ONE, reads=Memory.SHARED_ASYNC, writes=Memory.TENSOR, until=_SINCE
    )
    d: TmemRef
    a: SmemRef
    b: SmemRef
    rows: int
    cols: int
    k: int
    accumulate: Expr
    trans_a: bool = False
    trans_b: bool = False


@dataclass(frozen=True, slots=True)
class LdTensor(Stmt):
    """A tile from tensor memory (tile level, until ``synchronize_tcgen05``), where ``steps`` steps
    of a k loop were summed up: zeros where there are none, because no product has overwritten what
    the memory held before. ``out`` has the layout of the target's accumulators.
    """

    OP: ClassVar[str] = "ld.tensor"
    TRAITS: ClassVar[Traits] = Traits(threads=Threads.WARPGROUP, reads=Memory.TENSOR, until=_SINCE)
    out: Frag
    src: TmemRef
    steps: Expr = ONE


@dataclass(frozen=True, slots=True)
class Tcgen05Mma(Stmt):
    """``tcgen05.mma`` of 128 rows of each CTA of the kernel's ``cta_group``, ``cols`` columns and
    32 bytes of K.

    Asynchronous, issued by one thread of the leader, whose products happen in order. Reads two
    shared tiles of each CTA through 64-bit descriptors, which are the same for all: 128 rows of A,
    and of B as many of the ``cols`` as each CTA has. Where ``accumulate`` is false it overwrites.
    """

    OP: ClassVar[str] = "tcgen05.mma"
    TRAITS: ClassVar[Traits] = Traits(
        threads=Threads.ONE, reads=Memory.SHARED_ASYNC, writes=Memory.TENSOR, since=_SINCE
    )
    d: TmemRef
    a: SmemRef
    b: SmemRef
    cols: int
    accumulate: Expr = TRUE
    trans_a: bool = False
    trans_b: bool = False


@dataclass(frozen=True, slots=True)
class Tcgen05Commit(Stmt):
    """``tcgen05.commit.mbarrier::arrive::one``: one arrival at ``bar`` when all products that the
    executing thread has issued are complete. Implies ``tcgen05.fence before``.

    With a ``multicast`` mask of ranks the barrier at that place in each of these CTAs is arrived
    at, and no other.
    """

    OP: ClassVar[str] = "tcgen05.commit"
    TRAITS: ClassVar[Traits] = Traits(
        threads=Threads.ONE, synchronizes=True, since="allocate_mbarriers"
    )
    bar: MBarrierRef
    multicast: Expr | None = None


@dataclass(frozen=True, slots=True)
class Tcgen05Load(Stmt):
    """``tcgen05.ld.sync.aligned.16x256b``: a tile from tensor memory, each warp its 32 lanes.

    ``out`` is in flight until a ``tcgen05.wait.ld`` of the warp.
    """

    OP: ClassVar[str] = "tcgen05.ld"
    TRAITS: ClassVar[Traits] = Traits(threads=Threads.WARPGROUP, reads=Memory.TENSOR, since=_SINCE)
    out: Frag
    src: TmemRef


@dataclass(frozen=True, slots=True)
class Tcgen05WaitLoad(Stmt):
    """``tcgen05.wait::ld.sync.aligned``: all loads of the executing warp are complete. ``out`` is
    ``acc``, settled. Consumes ``acc``.
    """

    OP: ClassVar[str] = "tcgen05.wait.ld"
    TRAITS: ClassVar[Traits] = Traits(
        threads=Threads.WARPGROUP,
        synchronizes=True,
        consumes=("acc",),
        flying=("acc",),
        since=_SINCE,
    )
    out: Frag
    acc: Frag


@dataclass(frozen=True, slots=True)
class Tcgen05Fence(Stmt):
    """``tcgen05.fence::before_thread_sync``, or ``::after_thread_sync``; ``when`` is ``before`` or
    ``after``. Orders only the executing threads.
    """

    OP: ClassVar[str] = "tcgen05.fence"
    TRAITS: ClassVar[Traits] = Traits(synchronizes=True, since="allocate_mbarriers")
    when: str


@dataclass(frozen=True, slots=True)
class Tcgen05Alloc(Stmt):
    """``tcgen05.alloc.sync.aligned``: one warp; all lanes of ``columns`` columns, a power of two.
    Waits until there are as many. Stores their address at ``dst``, a word.

    One warp of each CTA of the kernel's ``cta_group`` executes it, as it does ``relinquish`` and
    ``dealloc``: they are given the same columns, and wait for each other.
    """

    OP: ClassVar[str] = "tcgen05.alloc"
    TRAITS: ClassVar[Traits] = Traits(
        threads=Threads.WARP,
        writes=Memory.SHARED,
        synchronizes=True,
        since="allocate_tensor_memory",
    )
    dst: SmemRef
    columns: int


@dataclass(frozen=True, slots=True)
class Tcgen05Relinquish(Stmt):
    """``tcgen05.relinquish_alloc_permit``: the CTA allocates nothing more; one warp."""

    OP: ClassVar[str] = "tcgen05.relinquish"
    TRAITS: ClassVar[Traits] = _BY_WARP


@dataclass(frozen=True, slots=True)
class Tcgen05Base(Stmt):
    """From here on references to tensor memory count from ``address``, what an allocation has
    stored. Every thread executes it, once and on the outermost level.
    """

    OP: ClassVar[str] = "tcgen05.base"
    TRAITS: ClassVar[Traits] = _BY_WARP
    address: Expr


@dataclass(frozen=True, slots=True)
class Tcgen05Dealloc(Stmt):
    """``tcgen05.dealloc``: the ``columns`` columns of the base are free; one warp. Whatever is
    allocated has to be given back before the CTA ends.
    """

    OP: ClassVar[str] = "tcgen05.dealloc"
    TRAITS: ClassVar[Traits] = _BY_WARP
    columns: int
