"""Claims of finitely many states: what one warp has to have done before it does something else.

No step is counted here. A condition that is no constant goes both ways, a loop is followed until no
new state is found at its head, or too many are, so this ends; a loop of a constant number of
trips is followed through each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from lowering.ground.expr import Const, Expr, Var, substitute
from lowering.kernel.control import Break, Elect, For, If
from lowering.kernel.operands import Body, Stmt
from lowering.proof.agent import Agent
from lowering.proof.obligation import Obligation, RefutedError, UnknownError, Verdict

__all__ = ["Finite", "claimed", "latest"]

S = TypeVar("S")

STATES = 400
"""States at one place beyond which a claim is not decided."""

UNROLLED = 64


def latest(groups: tuple[S, ...], pending: int) -> tuple[S, ...]:
    """The groups that a wait which leaves so many of them pending does not cover; all of them where
    there are no more.

    Args:
        groups: the oldest first.
        pending: how many, none or more.
    """
    return groups[max(len(groups) - pending, 0) :]


@dataclass
class Finite(ABC, Generic[S]):
    """A walk with states of ``S``; ``one`` while one thread of the warp executes."""

    one: bool = field(default=False, init=False)
    values: dict[Var, Expr] = field(default_factory=dict, init=False)
    left: list[set[S]] = field(default_factory=list, init=False)

    @abstractmethod
    def plain(self, stmt: Stmt, state: S) -> S:
        """The state behind a statement without others in it.

        Raises:
            RefutedError: the claim does not hold.
            UnknownError: it is not decided.
        """

    def head(self, loop: For, state: S) -> S:
        """The state at the head of a trip."""
        return state

    def value(self, e: Expr) -> Expr:
        """An expression with numbers in place of the variables of unrolled loops."""
        return substitute(e, self.values)

    def run(self, body: Body, states: set[S]) -> set[S]:
        """The states behind a statement list."""
        for stmt in body:
            states = self.statement(stmt, states)
            if len(states) > STATES:
                raise UnknownError(f"more than {STATES} states")
        return states

    def statement(self, stmt: Stmt, states: set[S]) -> set[S]:
        """The states behind a statement."""
        match stmt:
            case Elect():
                outer, self.one = self.one, True
                states = self.run(stmt.body, states)
                self.one = outer
                return states
            case If(cond, then, other):
                cond = self.value(cond)
                if isinstance(cond, Const):
                    return self.run(then if cond.value else other, states)
                return self.run(then, states) | self.run(other, states)
            case Break():
                self.left[-1] |= states
                return states
            case For():
                return self.loop(stmt, states)
        return {self.plain(stmt, s) for s in states}

    def loop(self, loop: For, states: set[S]) -> set[S]:
        """The states behind a loop."""
        self.left.append(set())
        start, stop = self.value(loop.start), self.value(loop.stop)
        if isinstance(start, Const) and isinstance(stop, Const) and isinstance(loop.step, Const):
            trips = range(start.value, stop.value, loop.step.value)
            if len(trips) > UNROLLED:
                raise UnknownError(f"a loop of {len(trips)} trips")
            outer = self.values
            for n in trips:
                self.values = outer | {loop.var: Const(n)}
                states = self.run(loop.body, {self.head(loop, s) for s in states})
            self.values = outer
        else:
            fresh = {self.head(loop, s) for s in states}
            seen = set(fresh)
            while fresh:
                ends = self.run(loop.body, fresh)
                states = states | ends
                fresh = {self.head(loop, s) for s in ends} - seen
                seen |= fresh
                if len(seen) > STATES:  # each trip may find one more, without end
                    raise UnknownError(f"more than {STATES} states at the head of a loop")
        return states | self.left.pop()


def claimed(name: str, agent: Agent, through: Finite[S], start: S) -> Obligation:
    """What comes of a claim about a warp, which is walked through from a state."""
    try:
        through.run(agent.body, {start})
    except RefutedError as e:
        return Obligation(name, str(agent), Verdict.REFUTED, e.why)
    except UnknownError as e:
        return Obligation(name, str(agent), Verdict.UNPROVED, str(e))
    return Obligation(name, str(agent))
