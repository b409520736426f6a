"""A program made ready to run: on torch's current stream, or on the machine for CPU tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from wsched.program.lifetimes import last_uses
from wsched.program.memory import allocator, device_of, extents_of, new_tensor
from wsched.program.program import (
    Buffer,
    CallStep,
    CopyStep,
    KernelStep,
    Program,
    Step,
    WorkspaceStep,
)
from wsched.program.verify import verify

if TYPE_CHECKING:
    import torch

__all__ = ["Function", "Kernel", "Prepared", "prepare"]

Function = Callable[[Sequence[Any]], "Sequence[torch.Tensor]"]
"""Takes the values of what a step reads and returns those of what it writes."""


class Launch(Protocol):
    """A kernel with its tensors."""

    @property
    def launch(self) -> Callable[[], None]:
        """Launches it."""


class Kernel(Protocol):
    """A compiled plan; :class:`wsched.run.compiled.CompiledFusion` is one."""

    def __call__(self, *inputs: Any, out: Any = None) -> list[torch.Tensor]:
        """Run it; ``out`` has a tensor for each result, to be written in place of new ones."""

    def repeated(self) -> Function:
        """A function for calls on inputs that differ in nothing but addresses and contents."""

    def bind(self, *inputs: Any, out: Any = None) -> Launch:
        """Pack a call for these very tensors."""


class Prepared:
    """Calls of a program on inputs of one class: one Python call for all its steps.

    Memory is allocated by each call and given back after its last use, so that calls may run on
    several streams, from several threads, and while a graph is captured.

    Args:
        program: what runs.
        steps: for each step the function, the places of what it takes, and the places of what
            nobody needs after it. Places count the values: the inputs, then what steps return.
        outputs: places of the results.
    """

    __slots__ = ("_outputs", "_steps", "program")

    def __init__(
        self,
        program: Program,
        steps: Sequence[tuple[Function, Sequence[int], Sequence[int]]],
        outputs: Sequence[int],
    ) -> None:
        self.program, self._steps, self._outputs = program, tuple(steps), tuple(outputs)

    def __call__(self, inputs: Sequence[Any], key: object = None) -> list[torch.Tensor]:
        """Run it.

        Args:
            inputs: all calls' of one :func:`~wsched.run.host.class_key`.
            key: that class, which is not looked at.

        Raises:
            WschedError: as the kernels and functions do. Steps before have run then, and have
                changed nothing but what the program writes in place.
        """
        values = list(inputs)
        for function, reads, last in self._steps:
            values += function([values[i] for i in reads])
            for i in last:
                values[i] = None
        return [values[i] for i in self._outputs]


def prepare(
    program: Program,
    kernels: Mapping[str, Kernel],
    functions: Mapping[str, Function],
    inputs: Sequence[Any],
) -> Prepared:
    """Make calls on inputs of one class ready; nothing runs yet.

    Args:
        program: what to run.
        kernels: of each name in the program.
        functions: of each name in the program; each returns new tensors and writes nothing else.
        inputs: of the class.

    Raises:
        ScheduleError: the program cannot run, see :func:`~wsched.program.verify.verify`.
        InputError: the inputs do not fit it.
    """
    verify(program)
    extents, device = extents_of(program.inputs, inputs), device_of(inputs)
    places: dict[Buffer, int] = {b: at for at, b in enumerate(program.inputs)}
    settled = set(program.inputs)
    steps = []
    for step, done in zip(program.steps, last_uses(program), strict=True):
        always = settled.issuperset(step.reads)
        if always and not isinstance(step, CallStep):
            settled.update(step.writes)
        taken = [b.at for b in step.writes if b.at is not None]
        reads = [places[b] for b in (*step.reads, *taken)]
        places |= {b: len(places) + at for at, b in enumerate(step.writes)}
        make = partial(_targets, step, extents, device)
        function = _function(step, kernels, functions, make, always)
        steps.append((function, reads, [places[b] for b in done if b in places]))
    return Prepared(program, steps, [places[b] for b in program.outputs])


Targets = Callable[[Sequence[Any]], "list[torch.Tensor]"]
"""Memory for what a step writes, given what it takes over."""


def _targets(step: Step, extents: Mapping[str, int], device: torch.device) -> Targets:
    """New memory for what a step writes, but for the buffers that lie at others."""
    import torch

    shapes = torch.device("meta")
    makers = [
        None if b.at is not None else allocator(new_tensor(b, extents, shapes), device)
        for b in step.writes
    ]

    def make(taken: Sequence[Any]) -> list[torch.Tensor]:
        there = iter(taken)
        return [next(there) if maker is None else maker() for maker in makers]

    return make


def _function(
    step: Step,
    kernels: Mapping[str, Kernel],
    functions: Mapping[str, Function],
    targets: Callable[[], Targets],
    always: bool,
) -> Function:
    """What runs a step; it is given what the step reads, then the memory that it takes over.

    ``always`` says that all it reads is of one class: what somebody else's function returns may lie
    otherwise in the next call.
    """
    n, new = len(step.reads), all(b.at is None for b in step.writes)
    match step:
        case KernelStep() if new:
            kernel = kernels[step.kernel]
            return kernel.repeated() if always else (lambda given: kernel(*given))
        case CallStep():
            function = functions[step.function]
            if new:
                return function
            there = [b.at is not None for b in step.writes]
            return lambda given: _moved(function(given[:n]), there, given[n:])
    make = targets()
    match step:
        case KernelStep():
            kernel = kernels[step.kernel]
            return lambda given: kernel(*given[:n], out=make(given[n:]))
        case CopyStep():
            return lambda given: [make(given[1:])[0].copy_(given[0])]
        case WorkspaceStep(zeroed=True):
            return lambda given: [make(given)[0].zero_()]
    return make


def _moved(
    made: Sequence[torch.Tensor], there: Sequence[bool], taken: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    """Results of a function, those that lie at others copied to where these are."""
    into = iter(taken)
    pairs = zip(made, there, strict=True)
    return [next(into).copy_(result) if at else result for result, at in pairs]
