"""Asynchronous copies into the shared memory of a CTA of the cluster, which an mbarrier counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lowering.ground.expr import Expr
from lowering.kernel.operands import Frag, MBarrierRef, SmemRef, Stmt
from lowering.kernel.traits import Memory, Threads, Traits

__all__ = ["BulkCopy", "StAsync"]


@dataclass(frozen=True, slots=True)
class StAsync(Stmt):
    """``st.async.v2``: a 32-bit fragment into the shared memory of CTA ``cta`` of the cluster,
    which counts its bytes on ``bar``, a barrier of that CTA too. Generic proxy.

    A thread may go on, and its CTA may leave, before the elements have landed. Completing the bytes
    is a release at cluster scope of these elements and of nothing else; who reads them waits for
    ``bar`` with ``acquire.cluster``.
    """

    OP: ClassVar[str] = "st.async"
    TRAITS: ClassVar[Traits] = Traits(
        threads=Threads.WARPGROUP,
        writes=Memory.SHARED,
        since="allocate_mbarriers",
    )
    dst: SmemRef
    value: Frag
    bar: MBarrierRef
    cta: Expr


@dataclass(frozen=True, slots=True)
class BulkCopy(Stmt):
    """``cp.async.bulk.shared::cluster.shared::cta``: one stage of ``src`` to a stage of ``dst`` in
    CTA ``cta`` of the cluster, whose barrier ``bar`` counts the bytes. Async proxy, on both sides.

    The buffers are of one type, shape and swizzle. Only ``bar`` says that the stage has been read,
    so the CTA may neither overwrite it nor leave before it has heard from the other one.
    """

    OP: ClassVar[str] = "bulk.copy"
    TRAITS: ClassVar[Traits] = Traits(
        threads=Threads.ONE,
        reads=Memory.SHARED_ASYNC,
        writes=Memory.SHARED_ASYNC,
        since="allocate_mbarriers",
    )
    dst: SmemRef
    src: SmemRef
    bar: MBarrierRef
    cta: Expr
