"""What stands in front of what in every warp: fences of wgmma, the wait for other grids."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lowering.kernel.compute import Wgmma, WgmmaCommit, WgmmaFence
from lowering.kernel.kernel import Kernel
from lowering.kernel.operands import Frag, Stmt
from lowering.kernel.sync import GridDepWait
from lowering.kernel.traits import Memory
from lowering.kernel.visit import operands
from lowering.proof.agent import Agent
from lowering.proof.finite import Finite
from lowering.proof.obligation import Obligation, RefutedError, UnknownError, Verdict

__all__ = ["fenced", "waited"]


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

    def plain(self, stmt: Stmt, state: bool) -> bool:
        if isinstance(stmt, GridDepWait):
            return True
        if not state and stmt.TRAITS.touches & Memory.GLOBAL:
            raise RefutedError("griddepcontrol.wait", "", f"{stmt.OP} before the wait")
        return state


def fenced(kernel: Kernel, agents: tuple[Agent, ...]) -> Obligation:
    """A ``wgmma.fence`` stands between the last access to a fragment and each group of wgmmas."""
    return _all("wgmma.fence", kernel, agents, _Fences)


def waited(kernel: Kernel, agents: tuple[Agent, ...]) -> Iterator[Obligation]:
    """Who touches global memory has waited for earlier grids; in each CTA some warp waits."""
    if not kernel.dependent:
        return
    name = "griddepcontrol.wait"
    found = _all(name, kernel, agents, _Grids)
    yield found
    for rank in range(kernel.cluster) if found.verdict is Verdict.PROVED else ():
        if not any(all(_Grids().run(a.body, {False})) for a in agents if a.rank == rank):
            why = f"no warp of CTA {rank} waits on every path"
            yield Obligation(name, kernel.name, Verdict.REFUTED, why)


def _all(
    name: str, kernel: Kernel, agents: tuple[Agent, ...], walk: type[Finite[bool]]
) -> Obligation:
    for agent in agents:
        try:
            walk().run(agent.body, {False})
        except RefutedError as e:
            return Obligation(name, str(agent), Verdict.REFUTED, e.why)
        except UnknownError as e:
            return Obligation(name, str(agent), Verdict.UNPROVED, str(e))
    return Obligation(name, kernel.name)
