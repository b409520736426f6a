"""Why statements at other places, branches and roles of other warps do nothing wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lowering.ground.expr import FALSE, ZERO, Binary, Expr, Special, parts_of
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import (
    BarArrive,
    BarSync,
    Body,
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
    TmaPrefetch,
    WarpSync,
    WgmmaCommit,
    WgmmaFence,
)
from lowering.kernel.verify import verify
from lowering.kernel.visit import bodies, expressions, walk
from lowering.proof.prove import claims
from tests.mutants.edits import Mutant
from tests.mutants.passing import beyond, fence_of_each, same_warp, waits_for_nothing
from tests.mutants.places import matters

__all__ = ["of_another_place"]


@dataclass(frozen=True, slots=True)
class _Argument:
    """Why statements of a kind may stand elsewhere, and the claims that say of a kernel that they
    may stand where they do: somebody has to look at that.
    """

    why: str
    claims: frozenset[str] = frozenset()

    def of(self, kernel: Kernel) -> str | None:
        """It, of a kernel that is well formed and of which those claims, and all others, hold."""
        if verify(kernel):
            return None
        found = set[str]()
        for obligation in claims(kernel):
            if obligation.open:
                return None
            found.add(obligation.name)
        return self.why if found >= self.claims else None


def _argument(why: str, *names: str) -> _Argument:
    return _Argument(why, frozenset(names))


_MEETINGS = ("steps of rings", "arrivals", "circles of waits")
"""Who says that nobody waits for ever, and for too little."""

_HINT = _argument("a hint")
_IDLE = _argument("a hint, or a wait of who has nothing to wait for", "staging of stores")

_ELSEWHERE: dict[type[Stmt], _Argument] = {
    BulkWait: _IDLE,
    GridDepLaunchDependents: _HINT,
    GridDepWait: _argument(
        "still in front of each first access to global memory", "griddepcontrol.wait"
    ),
    LdWord: _argument(
        "words of one entry are read in any order in front of the arrival that frees it",
        "steps of rings", "same steps",
    ),
    MBarrierArrive: _argument(
        "a step is told of later, still behind its last access; no circle comes of it",
        "steps of rings", "arrivals", "circles of waits",
    ),
    MBarrierInit: _argument(
        "inits of different barriers are in no order", "mbarrier.init", "lifetime of mbarriers"
    ),
    PrefetchTensorMap: _HINT,
    TmaPrefetch: _HINT,
    StWord: _argument(
        "words of one entry are in no order: the arrival behind them tells of all",
        "steps of rings", "arrivals", "operands",
    ),
    Tcgen05Fence: _argument(
        "still behind all that it orders, which is skipped where it is", "tensor memory"
    ),
    WgmmaCommit: _argument(
        "still behind the wgmmas of the group, in front of other ones and of waits for it",
        "steps of rings", "registers of operands",
    ),
}  # fmt: skip
"""Why a statement may stand in another list, or several others further on, and who says so."""

_COPIED: dict[type[Stmt], _Argument] = {
    BulkWait: _IDLE,
    FenceProxyAsync: _argument("one fence more orders more"),
    GridDepLaunchDependents: _HINT,
    GridDepWait: _argument("what has been waited for is over", "griddepcontrol.wait"),
    PrefetchTensorMap: _HINT,
    TmaPrefetch: _HINT,
    Tcgen05Fence: _argument("one fence more orders more"),
    WgmmaCommit: _argument(
        "the group is empty; waits that leave some pending count it, so cover more"
    ),
    WarpSync: _argument("the threads of a warp meet once more"),
    WgmmaFence: _argument(
        "it orders registers, of which a role without products has none in flight", "wgmma.fence"
    ),
}
"""Why another role may execute a statement as well, and who says so."""


def _elsewhere(stmt: Stmt, table: Mapping[type[Stmt], _Argument], kernel: Kernel) -> str | None:
    """Why a statement may stand where it does in a kernel: of one with others in it, all that are
    in it for one reason.
    """
    leaves = [s for s in walk((stmt,)) if not bodies(s)]
    found = {table.get(type(s)) for s in leaves}
    if _HINT in found and _IDLE in found:
        found.remove(_HINT)
    reason = found.pop() if len(found) == 1 else None
    return None if reason is None else reason.of(kernel)


def _lets_alone(passed: Body) -> bool:
    """Whether statements are names alone for what divides nothing."""
    parts = [p for s in passed if isinstance(s, Let) for p in parts_of(s.value)]
    divides = any(isinstance(p, Binary) and p.op in ("//", "%", "ceildiv") for p in parts)
    return all(isinstance(s, Let) for s in passed) and not divides


def _groups(kernel: Kernel) -> set[Expr]:
    """The names of which warpgroup of its role one is."""
    roles = (r for s in walk(kernel.body) if isinstance(s, Roles) for r in s.roles)
    return {r.group for r in roles if r.group is not None}


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
            why = "still behind all inits of its warp and in front of the sync"
            return _argument(why, "lifetime of mbarriers").of(kernel)
        case "nest", MBarrierWait() if " out in front of " in mutant.what and not any(
            matters(s) for s in mutant.passed
        ):
            why = "all lanes wait for what one of them has waited for"
            return _argument(why, "steps of rings").of(kernel)
        case "nest", Stmt() if same_warp(kernel, stmt):
            return _argument("the warps that do it are the same").of(kernel)
        case "further", Stmt() if why := beyond(
            kernel, stmt, mutant.passed, " in front of " in mutant.what
        ):
            return _argument(why, *_MEETINGS).of(kernel)
        case "nest" | "further", Stmt():
            return _elsewhere(stmt, _ELSEWHERE, kernel)
        case "copy", Stmt():
            return _elsewhere(stmt, _COPIED, kernel)
        case "decide", Break() if " behind " in mutant.what and _lets_alone(mutant.passed):
            return "what it passes is a name, and nothing is done"
        case "decide", If(cond=Binary("==", _, rhs)) if " <= " in mutant.what and rhs == FALSE:
            return "of two that are true or false only false is no more than false"
        case "decide", If(cond=Binary("==", lhs, rhs)) if (
            " <= " in mutant.what
            and rhs == ZERO
            and (isinstance(lhs, Special) or lhs in _groups(kernel))
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
