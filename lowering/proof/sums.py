"""Sums in registers are read when the wgmmas that write them are over.

A ``wgmma.wait`` says of one value that it is settled, and what it covers are groups: the oldest
ones of the warp, all but so many. Here it is followed which registers the wgmmas of each group
write, and nothing else reads or writes those before a wait covers the group. That a value *says*
that it is settled is not believed: what is claimed is of registers, whatever their values are
called and declared as. Wgmmas that add to the same registers may follow each other where they are
of the same shape (PTX ISA, wgmma.fence): of the same columns, or of none in common.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from lowering.kernel.compute import (
    FragCast,
    FragColumns,
    FragRows,
    Wgmma,
    WgmmaCommit,
    WgmmaWait,
)
from lowering.kernel.control import For
from lowering.kernel.operands import Body, Frag, Stmt
from lowering.kernel.visit import operands, walk
from lowering.proof.agent import Agent
from lowering.proof.finite import Finite, claimed, latest
from lowering.proof.obligation import Obligation, RefutedError, Verdict

__all__ = ["settled"]

NAME = "sums in flight"

_Written = frozenset[tuple[str, int, int]]
"""A set of registers, the first column of it, and how many, that a wgmma writes."""

_Flight = tuple[_Written, tuple[_Written, ...]]


def settled(name: str, agents: tuple[Agent, ...]) -> Iterator[Obligation]:
    """One claim about a kernel of that name, if it has wgmmas."""
    some = False
    for agent in agents:
        if not any(isinstance(s, Wgmma) for s in walk(agent.body)):
            continue
        some = True
        found = claimed(NAME, agent, _Sums(_Registers.of(agent.body)), (frozenset(), ()))
        if found.verdict is not Verdict.PROVED:
            yield found
            return
    if some:
        yield Obligation(NAME, name)


@dataclass(slots=True)
class _Registers:
    """Which values have registers in common: those that one value's go over to, by an update, by a
    loop, or as a part, are one set, of whatever path; so a set is never too small.
    """

    of_value: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def of(body: Body) -> _Registers:
        """Those of a program."""
        found = _Registers()
        for stmt in walk(body):
            for a, b in _shared(stmt):
                found.of_value[found(a)] = found(b)
        return found

    def __call__(self, name: str) -> str:
        """The set that a value is of, by the name of one of them."""
        while (above := self.of_value.get(name, name)) != name:
            name = above
        return name


def _shared(stmt: Stmt) -> Iterator[tuple[str, str]]:
    """Pairs of values that a statement lets have the same registers."""
    out = getattr(stmt, "out", None)
    match stmt:
        case For():
            for carry, last in zip(stmt.carries, stmt.yields, strict=True):
                same = [x.name for x in (carry.init, carry.result, last) if isinstance(x, Frag)]
                yield from ((name, carry.var.name) for name in same)
        case FragColumns(value=value) | FragRows(value=value):
            yield stmt.out.name, value.name
        case FragCast(value=value) if value.type.dtype is stmt.out.type.dtype:
            yield stmt.out.name, value.name
    for name in stmt.TRAITS.consumes:
        before = getattr(stmt, name)
        if isinstance(before, Frag) and isinstance(out, Frag):
            yield out.name, before.name


@dataclass
class _Sums(Finite[_Flight]):
    """The state: registers that wgmmas write which no commit has put into a group, then those of
    the groups that no wait covers, the oldest first.
    """

    registers: _Registers

    def plain(self, stmt: Stmt, state: _Flight) -> _Flight:
        open_, groups = state
        match stmt:
            case Wgmma(acc=acc, a=a, col=col, width=width):
                if isinstance(a, Frag):
                    self.touched(a, state, stmt)
                registers = self.registers(acc.name)
                self.follows(registers, col, width, state, stmt)
                return open_ | {(registers, col, width)}, groups
            case WgmmaCommit():
                return frozenset(), (*groups, open_)
            case WgmmaWait(out=out, pending=n):
                state = open_, latest(groups, n)
                if not out.type.in_flight:
                    self.touched(out, state, stmt)
                return state
        written = getattr(stmt, "out", None)
        for value in (*operands(stmt), written):
            for x in value if isinstance(value, tuple) else (value,):
                if isinstance(x, Frag):
                    self.touched(x, state, stmt)
        return state

    def touched(self, value: Frag, state: _Flight, stmt: Stmt) -> None:
        """Fail if a wgmma may still write registers that a statement reads, writes or settles."""
        mine = self.registers(value.name)
        if any(registers == mine for registers, _, _ in state[0].union(*state[1])):
            why = f"{stmt.OP} of {value.name}, which a wgmma in flight may write"
            raise RefutedError(NAME, "", why)

    def follows(self, registers: str, col: int, width: int, state: _Flight, stmt: Stmt) -> None:
        """Fail if a wgmma writes some of the columns that one in flight does, and others."""
        for other, first, many in state[0].union(*state[1]):
            apart = col + width <= first or first + many <= col
            if other == registers and not apart and (col, width) != (first, many):
                mine, theirs = f"{col} to {col + width - 1}", f"{first} to {first + many - 1}"
                why = f"{stmt.OP} of columns {mine}, while one in flight writes {theirs}"
                raise RefutedError(NAME, "", why)
