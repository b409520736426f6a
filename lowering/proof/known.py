"""Statements that order something, but no step of a ring: claims of their own are about them."""

from __future__ import annotations

from lowering.kernel.atomic import Atom, CounterWait
from lowering.kernel.compute import WgmmaFence
from lowering.kernel.control import SetMaxNReg
from lowering.kernel.group_part import GroupPart
from lowering.kernel.memory import BulkCommit, BulkWait
from lowering.kernel.partial import FragAddPartial, FragStorePartial
from lowering.kernel.scalar_memory import LdGlobalScalar
from lowering.kernel.stamp import Stamp
from lowering.kernel.sync import (
    BarArrive,
    ClusterSync,
    FenceMBarrierInit,
    GridDepLaunchDependents,
    GridDepWait,
    MBarrierInit,
    MBarrierInval,
)
from lowering.kernel.tensor_memory import (
    Tcgen05Alloc,
    Tcgen05Base,
    Tcgen05Dealloc,
    Tcgen05Relinquish,
)

__all__ = ["ELSEWHERE"]

ELSEWHERE = frozenset({
    Atom, BarArrive, BulkCommit, BulkWait, ClusterSync, CounterWait, FenceMBarrierInit,
    FragAddPartial, FragStorePartial, GridDepLaunchDependents, GridDepWait, GroupPart,
    LdGlobalScalar, MBarrierInit, MBarrierInval, SetMaxNReg, Stamp, Tcgen05Alloc, Tcgen05Base,
    Tcgen05Dealloc, Tcgen05Relinquish, WgmmaFence,
})  # fmt: skip
"""None of them fills, reads, awaits or releases a step."""
