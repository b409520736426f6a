"""When mbarriers may be used: between a sync behind their init and a sync in front of their inval.

Every warp meets the others in the same syncs, at the top of its program, so what stands between the
first and the last of them is between them for all warps. Where another CTA of the cluster is told
something, or copied to, the first sync is the cluster's, and so is one behind it: nobody signals a
CTA that has not initialised its barriers, or that has left.
"""

from __future__ import annotations

from collections.abc import Iterator

from lowering.kernel.cp_async import CpAsyncArrive
from lowering.kernel.kernel import Kernel
from lowering.kernel.memory import TmaLoad
from lowering.kernel.operands import Body, Stmt
from lowering.kernel.sync import (
    ClusterSync,
    CtaSync,
    FenceMBarrierInit,
    MBarrierArrive,
    MBarrierExpectTx,
    MBarrierInit,
    MBarrierInval,
    MBarrierWait,
)
from lowering.kernel.tensor_memory import Tcgen05Commit
from lowering.kernel.visit import bodies, inside, walk
from lowering.proof.agent import Agent
from lowering.proof.certain import Values, runs
from lowering.proof.obligation import Obligation, Verdict

__all__ = ["lifetimes"]

_USES = (MBarrierArrive, MBarrierExpectTx, MBarrierWait, CpAsyncArrive, TmaLoad, Tcgen05Commit)


def lifetimes(kernel: Kernel, agents: tuple[Agent, ...]) -> Iterator[Obligation]:
    """Every mbarrier is used between its init and its inval only, whoever does what first."""
    if not kernel.mbarriers:
        return
    name = "lifetime of mbarriers"
    reached = max(map(_reached, agents))
    for agent in agents:
        why = _wrong(agent, reached)
        if why:
            yield Obligation(name, str(agent), Verdict.REFUTED, why)
            return
    kinds = {tuple(type(s) for s in _syncs(a)) for a in agents}
    if len(kinds) != 1:
        yield Obligation(name, kernel.name, Verdict.REFUTED, "warps meet in different syncs")
        return
    yield Obligation(name, kernel.name)


def _remote(stmt: Stmt) -> bool:
    """Whether a statement reaches into another CTA."""
    if isinstance(stmt, TmaLoad):
        return stmt.multicast is not None or stmt.cta_group > 1
    if isinstance(stmt, Tcgen05Commit):
        return stmt.multicast is not None
    return getattr(stmt, "cta", None) is not None


def _reached(agent: Agent) -> int:
    """Syncs in front of the last statement that reaches into another CTA; -1 if none does."""
    passed, found = 0, -1
    for stmt in agent.body:
        passed += isinstance(stmt, CtaSync | ClusterSync)
        if any(map(_remote, walk((stmt,)))):
            found = passed
    return found


def _syncs(agent: Agent) -> list[Stmt]:
    return [s for s in agent.body if isinstance(s, CtaSync | ClusterSync)]


def _wrong(agent: Agent, reached: int) -> str:
    """What an agent does too early or too late; empty if nothing. ``reached`` is the most that
    :func:`_reached` says of any agent.
    """
    syncs = _syncs(agent)
    inner = [s for s in walk(agent.body) if isinstance(s, CtaSync | ClusterSync)]
    if len(inner) != len(syncs):
        return "a sync of the CTA stands in a loop or a condition"
    if len(syncs) < 2:
        return f"{len(syncs)} syncs of the CTA; one has to follow the inits, one precede the invals"
    around = isinstance(syncs[0], ClusterSync) and any(
        isinstance(s, ClusterSync) for s in syncs[max(reached, 1) :]
    )
    if reached >= 0 and not around:
        return "a CTA of the cluster is reached, but the syncs are those of one CTA"
    state, last = 0, len(syncs)
    fenced = True
    for stmt, sure in _executed(agent.body, {}):
        if isinstance(stmt, CtaSync | ClusterSync):
            if not fenced:
                return "no fence.mbarrier_init between the inits and the sync"
            state += 1
        elif isinstance(stmt, MBarrierInit):
            if state:
                return "an init stands behind the first sync"
            fenced = False
        elif isinstance(stmt, FenceMBarrierInit):
            fenced = fenced or sure
        elif isinstance(stmt, MBarrierInval) and state != last:
            return "an inval stands in front of the last sync"
        elif isinstance(stmt, _USES) and not 0 < state < last:
            return f"{stmt.OP} stands outside of the syncs around the roles"
    return ""


def _executed(body: Body, values: Values, sure: bool = True) -> Iterator[tuple[Stmt, bool]]:
    """The statements of a program, parents first, and of fences whether they are sure to be
    executed; where they are, those of all trips and of no branch that is not taken.
    """
    for stmt in body:
        yield stmt, sure
        if not any(isinstance(s, FenceMBarrierInit) for s in inside(stmt)):
            yield from ((s, False) for s in inside(stmt))
            continue
        ways = runs(stmt, values) if sure else None
        for inner, known in [(b, values) for b in bodies(stmt)] if ways is None else ways:
            yield from _executed(inner, known, ways is not None)
