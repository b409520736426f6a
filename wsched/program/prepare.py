"""A program made ready to run: on torch's current stream, or on the machine for CPU tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Protocol

from wsched.program.chained import Chain, Packs, Values, chained
from wsched.program.classes import Key, class_key
from wsched.program.keep import Keep, Kept, check_keep
from wsched.program.lifetimes import last_uses
from wsched.program.memory import allocator, device_of, extents_of, new_tensor, part_of
from wsched.program.program import (
    Buffer,
    CallStep,
    CopyStep,
    JoinStep,
    KernelStep,
    Program,
    Step,
    SummaryStep,
    SweepStep,
    WorkspaceStep,
)
from wsched.program.verify import verify
from wsched.program.versions import counter, written_inputs

if TYPE_CHECKING:
    import torch

__all__ = ["Copy", "Function", "Into", "Kernel", "Prepared", "prepare", "torch_copy"]

Function = Callable[[Sequence[Any]], "Sequence[torch.Tensor]"]
"""Takes the values of what a step reads and returns those of what it writes."""


Into = Callable[[Sequence[Any], "list[torch.Tensor]"], "list[torch.Tensor]"]
"""Takes what a kernel reads, and tensors to write its results to, which it returns."""


class Kernel(Packs, Protocol):
    """A compiled plan or summary; :class:`wsched.run.compiled.CompiledFusion` is one."""

    def __call__(self, *inputs: Any, out: Any = None) -> list[torch.Tensor]:
        """Run it; ``out`` has a tensor for each result, to be written in place of new ones."""

    def repeated(self) -> Function:
        """A function for calls on inputs that differ in nothing but addresses and contents."""

    def repeated_into(self) -> Into:
        """The same with results that are there, which differ in no more."""

    def bind(self, *inputs: Any, out: Any = None) -> Callable[[], object]:
        """Pack a call for these very tensors, which the result holds; calling it launches."""


Copy = Callable[["torch.Tensor", "torch.Tensor"], "torch.Tensor"]
"""Copies the elements of its second argument into its first one, and returns that. That is nobody
else's: behind each row zeros may be written, up to whole :data:`~lowering.target.ptx.TMA_WRITES`.
"""


def torch_copy(target: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """A copy as torch does it, without the gradients of what is copied, which stop here."""
    return target.copy_(source.detach())


_CLASSES = 64
"""Classes of what a function returns for which a program remembers how a kernel runs."""

_CHAINED = ("cuda",)
"""Devices on which launches know addresses only, so that those of a call are kept together."""

Picker = Callable[[list[Any]], Sequence[Any]]
"""Takes some of the values of a call."""

Action = Callable[[list[Any]], object]
"""Runs on the values of a call: its inputs, then what each step has made, which it adds."""


class Prepared:
    """Calls of a program on inputs of one class: one Python call for all its steps.

    Memory is allocated by each call and given back after its last use, so that calls may run on
    several streams, from several threads, and while a graph is captured.

    Args:
        program: what runs.
        actions: what is done, in order.
        outputs: places of the results among the values.
        kept: what is done before that, not in every call; None for nothing.
        chain: how calls run from the second one on, from the values of the first; None as that.
        given: what such calls take of the inputs and what is kept.
        counted: whether torch is told of what calls write into inputs.
    """

    __slots__ = (
        "_actions", "_chain", "_chained", "_given", "_kept", "_outputs", "_written", "program",
    )  # fmt: skip

    def __init__(
        self,
        program: Program,
        actions: Sequence[Action],
        outputs: Sequence[int],
        kept: Kept | None = None,
        chain: Callable[[list[Any]], Chain | None] | None = None,
        given: Sequence[int] = (),
        counted: bool = True,
    ) -> None:
        first = () if kept is None else (kept.fill,)
        self.program, self._actions = program, (*first, *actions)
        self._outputs, self._kept, self._given = _picker(outputs), kept, _picker(given)
        self._chained, self._written = chain, written_inputs(program) if counted else None
        self._chain: Chain | None = None

    def __call__(self, inputs: Sequence[Any], key: object = None) -> list[torch.Tensor]:
        """Run it.

        Args:
            inputs: all calls' of one :func:`~wsched.program.classes.class_key`.
            key: that class, which is not looked at.

        Raises:
            InputError: an input that is written in place requires gradients, where torch records.
            WschedError: as the kernels and functions do. Steps before have run then, and have
                changed nothing but what the program writes in place.
        """
        written = self._written and self._written(inputs)
        chain = self._chain  # which another thread may give up meanwhile
        if chain is not None:
            given = inputs
            if self._kept is not None:
                self._kept.fill(values := list(inputs))
                given = self._given(values)
            made = chain(given)
            if made is not None:
                if written:
                    counter()(written)
                return made
            self._chain = None
        make, self._chained = self._chained, None
        values = list(inputs) if make is None else Values(inputs)
        for act in self._actions:
            act(values)
        if make is not None:
            self._chain = make(values)
        if written:
            counter()(written)
        return list(self._outputs(values))


def _picker(places: Sequence[int]) -> Picker:
    """A function that takes the values at these places out of a list, as fast as Python can."""
    if len(places) > 1:
        return itemgetter(*places)
    if not places:
        return lambda values: ()
    (place,) = places
    return lambda values: (values[place],)


def prepare(
    program: Program,
    kernels: Mapping[str, Kernel],
    functions: Mapping[str, Function],
    inputs: Sequence[Any],
    copy: Copy = torch_copy,
    keep: Keep | None = None,
    counted: bool = True,
) -> Prepared:
    """Make calls on inputs of one class ready; nothing runs yet.

    Args:
        program: what to run.
        kernels: of each name in the program.
        functions: of each name in the program; each returns new tensors and writes nothing else.
        inputs: of the class.
        copy: runs the copies.
        keep: the first steps where their results are kept between calls.
        counted: whether torch is told of what calls write into inputs; else the caller does.

    Raises:
        ScheduleError: the program cannot run, see :func:`~wsched.program.verify.verify`, or may
            not keep that, see :func:`~wsched.program.keep.check_keep`.
        InputError: the inputs do not fit it.
    """
    verify(program)
    if keep is not None:
        check_keep(program, keep)
    extents, device = extents_of(program.inputs, inputs), device_of(inputs)
    places, settled = {b: at for at, b in enumerate(program.inputs)}, set(program.inputs)
    make = _Memory(extents, device)
    actions: list[Action] = []
    kept = None
    for at, (step, done) in enumerate(zip(program.steps, last_uses(program), strict=True), start=1):
        open_ = [places[b] for b in step.reads if b not in settled]
        settled |= set(_settled(step, settled))
        match step:
            case KernelStep() | SummaryStep() | SweepStep():
                actions.append(_kernel(step, kernels[step.kernel], places, make, open_))
            case CallStep():
                actions.append(_call(step, functions[step.function], places, make))
            case CopyStep():
                actions.append(_copy(step, places, make, copy))
            case WorkspaceStep() | JoinStep():
                actions.append(_whole(step, places, make))
        places |= {b: len(places) + at for at, b in enumerate(step.writes)}
        # The caller holds the inputs, and all else goes with the last step.
        gone = [places[b] for b in done if b.memory not in program.inputs]
        if gone and step is not program.steps[-1]:
            actions.append(_dropping(gone))
        if keep is not None and at == keep.steps:
            kept, actions = Kept(keep, actions, device), []
    chain = None
    behind = program if keep is None else _behind(program, keep)
    if device.type in _CHAINED:
        there = {*behind.inputs, *(b for step in behind.steps for b in step.writes)}
        taken = _picker([at for b, at in places.items() if b in there])
        chain = partial(_chain, behind, kernels, taken)
    outputs, given = ([places[b] for b in bs] for bs in (program.outputs, behind.inputs))
    return Prepared(program, actions, outputs, kept, chain, given, counted)


def _chain(
    program: Program, kernels: Mapping[str, Packs], taken: Picker, values: list[Any]
) -> Chain | None:
    """How further calls run, of what is ``taken`` of the values of a first one."""
    return chained(program, kernels, taken(values))


def _behind(program: Program, keep: Keep) -> Program:
    """What runs in each call, of the inputs and of what of the kept it reads: what kept steps alone
    read is forgotten.
    """
    first, steps = program.steps[: keep.steps], program.steps[keep.steps :]
    read = {b for step in steps for b in step.reads}
    kept = tuple(b for step in first for b in step.writes if b in read)
    return replace(program, inputs=(*program.inputs, *kept), steps=steps)


def _settled(step: Step, settled: set[Buffer]) -> Iterator[Buffer]:
    """What a step writes that is of one class in every call, if ``settled`` is so before.

    What somebody else's function returns may lie otherwise in the next call. A kernel makes its
    results as its plan has them, wherever its inputs lie.
    """
    always = settled.issuperset(step.reads)
    for buffer in step.writes:
        if buffer.at is not None:
            if buffer.at in settled:
                yield buffer
        elif isinstance(step, CallStep):
            if always and step.stable:
                yield buffer
        elif always or buffer.is_known:
            yield buffer


Maker = Callable[[], "torch.Tensor"]
Places = Mapping[Buffer, int]


@dataclass(frozen=True, slots=True)
class _Memory:
    """Memory for buffers.

    Args:
        extents: value of each symbol in their sizes.
        device: where it is.
    """

    extents: Mapping[str, int]
    device: torch.device

    def new(self, buffer: Buffer) -> Maker:
        """A function that allocates a buffer."""
        import torch

        return allocator(new_tensor(buffer, self.extents, torch.device("meta")), self.device)

    def there(self, buffer: Buffer, places: Places) -> Callable[[list[Any]], torch.Tensor]:
        """The memory of the buffer that one lies at, or the part of it that is its own."""
        assert buffer.at is not None
        at = places[buffer.at]
        if buffer.past is None:
            return itemgetter(at)
        part = partial(part_of, buffer=buffer, extents=self.extents)
        return lambda values: part(values[at])


def _kernel(
    step: KernelStep | SummaryStep | SweepStep,
    kernel: Kernel,
    places: Places,
    make: _Memory,
    open_: Sequence[int],
) -> Action:
    """Run a kernel; ``open_`` are the places of what it reads whose class each call has to find."""
    read = _picker([places[b] for b in step.reads])
    if any(b.at is not None for b in step.writes):
        memory = [_target(b, places, make) for b in step.writes]
        into: Into = kernel.repeated_into()
        if open_:
            into = _anew(kernel)
        return lambda values: values.extend(
            into(read(values), [target(values) for target in memory])
        )
    if open_:
        return _by_class(kernel, read, _picker(open_))
    run = kernel.repeated()
    return lambda values: values.extend(run(read(values)))


def _anew(kernel: Kernel) -> Into:
    """A kernel that looks at what it is given in every call."""
    return lambda inputs, outputs: kernel(*inputs, out=outputs)


def _by_class(kernel: Kernel, read: Picker, looked_at: Picker) -> Action:
    """Run a kernel by the class of some of what it reads; the rest is of one class."""
    runs: dict[Key, Function] = {}

    def act(values: list[Any]) -> None:
        key = class_key(looked_at(values))
        run = runs.get(key) if key is not None else None
        if run is None:
            run = kernel.repeated()
            if key is not None:
                if len(runs) >= _CLASSES:
                    runs.clear()
                runs[key] = run
        values.extend(run(read(values)))

    return act


def _target(buffer: Buffer, places: Places, make: _Memory) -> Callable[[list[Any]], torch.Tensor]:
    """The memory for a buffer: that of the one that it lies at, or new."""
    if buffer.at is not None:
        return make.there(buffer, places)
    new = make.new(buffer)
    return lambda values: new()


def _call(step: CallStep, function: Function, places: Places, make: _Memory) -> Action:
    """Call a function; results that lie at others are copied there."""
    read = _picker([places[b] for b in step.reads])
    taken = [None if b.at is None else make.there(b, places) for b in step.writes]
    if not any(b.at for b in step.writes):
        return lambda values: values.extend(function(read(values)))

    def call(values: list[Any]) -> None:
        made = zip(function(read(values)), taken, strict=True)
        values.extend([t if at is None else at(values).copy_(t) for t, at in made])

    return call


def _copy(step: CopyStep, places: Places, make: _Memory, copy: Copy) -> Action:
    source = places[step.source]
    if step.target.at is not None:  # somebody else's, whose rows ``copy`` may write beside
        into = make.there(step.target, places)
        return lambda values: values.append(torch_copy(into(values), values[source]))
    new = make.new(step.target)
    return lambda values: values.append(copy(new(), values[source]))


def _whole(step: WorkspaceStep | JoinStep, places: Places, make: _Memory) -> Action:
    """Make memory for several steps, or give it to those that read all of it."""
    if isinstance(step, JoinStep):
        memory = places[step.whole.memory]
        return lambda values: values.append(values[memory])
    new = make.new(step.buffer)
    if step.zeroed:
        return lambda values: values.append(new().zero_())
    return lambda values: values.append(new())


def _dropping(places: Sequence[int]) -> Action:
    """Forget values, whose memory later steps may get."""

    def drop(values: list[Any]) -> None:
        for at in places:
            values[at] = None

    return drop
