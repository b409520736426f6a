"""Partial sums on their way from CTA to CTA: what each warpgroup does, in which order.

Who hands over stores a part; its warps meet; one thread raises a counter with a release, which
covers what it has met. Who takes over waits in one thread until a counter is high enough, which
acquires, and sets it back; its warps meet; they add what they find. The warps of a warpgroup
execute the same (``alike``), so the one that has the thread stands for all.

A program is walked as these statements see it. Conditions that are not decided go both ways, and
what they say is known on the way: no part is added where none was waited for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from lowering.ground.expr import Const, Expr, Var
from lowering.ground.poly import poly
from lowering.kernel.atomic import Atom, CounterWait
from lowering.kernel.kernel import Kernel
from lowering.kernel.operands import Stmt
from lowering.kernel.partial import FragAddPartial, FragStorePartial
from lowering.kernel.sync import BarSync, ClusterSync, CtaSync
from lowering.kernel.visit import walk
from lowering.proof.agent import Agent
from lowering.proof.linear import NOTHING, Facts
from lowering.proof.obligation import Obligation, RefutedError, UnknownError, Verdict
from lowering.proof.shape import Shape, text
from lowering.proof.views import Views

__all__ = ["ADD", "RAISE", "STORE", "WAIT", "handed", "sums_of"]

NAME = "order of partial sums"
STORE, ADD, RAISE, WAIT, RESET, MEET = "store", "add", "raise", "wait", "reset", "meet"

_KINDS = (Atom, CounterWait, FragStorePartial, FragAddPartial)
_ONE = poly(Const(1))


@dataclass(frozen=True, slots=True)
class _Hands:
    """Where a warpgroup stands.

    Args:
        stored: of the part that it hands over: nothing, ``stored``, or ``met`` behind that.
        waited: of those that it takes over: nothing, ``waited`` by one thread, or ``met`` behind.
        due: the counter that is to be set back.
        facts: what is known on this path.
    """

    stored: str = ""
    waited: str = ""
    due: Expr | None = None
    facts: Facts = NOTHING


def sums_of(kernel: Kernel, agent: Agent, views: Views) -> Shape:
    """An agent's program as partial sums see it: events with the counter or slot, and a count."""
    wide = frozenset(b.name for b in kernel.named_barriers if b.threads >= 128)

    def event(stmt: Stmt) -> str | tuple[str | Expr, ...] | None:
        match stmt:
            case FragStorePartial(dst=slot):
                return STORE, slot.index
            case FragAddPartial(src=slot):
                return ADD, slot.index
            case Atom(op="add", order="release.gpu" | "acq_rel.gpu"):
                return RAISE, stmt.counter.index, stmt.value
            case Atom(op="exch"):
                return RESET, stmt.counter.index, stmt.value
            case CounterWait(counter=counter, value=value):
                return WAIT, counter.index, value
            case BarSync(bar=bar):
                return MEET if bar.array in wide else None
            case CtaSync() | ClusterSync():
                return MEET
        return None

    return views.shape(agent, event)


def handed(kernel: Kernel, agents: tuple[Agent, ...], views: Views) -> Iterator[Obligation]:
    """One claim for each agent with a thread that raises counters or waits for them."""
    groups: dict[tuple[int, int], list[Agent]] = {}
    for agent in agents:
        if any(isinstance(s, _KINDS) for s in walk(agent.body)):
            groups.setdefault((agent.rank, agent.warps[0] // 4), []).append(agent)
    for mine in groups.values():
        sums = [a for a in mine if any(isinstance(s, _KINDS[2:]) for s in walk(a.body))]
        if not sums:
            continue  # counters alone: the queue's tickets
        telling = [a for a in sums if any(isinstance(s, _KINDS[:2]) for s in walk(a.body))]
        yield _claim(kernel, sums[0], telling, views)


def _claim(kernel: Kernel, first: Agent, telling: list[Agent], views: Views) -> Obligation:
    if len(telling) != 1 or len(telling[0].warps) != 1:
        why = f"{len(telling)} agents of a warpgroup raise counters or wait for them"
        return Obligation(NAME, str(first), Verdict.REFUTED, why)
    (agent,) = telling
    if agent not in views.ways:
        return Obligation(NAME, str(agent), Verdict.UNPROVED, "its steps are not proved")
    try:
        walk_ = _Walk()
        ends = walk_.body(sums_of(kernel, agent, views), [_Hands(facts=views.facts)], 0)
        for state in ends:
            walk_.over(state, "the program")
    except RefutedError as e:
        return Obligation(NAME, str(agent), Verdict.REFUTED, e.why)
    except UnknownError as e:
        return Obligation(NAME, str(agent), Verdict.UNPROVED, str(e))
    return Obligation(NAME, str(agent))


class _Walk:
    """States through a shape."""

    def body(self, shape: Shape, states: list[_Hands], depth: int) -> list[_Hands]:
        """The states behind some parts."""
        for part in shape:
            states = [end for state in states for end in self.part(part, state, depth)]
            states = list(dict.fromkeys(states))
            if len(states) > 32:
                raise UnknownError("more than 32 states")
        return states

    def part(self, part: object, state: _Hands, depth: int) -> list[_Hands]:
        """The states behind one part."""
        match part:
            case "meet":
                stored, waited = ("met" if x else "" for x in (state.stored, state.waited))
                return [replace(state, stored=stored, waited=waited)]
            case ("if", Expr() as cond, tuple() as then, tuple() as other):
                return self.choice(cond, then, other, state, depth)
            case ("loop", Expr() as start, Expr() as stop, Expr(), _, tuple() as inner):
                return self.loop(start, stop, inner, state, depth)
            case (str() as word, *rest) if word in (STORE, ADD, RAISE, WAIT, RESET):
                return [self.event(word, [e for e in rest if isinstance(e, Expr)], state)]
        raise UnknownError(f"{text(part)} is not understood")

    def choice(
        self, cond: Expr, then: Shape, other: Shape, state: _Hands, depth: int
    ) -> list[_Hands]:
        """Both ways, or the one that is taken."""
        truth, found = state.facts.decide(cond), list[_Hands]()
        for way, inside in ((True, then), (False, other)):
            if truth in (None, way):
                begin = replace(state, facts=state.facts.assumed(cond, way))
                found += self.body(inside, [begin], depth)
        return found

    def loop(
        self, start: Expr, stop: Expr, inner: Shape, state: _Hands, depth: int
    ) -> list[_Hands]:
        """No trip, one, and so on until nothing is new."""
        name = f"%{depth}"
        var, span = poly(Var(name)), poly(stop) - poly(start)
        if state.facts.follows(-span):
            return [state]
        own = WAIT in text(inner)
        fresh, ends = [state], [state]
        seen = set(fresh)
        trip = (var - poly(start), poly(stop) - var - _ONE)
        while fresh:
            heads = [
                replace(s, waited="" if own else s.waited, facts=s.facts + trip) for s in fresh
            ]
            found = self.body(inner, heads, depth + 1)
            for s in found:
                if own:
                    self.over(s, "a trip")
            found = [replace(s, facts=s.facts.without(frozenset({name}))) for s in found]
            fresh = [s for s in found if s not in seen]
            seen.update(fresh)
            ends += fresh
        return ends

    def over(self, state: _Hands, what: str) -> None:
        """Fail unless nothing is left to do where a trip, or the program, is over."""
        if state.stored:
            raise RefutedError(NAME, "", f"{what} ends, and a part that is stored was not told")
        if state.due is not None:
            raise RefutedError(NAME, "", f"{what} ends, and counter {state.due} is not set back")

    def event(self, word: str, rest: list[Expr], state: _Hands) -> _Hands:
        """The state behind an event."""
        match word:
            case "store":
                if state.stored:
                    raise RefutedError(NAME, "", "a part is stored before the last one was told")
                return replace(state, stored="stored")
            case "raise":
                if state.stored != "met" or rest[1] != Const(1):
                    why = f"counter {rest[0]} is raised by {rest[1]} before all warps have stored "
                    raise RefutedError(NAME, "", why + "and met")
                return replace(state, stored="")
            case "wait":
                if state.due is not None:
                    raise RefutedError(NAME, "", f"counter {state.due} is not set back")
                if not state.facts.follows(poly(rest[1]) - _ONE):
                    why = f"counter {rest[0]} may be set back by who waits for none"
                    raise RefutedError(NAME, "", why)
                return replace(state, waited="waited", due=rest[0])
            case "reset":
                if state.due is None or poly(state.due) != poly(rest[0]) or rest[1] != Const(0):
                    why = f"counter {rest[0]} is set to {rest[1]} without a wait for it"
                    raise RefutedError(NAME, "", why)
                return replace(state, due=None)
        if state.waited != "met":
            raise RefutedError(NAME, "", "a part is added that no thread has waited for, and met")
        return state
