"""Statements of the kernel IR.

Every node is a frozen dataclass. A field without a default is a positional operand of the text
form, a field with a default is a keyword that is printed when it differs, ``out`` is the result.
What synchronizes with what is said in the docstrings, in PTX's words. Scalars and fragments are
in SSA form: each name is defined once, loops carry values explicitly.

Nodes that only exist before a certain pass say so ("tile level").
"""

from __future__ import annotations

from lowering.ir.compute import (
    FragCast,
    FragColumns,
    FragFill,
    FragLoadGlobal,
    FragPointwise,
    LdMatrix,
    LdShared,
    MmaTile,
    Wgmma,
    WgmmaCommit,
    WgmmaFence,
    WgmmaWait,
)
from lowering.ir.control import Carry, Elect, For, If, Let, Role, Roles, Section, SetMaxNReg
from lowering.ir.memory import (
    BulkCommit,
    BulkWait,
    FragStoreGlobal,
    LoadTile,
    PrefetchTensorMap,
    StMatrix,
    StoreTile,
    StShared,
    TmaLoad,
    TmaStore,
)
from lowering.ir.operands import Body, Frag, GmemRef, MBarrierRef, NamedBarrierRef, SmemRef, Stmt
from lowering.ir.stamp import Stamp
from lowering.ir.sync import (
    Acquire,
    BarArrive,
    BarSync,
    ClusterSync,
    Consume,
    CtaSync,
    FenceMBarrierInit,
    FenceProxyAsync,
    GridDepLaunchDependents,
    GridDepWait,
    MBarrierArrive,
    MBarrierExpectTx,
    MBarrierInit,
    MBarrierInval,
    MBarrierWait,
    Produce,
    Release,
    WaitFull,
    WarpSync,
)

__all__ = [
    "Acquire",
    "BarArrive",
    "BarSync",
    "Body",
    "BulkCommit",
    "BulkWait",
    "Carry",
    "ClusterSync",
    "Consume",
    "CtaSync",
    "Elect",
    "FenceMBarrierInit",
    "FenceProxyAsync",
    "For",
    "Frag",
    "FragCast",
    "FragColumns",
    "FragFill",
    "FragLoadGlobal",
    "FragPointwise",
    "FragStoreGlobal",
    "GmemRef",
    "GridDepLaunchDependents",
    "GridDepWait",
    "If",
    "LdMatrix",
    "LdShared",
    "Let",
    "LoadTile",
    "MBarrierArrive",
    "MBarrierExpectTx",
    "MBarrierInit",
    "MBarrierInval",
    "MBarrierRef",
    "MBarrierWait",
    "MmaTile",
    "NamedBarrierRef",
    "PrefetchTensorMap",
    "Produce",
    "Release",
    "Role",
    "Roles",
    "Section",
    "SetMaxNReg",
    "SmemRef",
    "StMatrix",
    "StShared",
    "Stamp",
    "Stmt",
    "StoreTile",
    "TmaLoad",
    "TmaStore",
    "WaitFull",
    "WarpSync",
    "Wgmma",
    "WgmmaCommit",
    "WgmmaFence",
    "WgmmaWait",
]
