"""Why statements at other places, branches and roles of other warps do nothing wrong."""

from __future__ import annotations

from lowering.ground.expr import FALSE, ZERO, Binary, Special, parts_of
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import (
    BarArrive,
    BarSync,
    Break,
    BulkWait,
    FenceMBarrierInit,
    FenceProxyAsync,
    GridDepLaunchDependents,
    GridDepWait,
    If,
    LdWord,
    Let,
    MBarrierArrive,
    MBarrierInit,
    MBarrierWait,
    OnWarp,
    PrefetchTensorMap,
    Roles,
    Stmt,
    StWord,
    Tcgen05Fence,
    WgmmaCommit,
    WgmmaFence,
)
from lowering.kernel.visit import bodies, expressions, walk
from tests.mutants.edits import Mutant
from tests.mutants.passing import beyond, fence_of_each, same_warp, waits_for_nothing
from tests.mutants.places import matters

__all__ = ["of_another_place"]


def _hint(stmt: Stmt) -> bool:
    """Whether all that a statement does, or those in it do, is a hint, or a wait of who has nothing
    to wait for.
    """
    hints = GridDepLaunchDependents | PrefetchTensorMap | BulkWait
    leaves = [s for s in walk((stmt,)) if not bodies(s)]
    return bool(leaves) and all(isinstance(s, hints) for s in leaves)


def _elsewhere(stmt: Stmt) -> str | None:
    """Why a statement may stand further on or in another list, where proof and machine see nothing
    wrong: of one with others in it, why each of those may.
    """
    if _hint(stmt):
        return "a hint, or a wait of who has nothing to wait for"
    leaves = [s for s in walk((stmt,)) if not bodies(s)]
    reasons = [_LATER.get(type(s)) for s in leaves]
    return reasons[0] if reasons and len({*reasons}) == 1 else None


_LATER: dict[type[Stmt], str] = {
    GridDepWait: "still in front of each first access to global memory",
    LdWord: "words of one entry are read in any order in front of the arrival that frees it",
    MBarrierArrive: "a step is told of later, still behind its last access; no circle comes of it",
    MBarrierInit: "inits of different barriers are in no order",
    PrefetchTensorMap: "a hint",
    StWord: "words of one entry are in no order: the arrival behind them tells of all",
    WgmmaCommit: "still behind the wgmmas of the group, in front of other ones and of waits for it",
}
"""Why a statement may stand several others further on."""


def _lets_alone(kernel: Kernel, leaves: Break) -> bool:
    """Whether what stands next to a break, which it has been moved beyond, is a name alone for what
    divides nothing.
    """
    lists = [inner for s in walk(kernel.body) for inner in bodies(s) if leaves in inner]
    beside = [body[at - 1] for body in lists if (at := body.index(leaves))]
    lets = (s for s in beside if isinstance(s, Let))
    parts = [p for s in lets for p in parts_of(s.value)]
    divides = any(isinstance(p, Binary) and p.op in ("//", "%", "ceildiv") for p in parts)
    return bool(parts) and not divides


def _same_warps(kernel: Kernel, old: Stmt, new: Stmt | None) -> bool:
    """Whether a sync is at a barrier of another array for as many threads, by the same index, and
    nobody arrives at either without waiting: who meets at it meets there in the same order.
    """
    if (
        not isinstance(old, BarSync)
        or not isinstance(new, BarSync)
        or old.bar.index != new.bar.index
    ):
        return False
    names = {old.bar.array, new.bar.array}
    threads = {b.threads for b in kernel.named_barriers if b.name in names}
    one_way = any(isinstance(s, BarArrive) and s.bar.array in names for s in walk(kernel.body))
    return len(threads) == 1 and not one_way


def _relative(roles: Roles) -> bool:
    """Whether nothing in roles asks for a warp of the CTA, and each is of whole warpgroups."""
    asks = any(isinstance(s, OnWarp) and s.of == "warp" for s in walk((roles,)))
    reads = any(p == Special("warp") for s in walk((roles,)) for e in expressions(s)
                for p in parts_of(e))  # fmt: skip
    return all(r.whole for r in roles.roles) and not asks and not reads


def of_another_place(mutant: Mutant) -> str | None:
    """Why such a mutant is harmless that proof and machine let pass; None if nobody knows."""
    stmt, new, kernel = mutant.stmt, mutant.new, mutant.kernel
    match mutant.kind, stmt:
        case "nest", FenceMBarrierInit() if fence_of_each(kernel, stmt):
            return "still behind all inits of its warp and in front of the sync"
        case "nest", MBarrierWait() if " out in front of " in mutant.what and not any(
            matters(s) for s in mutant.passed
        ):
            return "all lanes wait for what one of them has waited for"
        case "nest", Stmt() if same_warp(kernel, stmt):
            return "the warps that do it are the same"
        case "further", Stmt() if why := beyond(kernel, stmt, mutant.passed):
            return why
        case "nest" | "further", Stmt():
            return _elsewhere(stmt)
        case "copy", Stmt() if _hint(stmt):
            return "a hint, or a wait of who has nothing to wait for"
        case "copy", FenceProxyAsync() | Tcgen05Fence():
            return "one fence more orders more"
        case "copy", GridDepWait():
            return "what has been waited for is over"
        case "copy", WgmmaFence():
            return "it orders registers, of which a role without products has none in flight"
        case "decide", Break() if f"{stmt.cond} behind let " in mutant.what and _lets_alone(
            mutant.kernel, stmt
        ):
            return "what it passes is a name, and nothing is done"
        case "decide", If(cond=Binary("==", _, rhs)) if " <= " in mutant.what and rhs == FALSE:
            return "of two that are true or false only false is no more than false"
        case "decide", If(cond=Binary("==", Special(), rhs)) if (
            " <= " in mutant.what and rhs == ZERO
        ):
            return "no register of a place is negative"
        case "array", BarSync() if _same_warps(mutant.kernel, stmt, new):
            return "the same warps meet at either, one in place of the other"
        case "scope", MBarrierArrive() if new is not None and waits_for_nothing(kernel, new):
            return "each CTA has as many first arrivals of its own as it had of both"
        case "role", Roles() if _relative(stmt):
            return "a role has other whole warpgroups, and nobody asks for a warp of the CTA"
        case _:
            return None
