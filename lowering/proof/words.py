"""Words that a ring hands over, of which one says that there are no more.

Who fills such a ring stores words until one ends it, and then one more for each further team: teams
load the words in turn, and each stops at its own first one that is an end. Let the bound be ``E``
and ``e`` the first step whose word is no smaller. The words of the steps before it are smaller, its
own is ``E`` itself, the further ones are larger.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lowering.ground.expr import Binary, Const, Expr, Var
from lowering.ground.poly import poly
from lowering.kernel.control import If
from lowering.kernel.operands import Body
from lowering.kernel.queue import StWord
from lowering.kernel.visit import bodies
from lowering.proof.agent import Agent
from lowering.proof.linear import Facts
from lowering.proof.rings import Ring
from lowering.proof.shape import Shape
from lowering.proof.steps import Steps

__all__ = ["end_of", "ended_for", "ends_at"]

_ONE = poly(Const(1))


def ended_for(shape: Shape) -> tuple[Shape, int]:
    """The shape of who reads, and the number of teams, where more ends than one are stored: one for
    each team, in a condition that is that of the end; 0 where not.

    Who fills waits for stages of the further ends, too, but nobody waits for what is behind them.
    """
    match shape:
        case (("loop", start, stop, step, (), ("wait", ("if", cond, more, ()), ("break", end))),):
            if cond == end and isinstance(more, tuple) and set(more) == {"wait"}:
                inner = ("wait", ("break", end))
                return (("loop", start, stop, step, (), inner),), len(more) + 1
    return shape, 0


def end_of(shape: Shape) -> Expr | None:
    """The bound at which the words end that the only loop of a shape ends at."""
    match shape:
        case ((*_, (*_, ("break", Binary("<=", bound, Var())))),):
            return bound
    return None


def ends_at(
    ring: Ring,
    bound: Expr | None,
    steps: Mapping[Agent, Steps],
    facts: Facts,
    exactly: bool = False,
) -> bool:
    """Whether the further words of a ring are ends, too; if ``exactly``, whether the first end is
    the bound itself, and the further ones are larger.
    """
    if bound is None:
        return False
    for agent, places in steps.items():
        for word, further in _stored(agent.body, ring.buffers, False):
            over = poly(places.resolve(word)) - poly(bound)
            due = over - _ONE if further and exactly else over if further else -over
            if (further or exactly) and not facts.follows(due):
                return False
    return True


def _stored(body: Body, buffers: frozenset[str], further: bool) -> Iterator[tuple[Expr, bool]]:
    """The words that are stored into buffers, and whether in a condition."""
    for stmt in body:
        if isinstance(stmt, StWord) and stmt.dst.buffer in buffers:
            yield stmt.value, further
        within = further or (isinstance(stmt, If) and not isinstance(stmt.cond, Const))
        for inner in bodies(stmt):
            yield from _stored(inner, buffers, within)
