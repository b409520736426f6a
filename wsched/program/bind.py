"""A program with its tensors: every launch packed once, memory between the steps shared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from lowering.ground.errors import UnsupportedError
from wsched.program.lifetimes import arena_of
from wsched.program.memory import device_of, extents_of, new_tensor, part_of, within
from wsched.program.prepare import Copy, Function, Kernel, torch_copy
from wsched.program.program import (
    Buffer,
    CallStep,
    CopyStep,
    KernelStep,
    Program,
    Step,
    SummaryStep,
    SweepStep,
    WorkspaceStep,
)
from wsched.program.verify import verify

if TYPE_CHECKING:
    import torch

__all__ = ["bind"]

Launch = Callable[[], object]


def bind(
    program: Program,
    kernels: Mapping[str, Kernel],
    functions: Mapping[str, Function],
    inputs: Sequence[Any],
    outputs: Sequence[torch.Tensor] | None = None,
    copy: Copy = torch_copy,
) -> tuple[Callable[[], None], tuple[torch.Tensor, ...]]:
    """Pack all steps for these very tensors.

    Arguments as for :func:`~wsched.program.prepare.prepare`. What the program needs between its
    steps is one allocation, whose bytes are used again when their contents are dead. What somebody
    else's function returns is copied into it.

    Args:
        program: what to run.
        kernels: of each name in the program.
        functions: of each name in the program.
        inputs: what it reads.
        outputs: what it writes; by default new tensors. What is written in place lies where it
            lies.
        copy: runs the copies.

    Returns:
        A function that launches it, and the results, which each launch writes.

    Raises:
        ScheduleError: the program cannot run, see :func:`~wsched.program.verify.verify`.
        InputError: the inputs do not fit it.
        UnsupportedError: a function returns something whose type or shape is not known before.
    """
    verify(program)
    extents, device = extents_of(program.inputs, inputs), device_of(inputs)
    tensors = dict(zip(program.inputs, inputs, strict=True))
    given = {b.memory: t for b, t in zip(program.outputs, outputs or (), strict=False)}
    tensors |= _between(program, extents, device)
    launches = []
    for step in program.steps:
        for buffer in step.writes:
            if buffer.dtype is None:
                raise UnsupportedError(
                    f"binding {buffer}, whose type and shape {step} decides",
                    "buffers of a known type and shape",
                )
            if buffer.at is not None:
                there = tensors[buffer.at]
                own = buffer.past is None
                tensors[buffer] = there if own else part_of(there, buffer, extents)
            elif buffer not in tensors:
                out = given.get(buffer)
                tensors[buffer] = new_tensor(buffer, extents, device) if out is None else out
        own = not any(b in given or b.at is not None for b in step.writes)
        launches.append(_launch(step, kernels, functions, tensors, copy if own else torch_copy))

    def launch() -> None:
        for step in launches:
            step()

    return launch, tuple(tensors[b] for b in program.outputs)


def _between(
    program: Program, extents: Mapping[str, int], device: torch.device
) -> dict[Buffer, torch.Tensor]:
    """What is neither input nor result, in one allocation."""
    import torch

    arena = arena_of(program, extents)
    memory = torch.empty(arena.nbytes, dtype=torch.uint8, device=device)
    return {b: within(memory, at, b, extents) for b, at in arena.offsets.items() if b.dtype}


def _launch(
    step: Step,
    kernels: Mapping[str, Kernel],
    functions: Mapping[str, Function],
    tensors: Mapping[Buffer, Any],
    copy: Copy,
) -> Launch:
    """One step on its tensors."""
    reads, writes = ([tensors[b] for b in bs] for bs in (step.reads, step.writes))
    match step:
        case KernelStep() | SummaryStep() | SweepStep():
            return kernels[step.kernel].bind(*reads, out=writes)  # which holds the tensors
        case CallStep():
            function = functions[step.function]

            def call() -> None:
                for target, made in zip(writes, function(reads), strict=True):
                    target.copy_(made)

            return call
        case CopyStep():
            return partial(copy, writes[0], reads[0])
        case WorkspaceStep(zeroed=True):
            return partial(writes[0].zero_)
    return _nothing


def _nothing() -> None:
    """The launch of a workspace that holds nothing, and of what joins its parts."""
