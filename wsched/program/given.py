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
    given = {b.memory: replace(b, name=f"{b.name}_given", at=None) for b in program.outputs}

    def placed(b: Buffer) -> Buffer:
        if b in given:
            return replace(b, at=given[b])
        return b if b.at is None else replace(b, at=placed(b.at))

    def of(buffers: Iterable[Buffer]) -> tuple[Buffer, ...]:
        return tuple(map(placed, buffers))

    def moved(step: Step) -> Step:
        if isinstance(step, WorkspaceStep | JoinStep):
            return step
        if isinstance(step, CopyStep):
            return CopyStep(*of((step.source, step.target)))
        return replace(step, reads=of(step.reads), writes=of(step.writes))

    steps = tuple(map(moved, program.steps))
    return Program((*program.inputs, *given.values()), steps, of(program.outputs))
