"""The rings of a final kernel, found by what its warps do: who waits, who fills, what is told.

The passes take the declarations of rings away. A *full* barrier is one that copies complete on, or
at which a warp arrives that stored into shared memory since it last waited; the barrier that it
waited for is the ring's *empty* one. Nothing rests on this being right: what is found is what the
proof is about, and an mbarrier that belongs to no ring is an obligation that is not proved.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from lowering.ground.errors import InternalError
from lowering.ground.expr import Expr, free_vars, substitute
from lowering.kernel.control import Let
from lowering.kernel.cp_async import CpAsync, CpAsyncArrive
from lowering.kernel.kernel import Kernel
from lowering.kernel.memory import TmaLoad
from lowering.kernel.operands import IN_STAGES, SmemRef, Stmt
from lowering.kernel.sync import MBarrierArrive, MBarrierWait
from lowering.kernel.tensor_memory import Tcgen05Commit, Tcgen05Fence, Tcgen05Load
from lowering.kernel.traits import Memory
from lowering.kernel.visit import operands, walk
from lowering.proof.agent import Agent

__all__ = ["UNTOLD", "Ring", "defined", "generic", "is_relaxed", "rings_of", "written"]

UNTOLD = "{} of what threads have stored or loaded"
"""Why an order is too weak."""


@dataclass(frozen=True, slots=True)
class Ring:
    """Buffers whose stages are filled and read in turn.

    Args:
        full, empty: its arrays of mbarriers.
        stages: of each.
        buffers: what is filled.
        loaded: whether the async proxy writes them.
        copied: whether ``cp.async`` does.
        proxies: through which they are read.
        scoped: of its arrays those at which something is released to all CTAs of a cluster.
        reached: those at which copies and products of other CTAs arrive.
        stored: whether threads write its buffers.
    """

    full: str
    empty: str
    stages: int
    buffers: frozenset[str]
    loaded: bool
    copied: bool
    proxies: Memory
    scoped: frozenset[str]
    reached: frozenset[str] = frozenset()
    stored: bool = False

    @property
    def name(self) -> str:
        """For people: what its barriers' names have in common."""
        return self.full.removesuffix("_full")

    def unheard(self, array: str, order: str, own: bool = False) -> str:
        """What a wait of an order at one of its arrays does not acquire; empty if nothing. ``own``
        says whether who waits accesses the buffers through the generic proxy.

        A relaxed order hands on what TMA has copied and wgmma has read. It is not enough for what
        threads have done, nor for what they do behind the wait, which may come in front of it.
        """
        if array in self.scoped and order != "acquire.cluster":
            return f"{order} of what release.cluster has published"
        summed = array == self.full and not self.loaded
        heard = order == "acquire.cluster" if summed else order.endswith(".cluster")
        if array in self.reached and not heard:
            return f"{order} of what other CTAs tell of"
        done = summed or self.stored if array == self.full else Memory.SHARED in self.proxies
        return UNTOLD.format(order) if is_relaxed(order) and (done or own) else ""


@dataclass
class _Found:
    empties: set[str] = field(default_factory=set)
    buffers: set[str] = field(default_factory=set)
    loaded: bool = False
    copied: bool = False


def rings_of(kernel: Kernel, agents: tuple[Agent, ...]) -> tuple[tuple[Ring, ...], tuple[str, ...]]:
    """The rings, and the names of mbarriers that belong to none."""
    found: dict[str, _Found] = {}
    for agent in agents:
        _note(agent, found)
    found = {full: f for full, f in found.items() if f.buffers & _read_behind(agents, full)}
    stages = {m.name: m.stages for m in kernel.mbarriers}
    released = {
        s.bar.array
        for a in agents
        for s in walk(a.body)
        if isinstance(s, MBarrierArrive) and s.order == "release.cluster"
    }
    rings, reached = [], _reached(agents)
    for full, f in found.items():
        if len(f.empties) != 1 or not f.empties.isdisjoint(found):
            continue
        (empty,) = f.empties
        if full in stages and stages.get(empty) == stages[full]:
            buffers = frozenset(f.buffers)
            proxies = _proxies(agents, buffers)
            scoped = frozenset(n for n in (full, empty) if n in released)
            ways = f.loaded, f.copied, proxies
            stored = any(_stores(a, buffers) for a in agents)
            told = scoped, reached & {full, empty}, stored
            rings.append(Ring(full, empty, stages[full], buffers, *ways, *told))
    used = [n for r in rings for n in (r.full, r.empty)]
    return tuple(rings), tuple(n for n in stages if used.count(n) != 1)


def _reached(agents: tuple[Agent, ...]) -> frozenset[str]:
    """The arrays at which products and copies of another CTA of a group may arrive."""
    found = set[str]()
    for stmt in (s for a in agents for s in walk(a.body)):
        match stmt:
            case Tcgen05Commit(bar=bar, multicast=mask) if mask is not None:
                found.add(bar.array)
            case TmaLoad(bar=bar, cta_group=size) if bar is not None and size > 1:
                found.add(bar.array)
    return frozenset(found)


def defined(kernel: Kernel, e: Expr) -> Expr:
    """``e`` without the names that a kernel defines in front of its roles."""
    lets = {s.var: s.value for s in kernel.body if isinstance(s, Let)}
    while free_vars(e) & lets.keys():
        e = substitute(e, lets)
    return e


def written(stmt: Stmt) -> Iterator[SmemRef]:
    """Where a statement writes into shared memory through the generic proxy."""
    if stmt.TRAITS.writes & Memory.SHARED:
        found = getattr(stmt, "dst", None)
        if not isinstance(found, SmemRef):
            raise InternalError("proof", f"{stmt.OP} has no place that it writes to")
        yield found


def _note(agent: Agent, found: dict[str, _Found]) -> None:
    """What one agent says of the rings, in the order of its text: an arrival is for what was stored
    behind the last one.
    """
    waited, stored, copied = "", set[str](), False
    ordered, told, behind = "", False, dict[str, str]()
    for stmt in walk(agent.body):
        match stmt:
            case Tcgen05Fence(when=when):  # behind the wait for sums, and in front of what tells
                ordered, told = (waited, False) if when == "after" else (ordered, True)
            case Tcgen05Load(src=src):
                ordered = ordered or waited
                found.setdefault(ordered, _Found()).buffers.add(src.buffer)
            case MBarrierArrive(bar=bar) if ordered in found and (told or ordered not in behind):
                behind[ordered], told = bar.array, False
            case MBarrierWait(bar=bar):
                waited, stored, copied = bar.array, set(), False
            case TmaLoad(dst=dst, bar=bar) if bar is not None:
                ring = found.setdefault(bar.array, _Found())
                ring.empties.add(waited)
                ring.buffers.add(dst.buffer)
                ring.loaded = True
            case MBarrierArrive(bar=bar) | CpAsyncArrive(bar=bar):
                if waited and stored and bar.array != waited:
                    ring = found.setdefault(bar.array, _Found())
                    ring.empties.add(waited)
                    ring.buffers |= stored
                    ring.copied |= copied
                    stored, copied = set(), False
            case _:
                stored |= {ref.buffer for ref in written(stmt)}
                copied |= isinstance(stmt, CpAsync)
    for full, empty in behind.items():
        found[full].empties.add(empty)


def _read_behind(agents: tuple[Agent, ...], full: str) -> set[str]:
    """The buffers that those read who wait at an array: who releases a stage may have stored what
    others read.
    """
    return {
        x.buffer
        for a in agents
        if any(isinstance(s, MBarrierWait) and s.bar.array == full for s in walk(a.body))
        for s in walk(a.body)
        if s.TRAITS.reads & (Memory.SHARED | Memory.SHARED_ASYNC | Memory.TENSOR)
        for x in operands(s)
        if isinstance(x, IN_STAGES)
    }


def is_relaxed(order: str) -> bool:
    """Whether an order hands on no accesses of threads."""
    return order.startswith("relaxed.")


def generic(agent: Agent, ring: Ring) -> bool:
    """Whether an agent's threads access a ring's buffers through the generic proxy."""
    reads = Memory.SHARED in _proxies((agent,), ring.buffers)
    return reads or _stores(agent, ring.buffers)


def _stores(agent: Agent, buffers: frozenset[str]) -> bool:
    return any(ref.buffer in buffers for s in walk(agent.body) for ref in written(s))


def _proxies(agents: tuple[Agent, ...], buffers: frozenset[str]) -> Memory:
    proxies = Memory.NONE
    for agent in agents:
        for stmt in walk(agent.body):
            reads = stmt.TRAITS.reads & (Memory.SHARED | Memory.SHARED_ASYNC)
            if reads and any(
                isinstance(x, SmemRef) and x.buffer in buffers for x in operands(stmt)
            ):
                proxies |= reads
    return proxies
