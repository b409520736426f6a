"""A call as a program: what each segment reads and writes, and what runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from lowering.ground.expr import Const, Expr, Var
from wsched.doors.dropin.graph import is_elementwise
from wsched.doors.dropin.segments import Segment
from wsched.doors.dropin.tensors import TensorType
from wsched.doors.fallback import execute, rebuild
from wsched.front import api
from wsched.program.memory import device_of, extents_of, new_tensor
from wsched.program.prepare import Function, Kernel, prepare
from wsched.program.program import Buffer, CallStep, KernelStep, Program, Step
from wsched.run.host import Key

if TYPE_CHECKING:
    import torch

    from wsched.run.compiled import CompiledFusion

__all__ = ["Execute", "Run", "run_of"]

Execute = Callable[..., "list[torch.Tensor]"]
"""``FusionDefinition.execute`` of nvFuser, as it was before anybody replaced it."""

Run = Callable[[Sequence[Any], Key], "list[torch.Tensor]"]
"""Runs a definition on its inputs, whose class is known."""


def run_of(
    names: Sequence[str],
    types: Mapping[str, TensorType],
    segments: Sequence[Segment],
    outputs: Sequence[str],
    inputs: Sequence[Any],
    original: Execute,
) -> Run:
    """How a definition runs on inputs of one class. Nothing runs yet; the kernels are compiled.

    Args:
        names: of its inputs.
        types: of its tensors.
        segments: in an order in which they can run.
        outputs: names of its results.
        inputs: of the class.
        original: nvFuser's own ``execute``.

    Raises:
        UnsupportedError: nvFuser refuses to define a segment, or a kernel does not take it.
    """
    if len(segments) == 1 and segments[0].inputs == tuple(names):
        # Its results are the definition's, in its order.
        return api.compile(segments[0].definition, inputs).call
    buffers = _Buffers(types)
    passed = tuple(map(buffers, names))
    given = dict(zip(names, inputs, strict=True))
    like = partial(_like, given, extents_of(passed, inputs), device_of(inputs))
    kernels: dict[str, Kernel] = {}
    functions: dict[str, Function] = {}
    steps: list[Step] = []
    for segment in segments:
        reads, writes = (tuple(map(buffers, n)) for n in (segment.inputs, segment.outputs))
        if segment.matmul:
            kernel = api.compile(segment.definition, [like(b) for b in reads])
            name = _name_of(kernel, kernels)
            kernels[name] = kernel
            steps.append(KernelStep(name, kernel.plan, reads, writes))
        else:
            name = f"nvfuser{len(functions)}"
            functions[name] = _rest(segment, original)
            known = all(is_elementwise(n) for n in segment.definition.nodes)
            steps.append(CallStep(name, reads, writes, known, known))
    program = Program(passed, tuple(steps), tuple(map(buffers, outputs)))
    return prepare(program, kernels, functions, inputs)


class _Buffers(dict[str, Buffer]):
    """The buffer of each name in a definition; made when it is asked for."""

    def __init__(self, types: Mapping[str, TensorType]) -> None:
        self._types = types

    def __call__(self, name: str) -> Buffer:
        """What nvFuser says of a tensor; numbers, and what is expanded, have no shape."""
        if name not in self:
            found = self._types.get(name, TensorType(None, ()))
            dtype = None if found.dtype is None else found.dtype.element
            shape = tuple(_extents(found))
            known = len(shape) == len(found.extents)
            self[name] = Buffer(name, dtype, shape) if known else Buffer(name)
        return self[name]


def _extents(tensor: TensorType) -> Iterator[Expr]:
    for extent in tensor.extents:
        if extent is not None:
            yield Const(int(extent)) if extent.isdigit() else Var(extent)


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


def _rest(segment: Segment, original: Execute) -> Function:
    """A segment that nvFuser runs, as a definition of its own."""
    fd = rebuild(segment.definition)
    return lambda inputs: execute(fd, inputs, original)
