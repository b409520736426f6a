"""Data movement between global memory, shared memory and registers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lowering.ground.expr import Expr
from lowering.ground.frozen import quick
from lowering.kernel.operands import Frag, GmemRef, MapRef, MBarrierRef, SmemRef, Stmt
from lowering.kernel.traits import Memory, Threads, Traits

__all__ = [
    "CACHE_POLICIES",
    "BulkCommit",
    "BulkWait",
    "FragStoreGlobal",
    "LoadTile",
    "PrefetchTensorMap",
    "StMatrix",
    "StShared",
    "StoreTile",
    "TmaLoad",
    "TmaPrefetch",
    "TmaStore",
]

CACHE_POLICIES = ("evict_normal", "evict_first", "evict_last")
"""What the L2 is told of a copy's lines (PTX, ``createpolicy``); the first is the default."""

_BULK_GROUP = Traits(threads=Threads.ONE, synchronizes=True, since="chunk_epilogue")


@dataclass(frozen=True, slots=True)
class PrefetchTensorMap(Stmt):
    """``prefetch.tensormap``: a hint, one thread."""

    OP: ClassVar[str] = "prefetch.tensormap"
    TRAITS: ClassVar[Traits] = Traits(since="prefetch_tensor_maps")
    map: MapRef


@dataclass(frozen=True, slots=True)
class LoadTile(Stmt):
    """Fill one stage of a shared buffer from ``src`` on (tile level, until ``swizzle_shared``); or
    a part of it, ``rows`` and ``cols`` from ``dst`` on, where these are not 0.
    """

    OP: ClassVar[str] = "load.tile"
    TRAITS: ClassVar[Traits] = Traits(
        reads=Memory.GLOBAL,
        writes=Memory.SHARED_ASYNC,
        until="swizzle_shared",
    )
    dst: SmemRef
    src: GmemRef
    rows: int = 0
    cols: int = 0


@dataclass(frozen=True, slots=True)
class StoreTile(Stmt):
    """Write a warpgroup's fragment to global memory at ``dst`` (tile level, until
    ``chunk_epilogue``); with ``trans`` its columns are rows there.
    """

    OP: ClassVar[str] = "store.tile"
    TRAITS: ClassVar[Traits] = Traits(
        threads=Threads.WARPGROUP,
        writes=Memory.GLOBAL,
        until="chunk_epilogue",
    )
    dst: GmemRef
    value: Frag
    trans: bool = False


@dataclass(frozen=True, slots=True)
class FragStoreGlobal(Stmt):
    """``value`` to global memory at ``dst``, by ordinary stores (``st.global``): a tile, or with
    rows or cols of 1 a vector or scalar, of which one lane of the warpgroup stores each element.

    Elements out of bounds are not written, nor are rows of ``value`` from ``limit`` on or columns
    of it from ``limit_cols`` on (TMA cannot end at a place that is known at run time only). With
    ``index``, a column of s32, row ``r`` goes that many rows behind ``dst`` as ``index`` says at
    ``r``, nowhere where that is negative. Two columns at a time where the tensor's ``align`` allows
    it, and then ``dst.col`` is even and all columns count. ``value`` has the tensor's dtype. No
    thread of the kernel reads what is stored.

    With ``trans`` element ``[r, c]`` of ``value`` goes ``c`` rows and ``r`` columns behind ``dst``;
    one element at a time, not by ``index``.
    """

    OP: ClassVar[str] = "frag.store_global"
    TRAITS: ClassVar[Traits] = Traits(threads=Threads.WARPGROUP, writes=Memory.GLOBAL, plain=True)
    dst: GmemRef
    value: Frag
    limit: Expr | None = None
    index: Frag | None = None
    trans: bool = False
    limit_cols: Expr | None = None


@quick
@dataclass(frozen=True, slots=True)
class TmaLoad(Stmt):
    """``cp.async.bulk.tensor``, global to shared: one box of the tensor map, asynchronous.

    Writes the box at ``dst`` (swizzled as the map says, out-of-bounds elements as zero) and then
    completes the box's full bytes on ``bar``. One executing thread issues one copy. With a
    ``multicast`` mask the same box and the same completion go to each of the ``ctas`` CTAs of the
    mask, each of which issues as many such copies, for they all share a tile.

    With a ``cta_group`` of 2 (``.cta_group::2``) ``bar`` is that of the even CTA of the pair in
    which the box lands: who issues products of a pair waits there for what both have loaded.
    ``bar`` is None until ``allocate_mbarriers``; ``cache`` is one of ``CACHE_POLICIES``.
    """

    OP: ClassVar[str] = "tma.load"
    TRAITS: ClassVar[Traits] = Traits(
        threads=Threads.ONE,
        reads=Memory.GLOBAL,
        writes=Memory.SHARED_ASYNC,
        since="swizzle_shared",
        filled=(("bar", "allocate_mbarriers"),),
    )
    dst: SmemRef
    src: GmemRef
    bar: MBarrierRef | None = None
    multicast: Expr | None = None
    ctas: int = 1
    cache: str = "evict_normal"
    cta_group: int = 1


@dataclass(frozen=True, slots=True)
class TmaPrefetch(Stmt):
    """``cp.async.bulk.prefetch.tensor``: a hint that the L2 should fetch one box of the tensor map.

    Nobody gets to see what is fetched: whoever reads it later reads what was written last, so it
    may be asked for before the grid that writes it has ended.
    """

    OP: ClassVar[str] = "tma.prefetch"
    TRAITS: ClassVar[Traits] = Traits(threads=Threads.ONE, since="prefetch_operands")
    src: GmemRef


@dataclass(frozen=True, slots=True)
class TmaStore(Stmt):
    """``cp.async.bulk.tensor``, shared to global: one box; out-of-bounds elements are dropped.

    Reads shared memory through the async proxy at any time until a ``bulk.wait`` of the issuing
    thread covers its group. ``cache`` is one of ``CACHE_POLICIES``.
    """

    OP: ClassVar[str] = "tma.store"
    TRAITS: ClassVar[Traits] = Traits(
        threads=Threads.ONE,
        reads=Memory.SHARED_ASYNC,
        writes=Memory.GLOBAL,
        since="chunk_epilogue",
    )
    dst: GmemRef
    src: SmemRef
    cache: str = "evict_normal"


@dataclass(frozen=True, slots=True)
class BulkCommit(Stmt):
    """``cp.async.bulk.commit_group``: the executing thread's stores since the last commit."""

    OP: ClassVar[str] = "bulk.commit"
    TRAITS: ClassVar[Traits] = _BULK_GROUP


@dataclass(frozen=True, slots=True)
class BulkWait(Stmt):
    """``cp.async.bulk.wait_group[.read] pending``: the executing thread waits until at most
    ``pending`` of *its own* groups are incomplete (``read``: have still to read shared memory).
    """

    OP: ClassVar[str] = "bulk.wait"
    TRAITS: ClassVar[Traits] = _BULK_GROUP
    pending: int
    read: bool = False


@dataclass(frozen=True, slots=True)
class StMatrix(Stmt):
    """``stmatrix.sync.aligned.m8n8.x4``: a 16-bit fragment to shared memory, generic proxy.

    With ``trans`` (PTX's ``.trans``) element ``[r, c]`` of ``value`` goes to row ``c`` and column
    ``r`` from ``dst`` on.
    """

    OP: ClassVar[str] = "stmatrix"
    TRAITS: ClassVar[Traits] = Traits(threads=Threads.WARPGROUP, writes=Memory.SHARED)
    dst: SmemRef
    value: Frag
    trans: bool = False


@dataclass(frozen=True, slots=True)
class StShared(Stmt):
    """``st.shared.v2``, or ``st.shared.b16``: a fragment of 32 or 8 bits to shared memory, two
    elements a store, generic proxy.

    With ``cta`` into that CTA of the cluster (``mapa``, ``st.shared::cluster``), where it is
    visible behind a ``release.cluster`` of each storing thread and an ``acquire.cluster``.
    """

    OP: ClassVar[str] = "st.shared"
    TRAITS: ClassVar[Traits] = Traits(threads=Threads.WARPGROUP, writes=Memory.SHARED)
    dst: SmemRef
    value: Frag
    cta: Expr | None = None
