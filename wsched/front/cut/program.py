"""A call as a program: what each segment reads and writes, and what runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from wsched.front import kernels
from wsched.front.cut.graph import is_elementwise
from wsched.front.cut.segments import Segment
from wsched.front.cut.tensors import Tensors, TensorType
from wsched.importer import Definition
from wsched.program.memory import device_of, extents_of, new_tensor
from wsched.program.prepare import Function, Kernel, prepare
from wsched.program.program import Buffer, CallStep, KernelStep, Program, Step
from wsched.run.host import Key

if TYPE_CHECKING:
    import torch

    from wsched.run.compiled import CompiledFusion

__all__ = ["Made", "Rest", "Run", "make"]

Rest = Callable[[Segment], Function]
"""How a segment runs that is not wsched's."""

Run = Callable[[Sequence[Any], Key | None], "list[torch.Tensor]"]
"""Runs a definition on its inputs of one class, by their class; None keeps nothing by it."""


@dataclass(frozen=True, slots=True)
class Made:
    """A cut definition made ready for inputs of one class.

    Args:
        run: runs it.
        kernels: of the segments that are wsched's, in order.
    """

    run: Run
    kernels: tuple[CompiledFusion, ...]


def make(
    definition: Definition,
    tensors: Tensors,
    segments: Sequence[Segment],
    inputs: Sequence[Any],
    rest: Rest,
) -> Made:
    """How a definition runs on inputs of one class. Nothing runs yet; the kernels are compiled.

    Args:
        definition: what is cut.
        tensors: of it.
        segments: of it, in an order in which they can run.
        inputs: of the class.
        rest: how the segments run that have no kernel of wsched's.

    Raises:
        UnsupportedError: nobody takes a segment, or a kernel does not.
        InputError: the inputs do not fit the definition.
    """
    names = tuple(n.results[0] for n in definition.inputs)
    if len(segments) == 1 and segments[0].inputs == names:
        # Its results are the definition's, in its order.
        kernel = kernels.compile(segments[0].definition, inputs)
        kernel.admit(inputs)
        return Made(kernel.call, (kernel,))
    buffers = _Buffers(tensors)
    passed = tuple(map(buffers, names))
    given = dict(zip(names, inputs, strict=True))
    like = partial(_like, given, extents_of(passed, inputs), device_of(inputs))
    own: dict[str, Kernel] = {}
    functions: dict[str, Function] = {}
    steps: list[Step] = []
    made: list[CompiledFusion] = []
    for segment in segments:
        reads, writes = (tuple(map(buffers, n)) for n in (segment.inputs, segment.outputs))
        if segment.matmul:
            alike = [like(b) for b in reads]
            kernel = kernels.compile(segment.definition, alike)
            kernel.admit(alike)
            made.append(kernel)
            name = _name_of(kernel, own)
            own[name] = kernel
            steps.append(KernelStep(name, kernel.plan, reads, writes))
        else:
            name = f"rest{len(functions)}"
            functions[name] = rest(segment)
            known = all(is_elementwise(n) for n in segment.definition.nodes)
            steps.append(CallStep(name, reads, writes, known, known))
    program = Program(passed, tuple(steps), tuple(map(buffers, definition.outputs)))
    return Made(prepare(program, own, functions, inputs), tuple(made))


class _Buffers(dict[str, Buffer]):
    """The buffer of each name in a definition; made when it is asked for."""

    def __init__(self, tensors: Tensors) -> None:
        self._tensors = tensors

    def __call__(self, name: str) -> Buffer:
        """What is known of a tensor; numbers, and what is expanded, have no shape."""
        if name not in self:
            found = self._tensors.types.get(name, TensorType(None, None))
            stored, extents = found.dtype is not None and found.dtype.is_stored, found.extents
            dtype = found.dtype.element if stored and found.dtype is not None else None
            self[name] = Buffer(name) if extents is None else Buffer(name, dtype, extents)
        return self[name]


def _like(
    given: Mapping[str, Any], extents: Mapping[str, int], device: torch.device, buffer: Buffer
) -> Any:
    """An input, or a tensor that lies in memory as what a segment will make."""
    if buffer.name in given:
        return given[buffer.name]
    return new_tensor(buffer, extents, device)


def _name_of(kernel: CompiledFusion, kernels: Mapping[str, Kernel]) -> str:
    """The kernel's name, with a number where another one of the program has it."""
    name, number = kernel.kernel.name, 1
    while kernels.get(name, kernel) is not kernel:
        number += 1
        name = f"{kernel.kernel.name}_{number}"
    return name
