"""What stands in front of what in every warp: fences and operands of wgmma, the wait for grids."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from lowering.kernel.compute import (
    FragColumns,
    FragRows,
    Wgmma,
    WgmmaCommit,
    WgmmaFence,
    WgmmaWait,
)
from lowering.kernel.control import For
from lowering.kernel.early import waits_for_grids
from lowering.kernel.kernel import Kernel
from lowering.kernel.operands import Frag, Stmt
from lowering.kernel.sync import GridDepLaunchDependents, GridDepWait
from lowering.kernel.tensor_memory import Tcgen05Alloc, Tcgen05Base
from lowering.kernel.visit import operands, walk
from lowering.proof.agent import Agent
from lowering.proof.finite import Finite, claimed, latest
from lowering.proof.obligation import Obligation, RefutedError, Verdict

__all__ = ["fenced", "kept", "let_in", "waited"]

LET_IN = "griddepcontrol.launch_dependents"


@dataclass
class _Fences(Finite[bool]):
    """The state: whether nothing has touched a fragment's registers since the last fence."""

    def plain(self, stmt: Stmt, state: bool) -> bool:
        match stmt:
            case WgmmaFence():
                return True
            case Wgmma() if not state:
                why = f"no wgmma.fence between the last access to registers and {stmt.out.name}"
                raise RefutedError("wgmma.fence", "", why)
            case Wgmma() | WgmmaCommit():
                return state
        touched = isinstance(getattr(stmt, "out", None), Frag)
        return state and not touched and not any(isinstance(x, Frag) for x in operands(stmt))


@dataclass
class _Grids(Finite[bool]):
    """The state: whether the warp has waited for the grids in front of this one."""

    kernel: Kernel

    def plain(self, stmt: Stmt, state: bool) -> bool:
        if isinstance(stmt, GridDepWait):
            return True
        early = isinstance(stmt, GridDepLaunchDependents)
        if not state and (early or waits_for_grids(self.kernel, stmt)):
            raise RefutedError("griddepcontrol.wait", "", f"{stmt.OP} before the wait")
        return state


@dataclass
class _Allocations(Finite[bool]):
    """The state: whether the CTA's tensor memory is allocated for sure. Who takes its address is
    behind a sync with who allocates, which the claim on tensor memory says.
    """

    def plain(self, stmt: Stmt, state: bool) -> bool:
        if isinstance(stmt, GridDepLaunchDependents) and not state:
            why = f"{stmt.OP} before tensor memory is allocated"
            raise RefutedError(LET_IN, "", why)
        return state or isinstance(stmt, Tcgen05Alloc | Tcgen05Base)


_Flight = tuple[frozenset[str], tuple[frozenset[str], ...]]


@dataclass
class _Sources(Finite[_Flight]):
    """The state: fragments that wgmmas read which no commit has put into a group, then those of the
    groups that may be in flight, the oldest first. ``parts`` are columns of what, and what a loop
    carries and makes anew in each trip lies in the registers of what it begins with.
    """

    parts: dict[str, str] = field(default_factory=dict, init=False)

    def plain(self, stmt: Stmt, state: _Flight) -> _Flight:
        open_, groups = state
        written = getattr(stmt, "out", None)
        match stmt:
            case Wgmma(a=Frag(name=name)):
                return open_ | {self.whole(name)}, groups
            case Wgmma():
                return state
            case WgmmaCommit():
                return frozenset(), (*groups, open_)
            case WgmmaWait(pending=n):
                return open_, latest(groups, n)
            case FragColumns(out=out, value=value) | FragRows(out=out, value=value):
                self.parts[out.name] = value.name
                return state
        if isinstance(written, Frag):
            self.written(written.name, state, stmt.OP)
        return state

    def head(self, loop: For, state: _Flight) -> _Flight:
        for carry, last in zip(loop.carries, loop.yields, strict=True):
            if isinstance(carry.init, Frag) and isinstance(last, Frag):
                self.written(carry.var.name, state, f"loop {loop.var.name}")
                here = self.whole(carry.init.name)
                others = {carry.var.name, carry.result.name, last.name} - {here}
                self.parts |= dict.fromkeys(others, here)
        return state

    def whole(self, name: str) -> str:
        """The fragment whose registers this one has, or some of them."""
        while name in self.parts:
            name = self.parts[name]
        return name

    def written(self, name: str, state: _Flight, what: str) -> None:
        """Fail if a wgmma may still read registers that are written."""
        if self.whole(name) in state[0].union(*state[1]):
            why = f"{what} writes {name}, which a wgmma in flight may read"
            raise RefutedError("registers of operands", "", why)


def kept(agents: tuple[Agent, ...]) -> Iterator[Obligation]:
    """Operands in registers are not written before the wgmmas that read them are over."""
    start: _Flight = (frozenset(), ())
    for agent in agents:
        if any(isinstance(s, Wgmma) and isinstance(s.a, Frag) for s in walk(agent.body)):
            yield claimed("registers of operands", agent, _Sources(), start)


def fenced(kernel: Kernel, agents: tuple[Agent, ...]) -> Obligation:
    """A ``wgmma.fence`` stands between the last access to a fragment and each group of wgmmas."""
    return _all("wgmma.fence", kernel, agents, _Fences())


def waited(kernel: Kernel, agents: tuple[Agent, ...]) -> Iterator[Obligation]:
    """Who touches global memory has waited for earlier grids; in each CTA some warp waits."""
    if not kernel.dependent:
        return
    name = "griddepcontrol.wait"
    grids = _Grids(kernel)
    found = _all(name, kernel, agents, grids)
    yield found
    for rank in range(kernel.cluster) if found.verdict is Verdict.PROVED else ():
        if not any(all(grids.run(a.body, {False})) for a in agents if a.rank == rank):
            why = f"no warp of CTA {rank} waits on every path"
            yield Obligation(name, kernel.name, Verdict.REFUTED, why)


def let_in(kernel: Kernel, agents: tuple[Agent, ...]) -> Iterator[Obligation]:
    """No CTA lets the next grid start before it has the tensor memory that it allocates.

    A CTA of that grid may be given the columns else, and waits with them for the end of this grid,
    a CTA of which waits for the columns.
    """
    found = [s for a in agents for s in walk(a.body)]
    if all(any(isinstance(s, k) for s in found) for k in (Tcgen05Alloc, GridDepLaunchDependents)):
        yield _all(LET_IN, kernel, agents, _Allocations())


def _all(name: str, kernel: Kernel, agents: tuple[Agent, ...], through: Finite[bool]) -> Obligation:
    for agent in agents:
        found = claimed(name, agent, through, False)
        if found.verdict is not Verdict.PROVED:
            return found
    return Obligation(name, kernel.name)
