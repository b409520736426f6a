"""Words that a ring hands over, of which one says that there are no more.

Who fills such a ring stores words until one ends it, and then one more for each further team: teams
load the words in turn, and each stops at its own first one that is an end. Let the bound be ``E``
and ``e`` the first step whose word is no smaller. The words of the steps before it are smaller, its
own is ``E`` itself, the further ones are larger.

There are two forms. A loop stores words and ends at the first that is no smaller than ``E``; or
loops, one in another, store words that are smaller, and the ends stand behind them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from lowering.ground.expr import ZERO, Binary, Const, Expr, Var
from lowering.ground.poly import poly
from lowering.kernel.control import Break, For, If
from lowering.kernel.operands import Body
from lowering.kernel.queue import StWord
from lowering.kernel.visit import bodies
from lowering.proof.agent import Agent
from lowering.proof.linear import Facts
from lowering.proof.shape import Shape, share_of
from lowering.proof.steps import Steps

__all__ = ["Until", "end_of", "ended_behind", "ended_for", "ends_at", "reads_of", "until"]

_ONE = poly(Const(1))


@dataclass(frozen=True, slots=True)
class Until:
    """A loop that a condition ends before ``stop`` trips are over, which carries nothing.

    Args:
        stop: its trips, at most.
        end: the condition.
        front, behind: what stands in a trip on either side of it.
    """

    stop: Expr
    end: Expr
    front: Shape
    behind: Shape


def until(shape: Shape) -> Until | None:
    """That loop, if a program is one; None of other forms."""
    match shape:
        case (("loop", Const(0), Expr() as stop, Const(1), (), tuple() as body),):
            ends = [n for n, part in enumerate(body) if _breaks(part)]
            match [body[n] for n in ends]:
                case [("break", Expr() as end)]:
                    return Until(stop, end, body[: ends[0]], body[ends[0] + 1 :])
    return None


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


def ended_behind(shape: Shape) -> int:
    """How many ends stand behind loops that store all other words; 0 in a program of other form."""
    ends = 0
    while ends < len(shape) and shape[-1 - ends] == "wait":
        ends += 1
    loops = shape[: len(shape) - ends]
    whole = all(isinstance(part, tuple) and part[0] == "loop" for part in loops)
    return ends if loops and whole and not _breaks(loops) else 0


def _breaks(part: object) -> bool:
    return isinstance(part, tuple) and (part[:1] == ("break",) or any(map(_breaks, part)))


def reads_of(readings: Iterable[Shape], buffers: frozenset[str]) -> Shape | None:
    """The program of one who reads every word of some buffers up to the first end, as those who
    read have it, or as teams of them have; None where some have another.
    """
    found = set[Shape]()
    for shape in readings:
        match shape:
            case (("loop", Const(0), stop, Const(1), (), ("wait", ("break", end))),):
                match end:
                    case Binary("<=", bound, Var() as word):
                        share = share_of(word)
                        if share is None or share.buffer not in buffers:
                            return None
                        plain = Var(word.name.removesuffix(share.suffix))
                        until = ("break", Binary("<=", bound, plain))
                        found.add((("loop", Const(0), stop, Const(1), (), ("wait", until)),))
                        continue
        return None
    return found.pop() if len(found) == 1 else None


def end_of(shape: Shape) -> tuple[str, Expr] | None:
    """The buffer whose words end the only loop of a shape, and the bound at which they do."""
    match shape:
        case ((*_, (*_, ("break", Binary("<=", bound, Var() as word)))),):
            share = share_of(word)
            return None if share is None else (share.buffer, bound)
    return None


def ends_at(
    buffer: str,
    bound: Expr,
    steps: Mapping[Agent, Steps],
    facts: Facts,
    exactly: bool = False,
) -> bool:
    """Whether the further words that a buffer hands over are ends, too; if ``exactly``, whether the
    first end is the bound itself, and the further ones are larger.
    """
    for agent, places in steps.items():
        ends = 0
        for word in _stored(agent.body, buffer, _Word(facts)):
            over = poly(places.resolve(word.value)) - poly(bound)
            if word.looped and word.further:
                due = [over - _ONE if exactly else over]
            elif word.looped and word.until:
                due = [-over] if exactly else []
            elif word.looped:
                due = [-over - _ONE]
            else:
                due = [over - _ONE] if exactly and ends else [over, -over] if exactly else [over]
                ends += 1
            if not all(word.known.follows(d) for d in due):
                return False
    return True


@dataclass(frozen=True, slots=True)
class _Word:
    """A word that is stored.

    Args:
        known: what is known there: of the loops that it is stored in.
        value: the word.
        looped: whether it is stored in a loop of more than a number of trips.
        until: whether that loop ends at a condition.
        further: whether it is stored in a condition.
    """

    known: Facts
    value: Expr = ZERO
    looped: bool = False
    until: bool = False
    further: bool = False


def _stored(body: Body, buffer: str, at: _Word) -> Iterator[_Word]:
    """The words that are stored into a buffer, each once, also if several CTAs are told."""
    for stmt in body:
        inside = at
        if isinstance(stmt, StWord) and stmt.dst.buffer == buffer:
            yield replace(at, value=stmt.value)
        elif isinstance(stmt, If) and not isinstance(stmt.cond, Const):
            inside = replace(at, further=True)
        elif isinstance(stmt, For) and not stmt.unroll:
            until = any(isinstance(s, Break) for s in stmt.body)
            trip = poly(stmt.stop) - poly(stmt.var) - _ONE, poly(stmt.var) - poly(stmt.start)
            inside = replace(at, known=at.known + trip, looped=True, until=until)
        for inner in bodies(stmt):
            yield from _stored(inner, buffer, inside)
