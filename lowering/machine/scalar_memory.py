"""Scalars from global memory on the machine."""

from __future__ import annotations

from lowering.kernel.nodes import LdGlobalScalar
from lowering.machine.errors import FaultError
from lowering.machine.program import Program, Run
from lowering.machine.scalars import bind
from lowering.machine.scheduler import PAUSE, Steps
from lowering.machine.state import Warp

__all__ = ["ld_global_scalar"]


def ld_global_scalar(stmt: LdGlobalScalar, program: Program) -> Run:
    """``ld.global.scalar``: what other grids write meanwhile is not simulated."""
    where, name = program.coordinates(stmt.src), stmt.src.map

    def run(warp: Warp) -> Steps:
        warp.touches_global()
        array, at = warp.cta.cluster.globals[name], where(warp.env)
        place = f"{name}[{', '.join(map(str, at))}]"
        if not all(0 <= i < n for i, n in zip(at, array.shape, strict=True)):
            raise FaultError(f"{place} lies outside {name}[{', '.join(map(str, array.shape))}]")
        value = int(array[at])
        if stmt.uniform == "cta":
            _agree(warp, stmt, place, value)
        bind(warp.env, stmt.out, value)
        warp.record(stmt.OP, name, -1, at=at)
        return PAUSE

    return run


def _agree(warp: Warp, stmt: LdGlobalScalar, place: str, value: int) -> None:
    """Raise FaultError unless all warps of the CTA get the same value, visit for visit."""
    visit = warp.visits[id(stmt)]
    warp.visits[id(stmt)] += 1
    first = warp.cta.agreed.setdefault((id(stmt), visit), value)
    if value != first:
        raise FaultError(f"{place} is {value}, and another warp of the CTA got {first} here")
