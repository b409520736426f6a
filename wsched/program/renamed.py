"""Steps of a program with one buffer in place of another."""

from __future__ import annotations

from dataclasses import replace

from wsched.program.program import Buffer, CopyStep, JoinStep, Step, WorkspaceStep

__all__ = ["renamed"]


def renamed(step: Step, old: Buffer, new: Buffer) -> Step:
    """A step with another buffer in place of one that it reads or writes."""
    if isinstance(step, CopyStep):
        return replace(step, source=new if step.source == old else step.source)
    if isinstance(step, WorkspaceStep | JoinStep):  # no kernel's results are parts and outputs
        return step
    reads, writes = (tuple(new if b == old else b for b in s) for s in (step.reads, step.writes))
    return replace(step, reads=reads, writes=writes)
