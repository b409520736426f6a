"""Buffers between a warpgroup and TMA stores: who may write a stage, and when it may be stored.

A stage that a store reads is free again once the thread that issued it has waited for its group,
and the warps have met behind that; it may be stored once all warps have written, each has
executed ``fence.proxy.async``, and they have met behind that. The four warps of a warpgroup execute
the same, but for what one thread issues, so the walk of one stands for all (``alike``).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product

from lowering.ground.expr import Const
from lowering.kernel.control import Elect, Let, SetMaxNReg
from lowering.kernel.kernel import Kernel
from lowering.kernel.memory import BulkCommit, BulkWait, TmaStore
from lowering.kernel.operands import Body, SmemRef, Stmt
from lowering.kernel.printing import FragPrint
from lowering.kernel.stamp import Stamp
from lowering.kernel.sync import BarSync, ClusterSync, CtaSync, FenceProxyAsync, GridDepWait
from lowering.kernel.tensor_memory import Tcgen05Alloc, Tcgen05Dealloc, Tcgen05Relinquish
from lowering.kernel.traits import Memory, Threads
from lowering.kernel.visit import bodies, map_bodies, operands, walk
from lowering.proof.agent import Agent
from lowering.proof.finite import Finite, latest
from lowering.proof.obligation import Obligation, RefutedError, UnknownError, Verdict

__all__ = ["alike", "staged"]

Stage = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _State:
    """Stages by what has been done with them last; those that are in no set are free.

    Args:
        written: by this warp.
        fenced: written, and all its threads have executed the fence.
        ready: the warps have met behind the fence.
        open: read by stores in no group yet.
        groups: read by stores in groups, the oldest first.
        drained: of groups that there were at a wait, of which they may be all; the warps have not
            met since.
    """

    written: frozenset[Stage] = frozenset()
    fenced: frozenset[Stage] = frozenset()
    ready: frozenset[Stage] = frozenset()
    open: frozenset[Stage] = frozenset()
    groups: tuple[frozenset[Stage], ...] = ()
    drained: frozenset[Stage] = frozenset()

    @property
    def read(self) -> frozenset[Stage]:
        """Stages that a store may still read, as far as all warps know."""
        return self.open.union(self.drained, *self.groups)


@dataclass
class _Walk(Finite[_State]):
    agent: Agent
    buffers: frozenset[str]
    threads: dict[str, int]
    touched: set[Stage] = field(default_factory=set)

    def plain(self, stmt: Stmt, state: _State) -> _State:
        match stmt:
            case TmaStore(src=src):
                return self.store(src, state)
            case BulkCommit():
                return replace(state, open=frozenset(), groups=(*state.groups, state.open))
            case BulkWait(pending=n):
                kept = latest(state.groups, n)
                return replace(state, groups=kept, drained=state.drained.union(*state.groups))
            case FenceProxyAsync() if not self.one:
                fenced = state.fenced | state.written
                return replace(state, written=frozenset(), fenced=fenced)
            case BarSync(bar=bar) if self.threads[bar.array] >= 128:
                return self.met(state)
            case CtaSync() | ClusterSync():
                return self.met(state)
        for ref in operands(stmt):
            if isinstance(ref, SmemRef) and ref.buffer in self.buffers:
                state = self.access(stmt, ref, state)
        return state

    def met(self, state: _State) -> _State:
        """Behind a barrier of the warpgroup."""
        ready = state.ready | state.fenced
        return replace(state, fenced=frozenset(), ready=ready, drained=frozenset())

    def stage(self, ref: SmemRef) -> Stage:
        at = self.value(ref.stage)
        if not isinstance(at, Const):
            raise UnknownError(f"{ref.buffer}[{at}]: the stage is no number")
        self.touched.add((ref.buffer, at.value))
        return ref.buffer, at.value

    def store(self, src: SmemRef, state: _State) -> _State:
        """Behind a store by TMA."""
        if src.buffer not in self.buffers:
            raise UnknownError(f"a store from {src.buffer}, which is a ring's")
        stage = self.stage(src)
        if stage not in state.ready:
            why = f"stage {stage[1]} is stored before all warps have written, fenced and met"
            raise RefutedError("staging", src.buffer, why)
        return replace(state, open=state.open | {stage})

    def access(self, stmt: Stmt, ref: SmemRef, state: _State) -> _State:
        """Behind an access through the generic proxy."""
        if stmt.TRAITS.reads or not stmt.TRAITS.writes & Memory.SHARED:
            raise UnknownError(f"{stmt.OP} reads {ref.buffer}")
        stage = self.stage(ref)
        if stage in state.read:
            why = f"stage {stage[1]} is written while a store may read it, or may for a warp"
            raise RefutedError("staging", ref.buffer, why)
        gone = frozenset({stage})
        return replace(state, written=state.written | gone, fenced=state.fenced - gone,
                       ready=state.ready - gone)  # fmt: skip


def staged(kernel: Kernel, agents: tuple[Agent, ...], ringed: frozenset[str]) -> list[Obligation]:
    """Buffers of no ring are written only where nothing reads them, and stored when whole."""
    buffers = frozenset(b.name for b in kernel.shared) - ringed
    threads = {b.name: b.threads for b in kernel.named_barriers}
    name, found = "staging of stores", []
    owners: dict[Stage, int] = {}
    for agent in agents:
        walk_ = _Walk(agent, buffers, threads)
        try:
            ends = walk_.run(agent.body, {_State()})
            for stage, group in product(walk_.touched, agent.warpgroups):
                owner = owners.setdefault((f"{agent.rank}:{stage[0]}", stage[1]), group)
                if owner != group:
                    raise UnknownError(f"{stage[0]}[{stage[1]}] is of several warpgroups")
            if any(s.open or any(s.groups) for s in ends):
                raise RefutedError("staging", "", "a store may read when its thread has ended")
        except RefutedError as e:
            found.append(Obligation(name, f"{e.ring}, {agent}", Verdict.REFUTED, e.why))
        except UnknownError as e:
            found.append(Obligation(name, str(agent), Verdict.UNPROVED, str(e)))
    return found or [Obligation(name, kernel.name)]


def alike(kernel: Kernel, agents: tuple[Agent, ...]) -> Obligation:
    """Warps of one warpgroup execute the same, but for what one thread of one of them does.

    That is said of all warps in a role of groups, and of each group of which any warp executes
    what takes a whole one; others have programs of their own.
    """
    programs: dict[tuple[int, int], set[Body]] = {}
    together = set[tuple[int, int]]()
    for agent in agents:
        program = _without_elected(agent.body)
        groups = {(agent.rank, n) for n in agent.warpgroups}
        for group in groups:
            programs.setdefault(group, set()).add(program)
        if agent.group is not None or any(map(_takes_all, walk(program))):
            together |= groups
    name = "warps of a group are alike"
    for rank, number in sorted(together):
        if len(programs[rank, number]) > 1:
            why = "warps execute different statements"
            return Obligation(name, f"CTA {rank}, group {number}", Verdict.REFUTED, why)
    return Obligation(name, kernel.name)


def _takes_all(stmt: Stmt) -> bool:
    """Whether all warps of a group execute a statement together; of registers there is a claim."""
    return stmt.TRAITS.threads is Threads.WARPGROUP and not isinstance(stmt, SetMaxNReg)


_OF_ONE_WARP = Tcgen05Alloc | Tcgen05Relinquish | Tcgen05Dealloc


def _without_elected(body: Body) -> Body:
    """A program without what one thread executes, prints, stamps, names, waits for other grids and
    what allocates (of which there are claims of their own), and what holds nothing else.
    """
    found = []
    for stmt in body:
        inner = map_bodies(stmt, _without_elected)
        if isinstance(stmt, Elect | FragPrint | GridDepWait | Let | Stamp | _OF_ONE_WARP):
            continue
        if not bodies(stmt) or any(bodies(inner)):
            found.append(inner)
    return tuple(found)
