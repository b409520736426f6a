"""Why a statement may stand beyond others, by what it and each of those do.

Where proof and machine see nothing wrong, two statements are in no order if neither awaits, tells
of, or touches what is the other's. Each pair of one that was moved and one that it has passed needs
a reason; of statements with others inside, so does each of those.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from lowering.ground.expr import Const
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import (
    BarArrive,
    BarSync,
    CopyTile,
    CpAsync,
    FenceMBarrierInit,
    FenceProxyAsync,
    For,
    Frag,
    GridDepLaunchDependents,
    LdShared,
    MBarrierArrive,
    MBarrierExpectTx,
    MBarrierInit,
    MBarrierWait,
    OnWarp,
    PrefetchTensorMap,
    Roles,
    SetMaxNReg,
    Stmt,
    TmaLoad,
    TmaPrefetch,
    WarpSync,
    WgmmaWait,
)
from lowering.kernel.traits import Memory
from lowering.kernel.visit import bodies, walk
from tests.mutants.places import after, matters

__all__ = ["beyond", "fence_of_each", "hint", "same_warp", "waits_for_nothing"]

_FILLED = TmaLoad | MBarrierExpectTx
_BY_THREADS = CopyTile | CpAsync | FenceProxyAsync | WarpSync | MBarrierArrive


def hint(stmt: Stmt) -> bool:
    """Whether it only says what may begin early."""
    return isinstance(stmt, GridDepLaunchDependents | PrefetchTensorMap | TmaPrefetch)


def beyond(kernel: Kernel, stmt: Stmt, passed: Sequence[Stmt], sooner: bool) -> str | None:
    """Why a statement may stand on the other side of some, sooner or later than they; None if that
    is not known.
    """
    others = [other for other in passed if _other_warps(stmt, other)]
    theirs = [b for other in passed if other not in others for b in _leaves(other) if not hint(b)]
    pairs = [(a, b) for a in _leaves(stmt) for b in theirs]
    told = dict.fromkeys(
        _pair(kernel, a, b) or (_put_off(a, b) if sooner else None) for a, b in pairs
    )
    if None in told:
        return None
    if others:
        told["what other warps do is in no order with it, but for what both wait for"] = None
    return "; ".join(r for r in told if r) or "what it passes is a hint"


def _leaves(stmt: Stmt) -> Iterator[Stmt]:
    """What matters of it, without what only holds others."""
    return (s for s in walk((stmt,)) if not bodies(s) and (matters(s) or _frags(s)))


def _other_warps(one: Stmt, other: Stmt) -> bool:
    """Whether two statements are those of different warps."""
    both = isinstance(one, OnWarp) and isinstance(other, OnWarp)
    return both and one.of == other.of and one.index != other.index


def _frags(stmt: Stmt) -> bool:
    """Whether it has fragments in registers."""
    read = (getattr(stmt, name) for name in stmt.__match_args__)
    return any(isinstance(value, Frag) for value in (*after(stmt), *read))


def _buffers(stmt: Stmt) -> set[str]:
    """The buffers that a copy fills."""
    return {stmt.dst.buffer} if isinstance(stmt, TmaLoad | CopyTile | CpAsync) else set()


def _filled_behind(kernel: Kernel, barrier: str) -> set[str] | None:
    """The buffers that are filled for the phases of a barrier; None if threads arrive at it."""
    every = list(walk(kernel.body))
    if any(isinstance(s, MBarrierArrive) and s.bar.array == barrier for s in every):
        return None
    return {s.dst.buffer for s in every if isinstance(s, TmaLoad) and s.bar.array == barrier}


def _of_another_ring(kernel: Kernel, wait: MBarrierWait, load: LdShared) -> bool:
    """Whether what is read is filled for phases of another barrier than is waited for."""
    filled = _filled_behind(kernel, wait.bar.array)
    return filled is not None and load.src.buffer not in filled


def _computes(stmt: Stmt) -> bool:
    """Whether it has to do with registers alone."""
    return not (stmt.TRAITS.touches or stmt.TRAITS.synchronizes or bodies(stmt))


def _pair(kernel: Kernel, a: Stmt, b: Stmt) -> str | None:
    """Why ``a`` may stand on the other side of ``b``."""
    if isinstance(a, _FILLED) and a != b and not _buffers(a) & _buffers(b):
        if isinstance(b, _FILLED):
            return "copies and the arrival that tells their bytes are in no order: all are awaited"
        if isinstance(b, _BY_THREADS):
            return "what threads copy and tell of is in no order with the engine's copies"
    match a, b:
        case (MBarrierWait(), WgmmaWait()) | (WgmmaWait(), MBarrierWait()):
            return "two waits are in no order, if none ends by what stands behind the other"
        case MBarrierWait(), LdShared() if _of_another_ring(kernel, a, b):
            return "what it passes is read of another ring"
        case MBarrierWait(), _ if _computes(b):
            return "no phase tells of registers"
        case WgmmaWait(), _ if isinstance(b, LdShared) or _computes(b):
            return "still in front of all that needs it"
        case SetMaxNReg(), _ if not _frags(b):
            return "what it passes needs no more registers"
        case BarArrive(), _:
            return "a turn is handed on later, and no circle of waits comes of it"
    return None


def _put_off(a: Stmt, b: Stmt) -> str | None:
    """Why ``b`` may wait or tell behind ``a`` only."""
    match a, b:
        case _, MBarrierArrive() if not isinstance(a, MBarrierArrive | MBarrierWait | TmaLoad):
            return "a step is told of later, and no circle of waits comes of it"
        case _, WgmmaWait() if not _frags(a) and not a.TRAITS.touches & Memory.SHARED:
            return "still in front of all that needs it"
        case BarSync(), WarpSync():
            return "the lanes meet at the named barrier as well"
    return None


def fence_of_each(kernel: Kernel, fence: FenceMBarrierInit) -> bool:
    """Whether a fence stands last in a loop of inits, which has a trip: so behind the last one."""
    loops = (s for s in walk(kernel.body) if isinstance(s, For) and s.body[-1:] == (fence,))
    return any(
        isinstance(loop.stop, Const) and loop.stop.value > 0
        and all(isinstance(s, MBarrierInit) for s in loop.body[:-1])
        for loop in loops
    )  # fmt: skip


def same_warp(kernel: Kernel, stmt: Stmt) -> bool:
    """Whether what is left to one warp of each warpgroup stands in what only that warp does
    anyway.
    """
    alone = OnWarp(0, (stmt,), "warpgroup.warp")
    around = (s for s in walk(kernel.body) if isinstance(s, OnWarp) and s != alone)
    alike = (s for s in around if (s.index if s.of == "warpgroup.warp" else s.index % 4) == 0)
    return any(alone in walk(s.body) for s in alike)


def waits_for_nothing(kernel: Kernel, stmt: Stmt) -> bool:
    """Whether a statement of a role is in front of all its waits: what all CTAs of a cluster do
    there they do once, for stages that nobody has held.
    """
    roles = (role for s in kernel.body if isinstance(s, Roles) for role in s.roles)
    for role in roles:
        ahead = takewhile(lambda s: not isinstance(s, MBarrierWait), walk(role.body))
        if stmt in ahead:
            return True
    return False
