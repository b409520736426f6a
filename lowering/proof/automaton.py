"""One agent's way through its rings, on every path and for every number of trips.

The states of ``lowering.proof.state`` are followed through the agent's program. A condition that is
not decided by what is known goes both ways. A loop is followed trip by trip until its state, told
from the loop's place, is that of the trip before, and then once more for any later trip: that is
the induction. What is wrong on a path raises ``RefutedError``; a statement that nothing is known of
raises ``UnknownError``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from lowering.ground.expr import Const, Expr, Var, substitute
from lowering.ground.poly import Poly, poly
from lowering.kernel.cluster import StAsync
from lowering.kernel.compute import Wgmma, WgmmaCommit, WgmmaWait
from lowering.kernel.control import Break, Elect, For, If, Let
from lowering.kernel.cp_async import CpAsync, CpAsyncArrive
from lowering.kernel.memory import TmaLoad
from lowering.kernel.operands import Body, MBarrierRef, SmemRef, Stmt, TmemRef
from lowering.kernel.sync import (
    BarSync,
    CtaSync,
    FenceProxyAsync,
    MBarrierArrive,
    MBarrierExpectTx,
    MBarrierWait,
    WarpSync,
)
from lowering.kernel.text import print_stmt
from lowering.kernel.traits import Memory
from lowering.kernel.visit import operands
from lowering.proof.agent import Agent
from lowering.proof.finite import latest
from lowering.proof.known import ELSEWHERE
from lowering.proof.obligation import RefutedError, UnknownError
from lowering.proof.rings import UNTOLD, Ring, generic, written
from lowering.proof.state import Access, Fill, Read, State, Told, Walked, merged, untold
from lowering.proof.steps import Steps, congruent, put
from lowering.proof.tensor_memory import IN_TENSOR_MEMORY, check_released, in_tensor_memory

__all__ = ["Automaton"]

ONE = poly(Const(1))


@dataclass
class Automaton:
    """The walk of one agent; ``peers`` are the arrivals that a release takes, by empty barrier."""

    agent: Agent
    steps: Steps
    rings: tuple[Ring, ...]
    peers: Mapping[str, frozenset[Told]]
    loop: Callable[[Automaton, For, State], list[State]]
    walked: Walked = field(default_factory=Walked)
    one: bool = False
    committing: bool = False
    values: dict[Var, Expr] = field(default_factory=dict)
    places: dict[Expr, Poly] = field(default_factory=dict)
    left: list[list[State]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.full = {r.full: r for r in self.rings}
        self.empty = {r.empty: r for r in self.rings}
        self.copied = [r.full for r in self.rings if r.copied]
        self.of_buffer = {b: r for r in self.rings for b in r.buffers}
        self.generic = {r.full for r in self.rings if generic(self.agent, r)}

    def run(self, start: State) -> Walked:
        """Follow the whole program.

        Raises:
            RefutedError: on some path something is wrong.
            UnknownError: a statement, or what it says, is not understood.
        """
        ends = self.body(self.agent.body, [start])
        for state in ends:
            for read in state.reads:
                self.fail(state, "release", read.ring, f"step {read.at.expr()} is never released")
            self.closed(state)
        if len({s.first for s in ends}) > 1:
            raise UnknownError("first arrivals differ from path to path")
        self.walked.first = ends[0].first if ends else ()
        return self.walked

    def fail(self, state: State, name: str, ring: str, why: str) -> None:
        """Say what is wrong on this path."""
        refuted = RefutedError(name, ring.removesuffix("_full"), why)
        refuted.trace = state.trace
        raise refuted

    def body(self, body: Body, states: list[State]) -> list[State]:
        """The states behind a statement list."""
        for stmt in body:
            states = merged(s for state in states for s in self.statement(stmt, state))
        return states

    def statement(self, stmt: Stmt, state: State) -> list[State]:
        """The states behind a statement."""
        match stmt:
            case Let():
                return [state]
            case Elect():
                outer, self.one = self.one, True
                found = self.body(stmt.body, [state])
                self.one = outer
                return found
            case If(cond, then, other):
                return [
                    end
                    for truth, branch in ((True, then), (False, other))
                    for s in self.assumed(state, cond, truth)
                    for end in self.body(branch, [s])
                ]
            case For():
                return self.loop(self, stmt, state)
            case Break(cond):
                self.left[-1] += self.assumed(state, cond, True)
                return self.assumed(state, cond, False)
        return [self.plain(stmt, state)]

    def assumed(self, state: State, cond: Expr, truth: bool) -> list[State]:
        """The state where a condition is ``truth``; none where it cannot be."""
        cond = self.steps.resolve(substitute(cond, self.values))
        decided = state.facts.decide(cond)
        if decided is not None:
            return [state] if decided == truth else []
        return [replace(state, facts=state.facts.assumed(cond, truth))]

    def plain(self, stmt: Stmt, state: State) -> State:
        """The state behind a statement without others in it."""
        match stmt:
            case MBarrierWait(bar=bar, parity=parity, order=order):
                state = state.said(self.told(stmt))
                self.acquired(state, bar, order)
                return self.waited(state, bar, parity)
            case MBarrierArrive(bar=bar, cta=cta, order=order):
                cta = None if cta is None else substitute(cta, self.values)
                self.published(state, bar, cta, order)
                return self.arrived(state.said(self.told(stmt)), bar, (cta, self.threads))
            case MBarrierExpectTx(bar=bar, bytes=count):
                state = self.arrived(state.said(self.told(stmt)), bar, (None, self.threads))
                if (fill := state.fill(bar.array)) is None or count is None:
                    raise UnknownError(f"{stmt.OP} behind no fill")
                return state.filling(replace(fill, bytes=poly(self.steps.resolve(count))))
            case CpAsyncArrive(bar=bar):
                return self.arrived(state.said(self.told(stmt)), bar, (None, self.threads), True)
            case TmaLoad():
                return self.loaded(stmt, state.said(self.told(stmt)))
            case FenceProxyAsync():
                state = state.fenced(self.copied, self.threads)
                return state if self.one else state.accessed(Access.fence)
            case WarpSync() | BarSync() | CtaSync():
                met = state.accessed(Access.meet)
                return replace(met, reads=tuple(replace(r, whole=True) for r in met.reads))
            case WgmmaCommit():
                return replace(state, pending=frozenset(), groups=(*state.groups, state.pending))
            case WgmmaWait(pending=n):
                return replace(state, groups=latest(state.groups, n))
        if isinstance(stmt, IN_TENSOR_MEMORY):
            return in_tensor_memory(self, stmt, state)
        return self.accessed(stmt, state)

    @property
    def threads(self) -> int:
        """Threads of the warp that execute what stands here."""
        return 1 if self.one else 32

    def told(self, stmt: Stmt) -> str:
        """A statement for people."""
        return f"{self.agent}: {' '.join(print_stmt(stmt).split())}"

    def place(self, stage: Expr, parity: Expr | None, stages: int) -> Poly | None:
        """The place of a stage and a parity, or, modulo the stages, of a stage alone."""
        stage = substitute(stage, self.values)
        parity = None if parity is None else substitute(parity, self.values)
        found = self.steps.place(stage, parity, stages)
        return None if found is None else put(found, self.places)

    def waited(self, state: State, bar: MBarrierRef, parity: Expr) -> State:
        """Behind a wait: the warp has a step to read, or one to fill."""
        ring = self.full.get(bar.array) or self.empty.get(bar.array)
        if ring is None:
            raise UnknownError(f"{bar.array} belongs to no ring")
        at = self.place(bar.index, parity, ring.stages)
        count = self.count(state, ring, bar.array, at)
        if at is None:
            self.fail(state, "step", ring.full, "stage and parity are those of no known step")
            raise AssertionError
        if not congruent(at, count, 2 * ring.stages) and not state.same(at, count):
            why = f"waits for step {at.expr()}, its next one is {count.expr()}"
            if self.agent.group and bar.array == ring.full and not count.terms:
                raise UnknownError(f"{ring.name}: {why}; who takes those before is not known")
            self.fail(state, "step", ring.full, why)
        self.progress(state, ring, count)
        state = state.counted(bar.array, count + ONE)
        if bar.array == ring.full:
            read = Read(ring.full, count, whole=not self.one)
            if len(state.reads) > 64:
                raise UnknownError(f"more than 64 steps of {ring.name} are read at once")
            return replace(state, reads=(*state.reads, read))
        before = state.fill(ring.full)
        if before is not None:
            self.filled(state, before)
        return state.filling(Fill(ring.full, count, self.one))

    def acquired(self, state: State, bar: MBarrierRef, order: str) -> None:
        """Fail if a wait does not acquire what is told at its barrier, and has to be known."""
        ring = self.full.get(bar.array) or self.empty.get(bar.array)
        if ring and (why := ring.unheard(bar.array, order, ring.full in self.generic)):
            self.fail(state, "step", ring.full, why)

    def published(self, state: State, bar: MBarrierRef, cta: Expr | None, order: str) -> None:
        """Fail if an arrival does not publish the ordinary accesses that it tells of."""
        ring = self.full.get(bar.array) or self.empty.get(bar.array)
        if ring is not None and (name := untold(state, ring, bar.array, cta, order)):
            where = "" if cta is None else f" at CTA {cta}"
            self.fail(state, name, ring.full, UNTOLD.format(order + where))

    def count(self, state: State, ring: Ring, array: str, first: Poly | None) -> Poly:
        """The step that is waited for next at an array; ``first`` is where, if it is the first one.

        At an empty barrier that nobody arrives at first, a wait with the parity of a round before
        passes at once: steps are counted from S on there.
        """
        if array != ring.empty or array in dict(state.counts) or first is None:
            return state.count(array)
        round_ = poly(Const(ring.stages))
        if not congruent(first, round_, 2 * ring.stages):
            return state.count(array)
        self.walked.late.add(array)
        return round_

    def progress(self, state: State, ring: Ring, count: Poly) -> None:
        """Fail if the warp waits for a step that needs a stage which it holds itself."""
        for read in state.reads:
            if read.ring == ring.full:
                ahead = count.apart(read.at)
                if ahead is None or ahead >= ring.stages:
                    why = f"waits for step {count.expr()} while it holds {read.at.expr()}"
                    self.fail(state, "step", ring.full, why)

    def arrived(self, state: State, bar: MBarrierRef, told: Told, landed: bool = False) -> State:
        """Behind an arrival: of a fill, of a release, or before any step."""
        if bar.array in self.full:
            return self.committed(state, self.full[bar.array], bar, told, landed)
        if bar.array not in self.empty:
            raise UnknownError(f"{bar.array} belongs to no ring")
        ring = self.empty[bar.array]
        at = self.place(bar.index, None, ring.stages)
        if at is None:
            self.fail(state, "release", ring.full, "the stage is that of no known step")
            raise AssertionError
        if ring.full not in dict(state.counts):
            stage = at.constant()
            if stage is None:
                raise UnknownError(f"first arrival at {ring.empty} on no constant stage")
            return replace(state, first=(*state.first, (ring.empty, stage % ring.stages, told)))
        mine = [n for n, r in enumerate(state.reads) if r.ring == ring.full]
        open_ = [n for n in mine if told not in state.reads[n].told]
        if not open_:
            self.fail(state, "release", ring.full, "no step is left to release")
        read = state.reads[open_[0]]
        if not congruent(at, read.at, ring.stages) and not state.same(at, read.at):
            why = f"releases the stage of step {at.expr()}, the oldest one is {read.at.expr()}"
            self.fail(state, "release", ring.full, why)
        self.done(state, ring, read)
        new = replace(read, told=(*read.told, told))
        if frozenset(new.told) == self.release(ring):
            self.walked.releases.setdefault(ring.full, set()).add(frozenset(new.told))
            return replace(state, reads=tuple(r for r in state.reads if r is not read))
        return state.reading(read, new)

    def release(self, ring: Ring) -> frozenset[Told]:
        """The arrivals that release a step: those that all the empty barriers began with."""
        return self.peers.get(ring.empty, frozenset())

    def done(self, state: State, ring: Ring, read: Read) -> None:
        """Fail unless the warp's reads of a step are over."""
        step = read.ring, read.at
        if step in state.pending or any(step in g for g in state.groups):
            why = f"step {read.at.expr()} is released while a wgmma may read it"
            self.fail(state, "release", ring.full, why)
        check_released(self, state, ring, read)
        if read.access.done and not read.access.met:
            why = f"step {read.at.expr()} is released before all threads of the warp have read it"
            self.fail(state, "release", ring.full, why)
        if read.access.done and ring.loaded and not read.access.fenced:
            why = f"step {read.at.expr()} is released without a fence.proxy.async behind its reads"
            self.fail(state, "release", ring.full, why)

    def committed(
        self, state: State, ring: Ring, bar: MBarrierRef, told: Told, landed: bool
    ) -> State:
        """Behind an arrival at a full barrier."""
        fill = self.filling(state, ring, bar.index, "arrives")
        if fill.issued and not self.committing:
            self.fail(state, "fill", ring.full, "an arrival, no tcgen05.commit, tells of products")
        if fill.access.done and not (landed and fill.access.copied):
            if Memory.SHARED_ASYNC in ring.proxies and not fill.access.fenced:
                self.fail(state, "fill", ring.full, "no fence.proxy.async behind the stores")
            if not fill.access.met and not fill.one:
                self.fail(state, "fill", ring.full, "not all threads of the warp have stored")
        return state.filling(fill.telling(told, landed))

    def filling(self, state: State, ring: Ring, stage: Expr, what: str) -> Fill:
        """The step that is being filled, to which a stage has to belong."""
        fill, at = state.fill(ring.full), self.place(stage, None, ring.stages)
        if fill is None:
            self.fail(state, "fill", ring.full, f"{what} before it has waited for a free stage")
            raise AssertionError
        if at is None or not (congruent(at, fill.at, ring.stages) or state.same(at, fill.at)):
            known = "no known step" if at is None else f"step {at.expr()}"
            self.fail(state, "fill", ring.full, f"{what} at {known}, not {fill.at.expr()}")
        return fill

    def loaded(self, stmt: TmaLoad, state: State) -> State:
        """Behind a copy by TMA."""
        if stmt.bar is None or stmt.bar.array not in self.full:
            raise UnknownError("a copy that completes on no full barrier")
        ring = self.full[stmt.bar.array]
        fill = self.filling(state, ring, stmt.bar.index, "completes")
        self.filling(state, ring, stmt.dst.stage, "loads")
        return state.filling(replace(fill, copies=(*fill.copies, stmt)))

    def accessed(self, stmt: Stmt, state: State) -> State:
        """Behind a statement that may read or write buffers."""
        if stmt.TRAITS.synchronizes and type(stmt) not in ELSEWHERE:
            raise UnknownError(f"{stmt.OP} synchronizes, and nothing is known of how")
        if stmt.TRAITS.writes & Memory.SHARED_ASYNC or isinstance(stmt, StAsync):
            raise UnknownError(f"{stmt.OP} writes shared memory by another proxy or asynchronously")
        stores = {id(ref) for ref in written(stmt)}
        for ref in operands(stmt):
            if not isinstance(ref, SmemRef) or (ring := self.of_buffer.get(ref.buffer)) is None:
                continue
            if id(ref) in stores:
                fill = self.filling(state, ring, ref.stage, f"{stmt.OP} stores")
                if fill.one and not self.one:
                    self.fail(state, "fill", ring.full, f"{stmt.OP} by threads that did not wait")
                untold = fill.untold | {self.target(stmt)}
                stored = fill.stored | {ref.buffer}
                flies = isinstance(stmt, CpAsync)
                access = Access(True, copied=flies and (fill.access.copied or not fill.untold))
                new = replace(fill, access=access, untold=untold, stored=stored)
                copying = max(fill.copying, self.threads if flies else 0)
                state = state.filling(replace(new, copying=copying))
            else:
                state = self.read(state.said(self.told(stmt)), stmt, ring, ref)
        return state

    def target(self, stmt: Stmt) -> Expr | None:
        """The CTA whose shared memory a statement accesses; None is its own."""
        cta = getattr(stmt, "cta", None)
        return None if cta is None else substitute(cta, self.values)

    def held(self, state: State, stmt: Stmt, ref: SmemRef | TmemRef, ring: Ring) -> Read:
        """The step that a reference reads, which the warp has to hold."""
        if (cta := self.target(stmt)) not in (None, Const(self.agent.rank)):
            raise UnknownError(f"{stmt.OP} reads a stage of CTA {cta}")
        found = state.holding(ring, self.place(ref.stage, None, ring.stages))
        if not found:
            self.fail(state, "read", ring.full, f"{stmt.OP} reads a stage that it does not hold")
        if not found[-1].whole and not self.one:
            self.fail(state, "read", ring.full, f"{stmt.OP} by threads that did not wait")
        return found[-1]

    def read(self, state: State, stmt: Stmt, ring: Ring, ref: SmemRef) -> State:
        """Behind a read of a stage."""
        read = self.held(state, stmt, ref, ring)
        if isinstance(stmt, Wgmma):
            if ring.copied and read.fenced < self.threads:
                self.fail(state, "read", ring.full, "no fence.proxy.async behind the wait")
            return replace(state, pending=state.pending | {(ring.full, read.at)})
        if Memory.SHARED_ASYNC in stmt.TRAITS.reads:
            raise UnknownError(f"{stmt.OP} reads a ring through the async proxy")
        return state.reading(read, replace(read, access=Access(True)))

    def closed(self, state: State, waited: Collection[str] | None = None) -> State:
        """Where what was begun to be filled is: behind a trip or a loop in which there are waits at
        these arrays; None for the end of all.
        """
        kept = () if waited is None else tuple(
            f for f in state.fills if self.full[f.ring].empty not in waited
        )  # fmt: skip
        for fill in (f for f in state.fills if f not in kept):
            self.filled(state, fill)
        return replace(state, fills=kept)

    def filled(self, state: State, fill: Fill) -> None:
        """A step is filled: note with what. A barrier waits for all arrivals of an agent, so the
        last one has to come behind its stores.
        """
        if fill.untold:
            what = "copies by cp.async" if fill.copying else "stores"
            self.fail(state, "fill", fill.ring, f"{what} behind the last arrival for them")
        plain = replace(fill, at=Poly(()), access=Access())
        self.walked.fills.setdefault(fill.ring, set()).add(plain)
