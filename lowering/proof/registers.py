"""Registers that warpgroups give and take by ``setmaxnreg``: they are there, whoever comes first.

All registers of the SM are the CTA's from the start. A ``dec`` never waits; an ``inc`` waits until
the pool has what it takes, and nobody takes a share back. So if each warpgroup executes one, no
wait for other warps of the CTA stands in front of it but the syncs of all, as many of them for
everybody, all decrements come about; and if the sum of all counts is within the pool, so does each
increment, in any order, with no moment at which more is held than there is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from lowering.kernel.atomic import Atom
from lowering.kernel.control import Elect, SetMaxNReg
from lowering.kernel.kernel import Kernel
from lowering.kernel.operands import Stmt
from lowering.kernel.sync import (
    ClusterSync,
    CtaSync,
    FenceMBarrierInit,
    GridDepLaunchDependents,
    GridDepWait,
    MBarrierArrive,
    MBarrierInit,
)
from lowering.kernel.verify_roles import role_rules
from lowering.kernel.visit import walk
from lowering.proof.agent import Agent
from lowering.proof.obligation import Obligation, Verdict

__all__ = ["budget"]

NAME = "registers of roles"

_SYNCS = CtaSync | ClusterSync
_GOES_ON = (
    Atom, Elect, FenceMBarrierInit, GridDepLaunchDependents, GridDepWait, MBarrierArrive,
    MBarrierInit,
)  # fmt: skip
"""What synchronizes and waits for no warp of the CTA."""

_Asked = tuple[SetMaxNReg, int]
"""What a warp executes, and the syncs of the CTA in front of it."""


def budget(kernel: Kernel, agents: tuple[Agent, ...]) -> Obligation:
    """The registers that roles take by ``setmaxnreg`` are there once those who give have given."""
    ctas = ([a for a in agents if a.rank == rank] for rank in range(kernel.cluster))
    wrong = chain((why for mine in ctas for why in _wrong(kernel, mine)), role_rules(kernel))
    for why in wrong:
        return Obligation(NAME, kernel.name, Verdict.REFUTED, why)
    return Obligation(NAME, kernel.name)


def _wrong(kernel: Kernel, agents: list[Agent]) -> Iterator[str]:
    """What is wrong in a CTA."""
    asked: dict[int, _Asked] = {}
    for agent in agents:
        found = [s for s in walk(agent.body) if isinstance(s, SetMaxNReg)]
        if not found:
            continue
        if len(found) > 1 or found[0] not in agent.body:
            yield f"{agent}: setmaxnreg not once, on the outermost level"
            return
        at = agent.body.index(found[0])
        front = agent.body[:at]
        waiting = [s for s in walk(front) if s.TRAITS.synchronizes and not _goes_on(s, front)]
        if waiting:
            yield f"{agent}: setmaxnreg behind {waiting[0].OP}, which waits for other warps"
            return
        asked |= dict.fromkeys(agent.warps, (found[0], sum(isinstance(s, _SYNCS) for s in front)))
    if asked:
        yield from _together(kernel, asked)


def _goes_on(stmt: Stmt, level: tuple[Stmt, ...]) -> bool:
    """Whether a statement waits for nobody, or for all, who come as often."""
    return isinstance(stmt, _GOES_ON) or (isinstance(stmt, _SYNCS) and stmt in level)


def _together(kernel: Kernel, asked: Mapping[int, _Asked]) -> Iterator[str]:
    """What is wrong with what the warps of a CTA ask for."""
    warps, target = kernel.threads // 32, kernel.target
    entry = kernel.registers_at_entry
    for warp in range(warps):
        if warp not in asked:
            yield f"some warps have a setmaxnreg, warp {warp} has none"
            return
        if asked[warp][0] != asked[warp // 4 * 4][0]:
            yield f"warp {warp} executes another setmaxnreg than the first of its warpgroup"
    if len({syncs for _, syncs in asked.values()}) > 1:
        yield "a sync of the CTA stands behind one setmaxnreg and in front of another"
    for stmt in {s for s, _ in asked.values()}:
        if problem := target.count_problem(stmt.count):
            yield f"{problem}, not {stmt.count}"
        right = stmt.count <= entry if stmt.action == "dec" else stmt.count >= entry
        if not right:
            yield f"setmaxnreg {stmt.action}, {stmt.count} of {entry} registers at entry"
    shares = tuple((32, asked[warp][0].count) for warp in range(warps))
    if target.pool_problem(kernel.threads, shares, entry):
        whole = sum(32 * count for _, count in shares)
        yield f"{whole} registers are asked for, the CTA has {kernel.threads} x {entry}"
