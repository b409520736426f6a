"""Scalars in global memory on the machine."""

from __future__ import annotations

from collections.abc import Callable

from lowering.kernel.nodes import GmemRef, LdGlobalScalar, StGlobalScalar
from lowering.machine.errors import FaultError
from lowering.machine.fragment import Array
from lowering.machine.program import Program, Run
from lowering.machine.scalars import bind
from lowering.machine.state import Warp

__all__ = ["ld_global_scalar", "st_global_scalar"]


def ld_global_scalar(stmt: LdGlobalScalar, program: Program) -> Run:
    """``ld.global.scalar``: what other grids write meanwhile is not simulated."""
    where, name = _element(stmt.src, program), stmt.src.map

    def run(warp: Warp) -> None:
        array, at, place = where(warp)
        value = int(array[at])
        if stmt.uniform == "cta":
            _agree(warp, stmt, place, value)
        bind(warp.env, stmt.out, value)
        warp.record(stmt.OP, name, -1, at=at)

    return run


def st_global_scalar(stmt: StGlobalScalar, program: Program) -> Run:
    """``st.global.scalar``, by one thread."""
    where, value = _element(stmt.dst, program), program.scalar(stmt.value)

    def run(warp: Warp) -> None:
        if not warp.elected:
            raise FaultError(f"{stmt.dst.map} is written by 32 threads, not by one")
        array, at, _ = where(warp)
        array[at] = value(warp.env)
        warp.record(stmt.OP, stmt.dst.map, -1, at=at)

    return run


def _element(
    ref: GmemRef, program: Program
) -> Callable[[Warp], tuple[Array, tuple[int, ...], str]]:
    """A function that gives the tensor, the coordinates, and a word for the element; it raises
    FaultError where there is none.
    """
    where, name = program.coordinates(ref), ref.map

    def find(warp: Warp) -> tuple[Array, tuple[int, ...], str]:
        warp.touches_global()
        array, at = warp.cta.cluster.globals[name], tuple(where(warp.env))
        place = f"{name}[{', '.join(map(str, at))}]"
        if not all(0 <= i < n for i, n in zip(at, array.shape, strict=True)):
            raise FaultError(f"{place} lies outside {name}[{', '.join(map(str, array.shape))}]")
        return array, at, place

    return find


def _agree(warp: Warp, stmt: LdGlobalScalar, place: str, value: int) -> None:
    """Raise FaultError unless all warps of the CTA get the same value, visit for visit."""
    visit = warp.visits[id(stmt)]
    warp.visits[id(stmt)] += 1
    first = warp.cta.agreed.setdefault((id(stmt), visit), value)
    if value != first:
        raise FaultError(f"{place} is {value}, and another warp of the CTA got {first} here")
