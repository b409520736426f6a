"""One agent's products, loads and commits in tensor memory: what its steps in rings have to say.

A product is over at any time, and ``tcgen05.commit`` tells of it; no arrival of a thread does. From
thread to thread tensor memory is ordered by a fence on either side of what tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Protocol

from lowering.ground.expr import Const, Expr, evaluate
from lowering.kernel.control import OnWarp
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import LdWord, Roles
from lowering.kernel.operands import MBarrierRef, SmemRef, Stmt, TmemRef
from lowering.kernel.sync import ClusterSync, CtaSync
from lowering.kernel.tensor_memory import (
    Tcgen05Alloc,
    Tcgen05Base,
    Tcgen05Commit,
    Tcgen05Dealloc,
    Tcgen05Fence,
    Tcgen05Load,
    Tcgen05Mma,
    Tcgen05Relinquish,
    Tcgen05WaitLoad,
)
from lowering.kernel.visit import walk
from lowering.proof.agent import Agent, agents
from lowering.proof.obligation import Obligation, UnknownError, Verdict
from lowering.proof.rings import Ring
from lowering.proof.state import Access, Fill, Read, State, Told

__all__ = [
    "IN_TENSOR_MEMORY", "addresses", "allocated", "check_released", "in_tensor_memory", "told_by",
]  # fmt: skip

IN_TENSOR_MEMORY = (Tcgen05Mma, Tcgen05Commit, Tcgen05Load, Tcgen05WaitLoad, Tcgen05Fence)


class Walk(Protocol):
    """An agent's walk, as far as this needs it (``lowering.proof.automaton``)."""

    agent: Agent
    one: bool
    committing: bool

    @property
    def threads(self) -> int: ...

    @property
    def full(self) -> Mapping[str, Ring]: ...

    @property
    def empty(self) -> Mapping[str, Ring]: ...

    @property
    def of_buffer(self) -> Mapping[str, Ring]: ...

    def fail(self, state: State, name: str, ring: str, why: str) -> None: ...

    def filling(self, state: State, ring: Ring, stage: Expr, what: str) -> Fill: ...

    def held(self, state: State, stmt: Stmt, ref: SmemRef | TmemRef, ring: Ring) -> Read: ...

    def arrived(self, state: State, bar: MBarrierRef, told: Told) -> State: ...

    def told(self, stmt: Stmt) -> str: ...


def in_tensor_memory(w: Walk, stmt: Stmt, state: State) -> State:
    """The state behind a statement of :data:`IN_TENSOR_MEMORY`."""
    match stmt:
        case Tcgen05Mma():
            return _multiplied(w, stmt, state.said(w.told(stmt)))
        case Tcgen05Commit(bar=bar):
            w.committing, state = True, state.said(w.told(stmt))
            for cta in told_by(stmt, w.agent.rank):
                state = w.arrived(state, bar, (cta, 1 if w.one else 32))
            w.committing = False
            return state
        case Tcgen05Load(src=src):
            return _loaded(w, stmt, src, state.said(w.told(stmt)))
        case Tcgen05WaitLoad():
            return state.accessed(Access.arrived)
        case Tcgen05Fence(when="before"):
            return state if w.one else state.accessed(Access.before)
        case Tcgen05Fence(when="after"):
            return state.ordered(w.threads)
    raise UnknownError(f"{stmt.OP} in tensor memory")


def told_by(commit: Tcgen05Commit, rank: int) -> Iterator[Expr | None]:
    """The CTAs whose barriers a commit of the CTA of a rank arrives at, None that one itself."""
    mask = 1 << rank if commit.multicast is None else evaluate(commit.multicast, {})
    for cta in range(mask.bit_length()):
        if mask >> cta & 1:
            yield None if cta == rank else Const(cta)


def _multiplied(w: Walk, stmt: Tcgen05Mma, state: State) -> State:
    """Behind a product: it fills a step of sums, and reads steps of its operands."""
    ring = _ring(w, stmt.d)
    fill = w.filling(state, ring, stmt.d.stage, stmt.OP)
    if fill.ordered < w.threads:
        w.fail(state, "fill", ring.full, "no tcgen05.fence after behind the wait for the stage")
    state = state.filling(replace(fill, issued=True, untold=frozenset({None})))
    for ref in (stmt.a, stmt.b):
        ring = _ring(w, ref)
        read = w.held(state, stmt, ref, ring)
        if ring.copied and read.fenced < w.threads:  # cp.async is none of products' proxy
            w.fail(state, "read", ring.full, "no fence.proxy.async behind the wait")
        state = state.reading(read, replace(read, issued=True))
    return state


def _loaded(w: Walk, stmt: Tcgen05Load, src: TmemRef, state: State) -> State:
    read = w.held(state, stmt, src, _ring(w, src))
    if read.ordered < w.threads:
        w.fail(state, "read", read.ring, "no tcgen05.fence after behind the wait for sums")
    return state.reading(read, replace(read, access=Access(True, cells=True, flying=True)))


def _ring(w: Walk, ref: SmemRef | TmemRef) -> Ring:
    found = w.of_buffer.get(ref.buffer)
    if found is None:
        raise UnknownError(f"{ref.buffer} belongs to no ring")
    return found


def check_released(w: Walk, state: State, ring: Ring, read: Read) -> None:
    """Fail unless a step's reads in tensor memory, or by products, are over when it is released."""
    step = f"step {read.at.expr()} is released"
    if read.issued and not w.committing:
        w.fail(state, "release", ring.full, f"{step} while products may read it")
    if w.committing and read.access.done:
        w.fail(state, "release", ring.full, f"{step} by a commit, which tells of no loads")
    if read.access.flying:
        w.fail(state, "release", ring.full, f"{step} without tcgen05.wait.ld behind its loads")
    if read.access.cells and not read.access.fenced:
        w.fail(state, "release", ring.full, f"{step} without tcgen05.fence before behind its loads")


def allocated(kernel: Kernel) -> Iterator[Obligation]:
    """One warp allocates the columns that buffers have, all threads know of them behind a sync, and
    the same warp frees them behind another one; fences stand around both.
    """
    if not kernel.tensors:
        return
    why = _wrong(kernel)
    verdict = Verdict.REFUTED if why else Verdict.PROVED
    yield Obligation("tensor memory", kernel.name, verdict, why)


def addresses(kernel: Kernel) -> frozenset[str]:
    """Buffers that an allocation stores its address to, which :func:`allocated` is about."""
    allocs = (s for s in walk(kernel.body) if isinstance(s, Tcgen05Alloc))
    return frozenset(s.dst.buffer for s in allocs)


def _wrong(kernel: Kernel) -> str:
    """What is wrong with the allocation; empty if nothing."""
    kinds = (Tcgen05Alloc, Tcgen05Relinquish, Tcgen05Base, Tcgen05Dealloc)
    found = [s for s in walk(kernel.body) if isinstance(s, kinds)]
    body = kernel.body
    if tuple(map(type, found)) != kinds or found[2] not in body or not _by_one(kernel):
        return "not one allocation, its end, its address and its release, by one warp"
    alloc, _, base, dealloc = found
    assert isinstance(alloc, Tcgen05Alloc) and isinstance(dealloc, Tcgen05Dealloc)
    parts = [s for s in body if isinstance(s, OnWarp) and set(walk(s.body)) & {alloc, dealloc}]
    most = max(t.column + t.columns for t in kernel.tensors if t.column is not None)
    if alloc.columns != dealloc.columns or most > alloc.columns:
        return f"{alloc.columns} columns are allocated, {dealloc.columns} freed, {most} used"
    at, roles = body.index(base), [n for n, s in enumerate(body) if isinstance(s, Roles)]
    there = len(parts) == 2 and body.index(parts[0]) < at - 4 and at < min(roles, default=at)
    if not (there and _fenced(*body[at - 4 : at - 1]) and _loads(body[at - 1], alloc)):
        return "the address is not read behind fence before, a sync and fence after"
    where = body.index(parts[1])
    if where <= min(roles) or not _fenced(*body[where - 3 : where]):
        return "the columns are not freed behind fence before, a sync and fence after"
    return _wrong_together(kernel, where) if kernel.cta_group.several else ""


def _by_one(kernel: Kernel) -> bool:
    """Whether in each CTA one warp allocates, ends that and frees, on no condition that is not who
    executes it.
    """
    kinds = Tcgen05Alloc, Tcgen05Relinquish, Tcgen05Dealloc
    did = [(a, tuple(type(s) for s in a.body if isinstance(s, kinds))) for a in agents(kernel)]
    alone = [(a.rank, len(a.warps), done) for a, done in did if done]
    return alone == [(rank, 1, kinds) for rank in range(kernel.cluster)]


def _wrong_together(kernel: Kernel, freed: int) -> str:
    """What is wrong where CTAs allocate together, and free what others are given too."""
    if any(isinstance(s, CtaSync) for s in kernel.body):
        return "CTAs that allocate together meet in syncs of one CTA"
    if not any(isinstance(s, ClusterSync) for s in kernel.body[freed:]):
        return "a CTA may leave before those have freed their columns that it allocated with"
    return ""


def _loads(stmt: Stmt, alloc: Tcgen05Alloc) -> bool:
    """Whether it reads the address that an allocation has stored."""
    return isinstance(stmt, LdWord) and stmt.src == alloc.dst


def _fenced(before: Stmt, sync: Stmt, after: Stmt) -> bool:
    pair = Tcgen05Fence("before"), Tcgen05Fence("after")
    return (before, after) == pair and isinstance(sync, CtaSync | ClusterSync)
