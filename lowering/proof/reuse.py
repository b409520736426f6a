"""Buffers that lie over stages of a ring: written when nobody reads those any more.

A buffer says which others it lies over. All warps that read these meet once, at the top of their
programs: in front of the meeting stands all that they do with the stages, the waits for their last
product and for their stores by TMA included, behind it all that anybody does with the buffer. Who
only fills stages is waited for by those who read them, step by step: that is what the ring's own
claims say (``same steps``), so that behind the meeting nothing is on its way to a stage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Flag, auto

from lowering.ground.frozen import fields_of
from lowering.kernel.copy_tile import CopyTile
from lowering.kernel.kernel import Kernel, NamedBarrierArray, SharedBuffer
from lowering.kernel.nodes import (
    BarSync,
    BulkCommit,
    BulkWait,
    SmemRef,
    StAsync,
    Stmt,
    TmaLoad,
    TmaStore,
    Wgmma,
    WgmmaWait,
)
from lowering.kernel.traits import Memory
from lowering.kernel.visit import walk
from lowering.proof.agent import Agent
from lowering.proof.finite import Finite
from lowering.proof.obligation import Obligation, UnknownError, Verdict
from lowering.target.ptx import WARP

__all__ = ["reused"]

_FILLS = TmaLoad | CopyTile
_KNOWN = _FILLS | Wgmma | TmaStore


def reused(kernel: Kernel, agents: tuple[Agent, ...]) -> Iterator[Obligation]:
    """A claim for each buffer that lies over others."""
    for buffer in kernel.shared:
        if buffer.over:
            why = _wrong(kernel, agents, buffer)
            verdict = Verdict.REFUTED if why else Verdict.PROVED
            yield Obligation("stages are read", buffer.name, verdict, why)


def _wrong(kernel: Kernel, agents: tuple[Agent, ...], buffer: SharedBuffer) -> str:
    """What is wrong; empty if nothing."""
    found = {a: _accesses(a, (buffer.name,)) for a in agents}
    reads = {a: [s for s in _accesses(a, buffer.over) if not isinstance(s, _FILLS)] for a in agents}
    meeting = [a for a in agents if found[a] or reads[a]]
    why = "no meeting of all that read the stages stands at the top of their programs"
    for barrier in kernel.of(NamedBarrierArray):
        warps = {a.rank: 0 for a in agents}
        for a in meeting:
            warps[a.rank] += len(a.warps)
        if barrier.count != 1 or set(warps.values()) != {barrier.threads // WARP}:
            continue
        faults = [_order(a, barrier.name, buffer) for a in meeting]
        if not any(faults):
            return ""
        why = next((f for f in faults if f and f != _NOWHERE), why)
    return why


_NOWHERE = "the meeting is not at the top, or there are several"


def _order(agent: Agent, barrier: str, buffer: SharedBuffer) -> str:
    """What an agent does on the wrong side of its meeting; empty if nothing."""
    met = [i for i, s in enumerate(agent.body) if _is_meeting(s, barrier)]
    if len(met) != 1 or sum(_is_meeting(s, barrier) for s in walk(agent.body)) != 1:
        return _NOWHERE
    front, behind = agent.body[: met[0]], agent.body[met[0] + 1 :]
    if any(_touches(s, buffer.over) for s in walk(behind)):
        return f"{agent} uses a stage behind the meeting"
    if any(_touches(s, (buffer.name,)) for s in walk(front)):
        return f"{agent} uses {buffer.name} in front of the meeting"
    if other := next((s.OP for s in walk(front) if _by_itself(s, buffer.over)), ""):
        return f"{agent}: when {other} is over with a stage is not known"
    try:
        stored = _Stores(buffer.over).run(front, {_Flying.NOTHING})
    except UnknownError as e:
        return f"{agent}: {e}"
    if stored != {_Flying.NOTHING}:
        return f"{agent} does not wait for its last store in front of the meeting"
    settled = True
    for stmt in front:
        for s in walk((stmt,)):
            if isinstance(s, Wgmma):
                settled = False
            elif isinstance(s, WgmmaWait) and s.pending == 0 and s is stmt:
                settled = True
    return "" if settled else f"{agent} does not wait for its last product in front of the meeting"


class _Flying(Flag):
    """Stores that may still read a stage: in no group yet, and in groups."""

    NOTHING = 0
    OPEN = auto()
    GROUPS = auto()


@dataclass
class _Stores(Finite[_Flying]):
    """What stores from some buffers may still read behind statements."""

    buffers: tuple[str, ...]

    def plain(self, stmt: Stmt, state: _Flying) -> _Flying:
        match stmt:
            case TmaStore() if _touches(stmt, self.buffers):
                return state | _Flying.OPEN
            case BulkCommit() if state & _Flying.OPEN:
                return _Flying.GROUPS
            case BulkWait(pending=0):
                return state & _Flying.OPEN
        return state


def _by_itself(stmt: Stmt, buffers: tuple[str, ...]) -> bool:
    """Whether a copy, or a product, reads or fills buffers and nothing here tells when it has."""
    alone = stmt.TRAITS.touches & Memory.SHARED_ASYNC or isinstance(stmt, StAsync)
    return bool(alone) and not isinstance(stmt, _KNOWN) and _touches(stmt, buffers)


def _is_meeting(stmt: Stmt, barrier: str) -> bool:
    return isinstance(stmt, BarSync) and stmt.bar.array == barrier


def _accesses(agent: Agent, buffers: tuple[str, ...]) -> list[Stmt]:
    return [s for s in walk(agent.body) if _touches(s, buffers)]


def _touches(stmt: Stmt, buffers: tuple[str, ...]) -> bool:
    return any(isinstance(x, SmemRef) and x.buffer in buffers for x in fields_of(stmt))
