"""Buffers through which warps hand each other values: all store, meet, all load, meet, and so on.

Of a stage all warps that touch it come to the same meetings, by the same loops and conditions, so
what stands between two meetings of one stands between the same two of the others: stores, or loads,
not both. A barrier at which anybody only arrives is no meeting, since who has arrived goes on, and
syncs at two barriers are not one. Warpgroups that store meanwhile have rows of their own, or not
all of them store; within one each warp has its own row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from lowering.ground.expr import Const, Expr, Var
from lowering.kernel.kernel import Kernel
from lowering.kernel.memory import StShared, TmaStore
from lowering.kernel.operands import SmemRef, Stmt
from lowering.kernel.reduction import WARP_ROWS, FragReduceToShared
from lowering.kernel.sync import BarArrive, BarSync, ClusterSync, CtaSync
from lowering.kernel.traits import Memory
from lowering.kernel.visit import operands, walk
from lowering.proof.agent import Agent
from lowering.proof.finite import Finite
from lowering.proof.obligation import Obligation, RefutedError, UnknownError, Verdict
from lowering.proof.shape import Shape, text
from lowering.proof.views import Views

__all__ = ["exchanged", "exchanges"]

NAME = "exchange in shared memory"

Stage = tuple[str, int]


def exchanged(agents: tuple[Agent, ...], ringed: frozenset[str]) -> frozenset[str]:
    """The buffers that threads load and TMA does not store, of those that are no ring's."""
    found = set[str]()
    for stmt in (s for a in agents for s in walk(a.body)):
        refs = {x.buffer for x in operands(stmt) if isinstance(x, SmemRef)}
        if isinstance(stmt, TmaStore):
            ringed |= refs
        elif stmt.TRAITS.reads & Memory.SHARED:
            found |= refs
    return frozenset(found) - ringed


def exchanges(
    kernel: Kernel, views: Views, agents: tuple[Agent, ...], buffers: frozenset[str]
) -> Iterator[Obligation]:
    """One claim for each of some buffers: whoever loads finds what was stored last."""
    threads = {b.name: b.threads for b in kernel.named_barriers}
    for name in sorted(buffers):
        try:
            for rank in range(kernel.cluster):
                mine = [a for a in agents if a.rank == rank]
                for stage in sorted({s for a in mine for s in _touched(a, name)}):
                    _exchange(views, mine, (name, stage), threads)
        except RefutedError as e:
            yield Obligation(NAME, name, Verdict.REFUTED, e.why)
        except UnknownError as e:
            yield Obligation(NAME, name, Verdict.UNPROVED, str(e))
        else:
            yield Obligation(NAME, name)


def _touched(agent: Agent, buffer: str) -> Iterator[int]:
    """The stages of a buffer that an agent touches."""
    for ref in (x for s in walk(agent.body) for x in operands(s)):
        if isinstance(ref, SmemRef) and ref.buffer == buffer:
            if not isinstance(ref.stage, Const):
                raise UnknownError(f"{buffer}[{ref.stage}]: the stage is no number")
            yield ref.stage.value


def _exchange(views: Views, agents: list[Agent], stage: Stage, threads: Mapping[str, int]) -> None:
    """Fail unless the agents that touch a stage store and load it in turn."""
    who = [a for a in agents if stage[1] in _touched(a, stage[0])]
    for agent in who:
        _at_home(agent, stage[0])
    count = sum(32 * len(a.warps) for a in who)
    barriers = {b for b, n in threads.items() if n == count}
    turns = {s.bar.array for a in agents for s in walk(a.body) if isinstance(s, BarArrive)}
    event = partial(_event, stage, frozenset(barriers - turns))
    if any(a not in views.ways for a in who):
        raise UnknownError("an agent's steps are not proved")
    rows: dict[int, set[range]] = {}
    try:
        _in_step({views.shape(a, event) for a in who}, stage)
        for agent in who:
            walked = _Turns(event)
            walked.run(agent.body, {""})
            for group in agent.warpgroups:
                rows.setdefault(group, set()).update(walked.rows)
    except RefutedError as e:
        if barriers & turns:  # by which they may hand it on, but nothing that is made does
            raise UnknownError(f"{e.why}, but for turns") from e
        raise
    for group, mine in rows.items():
        for other, theirs in rows.items():
            if group < other and any(a.start < b.stop and b.start < a.stop
                                     for a in mine for b in theirs):  # fmt: skip
                why = f"warpgroups {group} and {other} store to the same rows"
                raise RefutedError(NAME, stage[0], why)


def _at_home(agent: Agent, buffer: str) -> None:
    """Fail if an agent loads from another CTA's buffer, or stores there: who else does is not known
    here, nor what orders both.
    """
    for stmt in walk(agent.body):
        cta = getattr(stmt, "cta", None)
        here = any(isinstance(x, SmemRef) and x.buffer == buffer for x in operands(stmt))
        if here and cta not in (None, Const(agent.rank)):
            way = "to" if stmt.TRAITS.writes & Memory.SHARED else "from"
            raise UnknownError(f"{stmt.OP} {way} CTA {cta}")


def _in_step(shapes: set[Shape], stage: Stage) -> None:
    """Fail unless agents come to the same stores, loads and meetings; or to the same meetings, in
    the same loops, with stores or with loads of whomever between two.
    """
    if len(shapes) < 2:
        return
    found = [_between(shape) for shape in shapes]
    if any(way.meetings != found[0].meetings for way in found):
        raise UnknownError(f"warps come to {stage[0]}[{stage[1]}] in several ways")
    for together in zip(*(way.spans for way in found), strict=True):
        if len(set().union(*together)) > 1:
            raise RefutedError(NAME, stage[0], "warps store while others load")


@dataclass(slots=True)
class _Way:
    """How a program comes to meetings.

    Args:
        meetings: and the loops that they stand in, and the breaks of those.
        spans: what it does between them.
        left: the spans in which a break stands.
    """

    meetings: list[object] = field(default_factory=list)
    spans: list[set[object]] = field(default_factory=lambda: [set()])
    left: list[set[object]] = field(default_factory=list)


def _between(shape: Shape) -> _Way:
    """The way of a program.

    Behind the last meeting of a loop, or the last one in front of a break, comes the first of its
    next trip, or what follows the loop, which may have no trip: all of that is one span.
    """
    way = _Way()
    for part in shape:
        match part:
            case ("meet", *_):
                way.meetings.append(part)
                way.spans.append(set())
            case str():
                way.spans[-1].add(part)
            case ("break", *_):
                way.meetings.append(part)
                way.left.append(way.spans[-1])
            case ("loop", *head, tuple() as inner):
                within = _between(inner)
                way.meetings.append(("loop", *head, within.meetings))
                around, (first, *others) = way.spans[-1], within.spans
                around.update(first, *others[-1:], *within.left)
                way.spans += [*others[:-1], around] if others else []
            case _:
                raise UnknownError(f"a condition that others have not: {text(part)}")
    return way


_Done = str | tuple[str | Expr, ...]


def _event(stage: Stage, barriers: frozenset[str], stmt: Stmt) -> _Done | None:
    """What a statement is to a stage: ``store``, ``load``, or ``meet`` with where; None if it is
    nothing.
    """
    match stmt:
        case BarSync(bar=bar):
            return ("meet", bar.array, bar.index) if bar.array in barriers else None
        case CtaSync() | ClusterSync():
            return "meet", stmt.OP
    for ref in operands(stmt):
        if isinstance(ref, SmemRef) and (ref.buffer, ref.stage) == (stage[0], Const(stage[1])):
            if stmt.TRAITS.writes & Memory.SHARED and stmt.TRAITS.reads & Memory.SHARED:
                raise UnknownError(f"{stmt.OP} loads and stores")
            if (stmt.TRAITS.reads | stmt.TRAITS.writes) & Memory.SHARED_ASYNC:
                raise UnknownError(f"{stmt.OP} by another proxy")
            return "store" if stmt.TRAITS.writes & Memory.SHARED else "load"
    return None


@dataclass
class _Turns(Finite[str]):
    """The state: what has been done since the last meeting; ``rows`` are those stored to."""

    event: partial[_Done | None]
    rows: set[range] = field(default_factory=set)

    def plain(self, stmt: Stmt, state: str) -> str:
        found = self.event(stmt)
        if found is None:
            return state
        if not isinstance(found, str):
            return ""
        if state not in ("", found):
            why = f"{stmt.OP}: warps {found} and {state} without a meeting between"
            raise RefutedError(NAME, "", why)
        if found == "store":
            self.stored(stmt)
        return found

    def stored(self, stmt: Stmt) -> None:
        """Note the rows of a store; those of others than reductions are not known."""
        match stmt:
            case FragReduceToShared(dst=SmemRef(coords=(row, *_))):
                first, count = self.value(row), WARP_ROWS
            case StShared(dst=SmemRef(coords=(row, *_)), value=value, cta=None):
                first, count = self.value(row), value.type.rows
            case _:
                first, count = Var("row"), 0
        if isinstance(first, Const):
            self.rows.add(range(first.value, first.value + count))
            return
        raise UnknownError(f"{stmt.OP}: the rows that it stores to are not known")
