"""Who decides what happens when: by a seed, or against one statement or one warp.

Random orders miss what goes wrong only if *one* thing is late. The two deterministic adversaries
make one statement as late as can be, or one warp, and everything else as early as can be;
``adversaries`` are all that a kernel can have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import Stmt
from lowering.kernel.traits import Memory
from lowering.kernel.visit import bodies, walk

__all__ = ["Adversary", "HoldBack", "Order", "RunLast", "adversaries"]

Order = Literal["eager", "lazy", "random", "fair"]

_SHARED = Memory.SHARED | Memory.SHARED_ASYNC


@dataclass(frozen=True, slots=True, eq=False)
class HoldBack:
    """One statement is late, everything else early.

    A warp that comes to it runs on only when no other can; its asynchronous operation takes effect
    when nothing else can happen, and what it stores reaches the async proxy with a fence only.

    Args:
        stmt: the statement itself, from the kernel's body.
    """

    stmt: Stmt


@dataclass(frozen=True, slots=True)
class RunLast:
    """One warp runs only when no other can, step by step; effects are early.

    Args:
        rank: its CTA's in the cluster (of each cluster that runs).
        warp: its number in the CTA.
    """

    rank: int
    warp: int


Adversary = Order | HoldBack | RunLast


def adversaries(kernel: Kernel) -> Iterator[HoldBack | RunLast]:
    """Each statement that orders warps or touches shared memory held back, each warp last."""
    for stmt in walk(kernel.body):
        traits = stmt.TRAITS
        if not bodies(stmt) and (traits.synchronizes or traits.touches & _SHARED):
            yield HoldBack(stmt)
    for rank in range(kernel.cluster):
        yield from (RunLast(rank, warp) for warp in range(kernel.threads // 32))
