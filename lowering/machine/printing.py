"""What kernels print, on the machine: lines with the scheduler's time."""

from __future__ import annotations

from lowering.kernel.nodes import FragPrint, Print
from lowering.machine.fragment import element_index, to_float32
from lowering.machine.program import Program, Run
from lowering.machine.state import Warp

__all__ = ["frag_print", "print_line"]


def print_line(stmt: Print, program: Program) -> Run:
    """``print``."""
    number, when = program.scalar(stmt.value), program.scalar(stmt.when)

    def run(warp: Warp) -> None:
        if when(warp.env):
            _write(warp, stmt, f"{number(warp.env)}")

    return run


def frag_print(stmt: FragPrint, program: Program) -> Run:
    """``frag.print``."""
    when, kind = program.scalar(stmt.when), stmt.value.type

    def run(warp: Warp) -> None:
        if when(warp.env):
            data = to_float32(warp.read(stmt.value), kind.dtype)
            rows, cols = element_index(kind, warp.index % 4)
            (found,) = data[(rows == stmt.row) & (cols == stmt.col)].tolist()
            _write(warp, stmt, f"{float(found):g}")

    return run


def _write(warp: Warp, stmt: Print | FragPrint, number: str) -> None:
    """A line as ``printf`` writes it on a GPU."""
    at = f"{warp.scheduler.time:.0f} cta {warp.cta.ctaid} {stmt.role} warp {warp.index}"
    warp.scheduler.printed.append(f"{at}: {stmt.where}: {stmt.what} = {number}")
