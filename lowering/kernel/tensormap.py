"""Tensor maps in device memory: how their descriptors change, and who may use them then.

A descriptor in device memory is read through the tensor map proxy. Whoever changes it goes through
the generic proxy and releases the change; each warp that uses it acquires it behind the release,
and once before the first use: whoever wrote it in front of the launch went through another proxy as
well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lowering.ground.expr import Expr
from lowering.kernel.operands import GmemRef, MapRef, Stmt
from lowering.kernel.traits import Memory, Threads, Traits

__all__ = [
    "FenceTensormapAcquire", "FenceTensormapRelease", "TensormapReplaceAddress",
    "TensormapReplaceDim",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class FenceTensormapAcquire(Stmt):
    """``fence.proxy.tensormap::generic.acquire.gpu``: the executing threads' copies from here on
    see the descriptor as it was released last.
    """

    OP: ClassVar[str] = "fence.proxy.tensormap.acquire"
    TRAITS: ClassVar[Traits] = Traits(reads=Memory.GLOBAL, synchronizes=True)
    map: MapRef


@dataclass(frozen=True, slots=True)
class FenceTensormapRelease(Stmt):
    """``fence.proxy.tensormap::generic.release.gpu``: what the executing threads changed in
    descriptors, for those who meet them behind it and acquire.
    """

    OP: ClassVar[str] = "fence.proxy.tensormap.release"
    TRAITS: ClassVar[Traits] = Traits(synchronizes=True)


@dataclass(frozen=True, slots=True)
class TensormapReplaceAddress(Stmt):
    """``tensormap.replace.global_address``: element 0 of the map is element ``src`` of a plain
    tensor, whose strides are those of the descriptor. No copy that uses the map is in flight.
    """

    OP: ClassVar[str] = "tensormap.replace.global_address"
    TRAITS: ClassVar[Traits] = Traits(threads=Threads.ONE, writes=Memory.GLOBAL, plain=True)
    map: MapRef
    src: GmemRef


@dataclass(frozen=True, slots=True)
class TensormapReplaceDim(Stmt):
    """``tensormap.replace.global_dim``: the map's dimension ``dim`` (0 is the outermost one) has
    ``size`` elements. No copy that uses the map is in flight.
    """

    OP: ClassVar[str] = "tensormap.replace.global_dim"
    TRAITS: ClassVar[Traits] = Traits(threads=Threads.ONE, writes=Memory.GLOBAL)
    map: MapRef
    dim: int
    size: Expr
