"""A program whose results are written to memory that the caller gives."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from wsched.program.program import Buffer, CopyStep, JoinStep, Program, Step, WorkspaceStep

__all__ = ["into_given"]


def into_given(program: Program) -> Program:
    """The same steps, with the memory of the results as inputs behind the others, in the order of
    the outputs.

    Args:
        program: whose results are memory of their own, which neither workspaces nor parts are.
    """
    given = {b: replace(b, name=f"{b.name}_given") for b in program.outputs}
    placed = {b: replace(b, at=memory) for b, memory in given.items()}

    def of(buffers: Iterable[Buffer]) -> tuple[Buffer, ...]:
        return tuple(placed.get(b, b) for b in buffers)

    def moved(step: Step) -> Step:
        if isinstance(step, WorkspaceStep | JoinStep):
            return step
        if isinstance(step, CopyStep):
            return CopyStep(*of((step.source, step.target)))
        return replace(step, reads=of(step.reads), writes=of(step.writes))

    steps = tuple(map(moved, program.steps))
    return Program((*program.inputs, *given.values()), steps, of(program.outputs))
