"""A call as a program: what each segment reads and writes, and what runs it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from lowering.ground.expr import ONE
from wsched.front import kernels
from wsched.front.chosen import of_own_making
from wsched.front.cut.buffers import Buffers
from wsched.front.cut.cpu_numbers import by_numbers, given_numbers
from wsched.front.cut.given_back import Run, given_back, made_by
from wsched.front.cut.graph import is_elementwise
from wsched.front.cut.in_place import written_in_place
from wsched.front.cut.leading import with_views_in_front
from wsched.front.cut.looks import looking
from wsched.front.cut.order import declared_order
from wsched.front.cut.segments import Segment
from wsched.front.cut.summaries import behind_parts, is_finish
from wsched.front.cut.tensors import Tensors
from wsched.front.cut.wholes import Wholes, storing
from wsched.front.look import Look
from wsched.fusion.sweep import Sweep
from wsched.importer import Definition, Written
from wsched.importer.summary import import_summary
from wsched.importer.title import title_of
from wsched.program.classes import ALIGNMENT
from wsched.program.keep import Keep
from wsched.program.memory import device_of, extents_of, new_tensor
from wsched.program.prepare import Function, Kernel, prepare
from wsched.program.program import Buffer, CallStep, KernelStep, Program, Step, SweepStep
from wsched.run.adding import adding
from wsched.run.alongside import Front, beside
from wsched.run.copies import unreadable
from wsched.run.finish import Parts, finish_steps, in_parts_step, summary_steps
from wsched.run.row_copy import copy_rows
from wsched.run.summary import compiled_summary, kernels_of
from wsched.run.sweep import compiled_sweep
from wsched.schedule.plan import Plan

if TYPE_CHECKING:
    import torch

    from wsched.run.compiled import CompiledFusion

__all__ = ["Made", "Rest", "Run", "make"]

Rest = Callable[[Segment, "torch.device"], Function]
"""How a segment runs that is not wsched's."""


@dataclass(frozen=True, slots=True)
class Made:
    """A cut definition made ready for inputs of one class.

    Args:
        run: runs it.
        kernels: of the segments that are wsched's, in order.
        stored: names of what they store as a part of something else.
    """

    run: Run
    kernels: tuple[CompiledFusion, ...]
    stored: frozenset[str] = frozenset()


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
        rest: how the segments run, on a device, that have no kernel of wsched's.

    Raises:
        UnsupportedError: nobody takes a segment, or a kernel does not.
        InputError: the inputs do not fit the definition.
        InternalError: a kernel's schedule, or the steps together, are illegal.
    """
    inputs = given_numbers(definition, inputs)
    names = tuple(n.results[0] for n in definition.inputs)
    if len(segments) == 1 and segments[0].is_plain(names) and not definition.written:
        # Its results are the definition's, in its order.
        kernel = kernels.compile(segments[0].definition, inputs)
        kernel.admit(inputs)
        return Made(given_back(definition, by_numbers(definition, kernel.call)), (kernel,))
    made = _Steps(names, tensors, inputs, rest, segments)
    segments = sorted(segments, key=lambda s: not s.kept)  # those read no other ones
    for segment in segments:
        if segment.matmul:
            made.kernel(segment)
        elif segment.views:
            made.views(segment)
        elif segment.join:
            made.join(segment)
        elif segment.sweep is not None:
            made.sweep(segment, segment.sweep)
        elif segment.summary:
            others = (n for s in segments if s is not segment for n in s.inputs)
            made.summary(segment, {*definition.outputs, *others})
        else:
            made.rest(segment)
    program = made.program(definition)
    with of_own_making("the program of a cut", lambda: title_of(definition)):
        run = prepare(program, made.own, made.functions, inputs, copy_rows, _keep(names, segments))
    told = given_back(definition, by_numbers(definition, run))
    return Made(told, tuple(made.kernels), made.stored)


def _keep(names: Sequence[str], segments: Sequence[Segment]) -> Keep | None:
    """What a program keeps, each of whose kept segments is a step; None for nothing."""
    kept = [s for s in segments if s.kept]
    read = {n for s in kept for n in s.inputs}
    return Keep(tuple(at for at, n in enumerate(names) if n in read), len(kept)) if kept else None


class _Steps:
    """The steps of a program, one segment after the other."""

    def __init__(
        self,
        names: tuple[str, ...],
        tensors: Tensors,
        inputs: Sequence[Any],
        rest: Rest,
        segments: Sequence[Segment],
    ) -> None:
        self.kernels: list[CompiledFusion] = []
        self.own: dict[str, Kernel] = {}
        self.functions: dict[str, Function] = {}
        self._rest, self._tensors, self._device = rest, tensors, device_of(inputs)
        self._steps: list[Step] = []
        self._parts: dict[str, _Part] = {}
        self._buffers = Buffers(tensors)
        self._passed = tuple(map(self._buffers.whole, names))
        self._extents = extents_of(self._passed, inputs)
        self._wholes = Wholes(segments, self._buffers, self._extents)
        given = dict(zip(names, inputs, strict=True))
        self._like = partial(_like, given, self._extents, self._device)

    @property
    def stored(self) -> frozenset[str]:
        """Names of what kernels store as a part of something else."""
        return self._wholes.stored

    def program(self, definition: Definition) -> Program:
        """All of it."""
        self._settle(self._parts)

        def lies(written: Written) -> bool:
            return _lies_as_declared(definition, written, self._like(self._buffers(written.into)))

        of = made_by(definition), definition.written
        made = written_in_place(self._steps, *of, self._buffers, lies)
        return Program(self._passed, *adding(*made))

    def rest(self, segment: Segment) -> None:
        """A segment of somebody else's."""
        self._settle(segment.inputs)
        known = all(is_elementwise(n) for n in segment.definition.nodes)
        made, looks = segment.definition, tuple[Look, ...]()
        if not segment.kept:  # each of those is one step
            given = [b.name for b in self._passed]
            made, looks = with_views_in_front(segment.definition, self._tensors, given)
        seen = replace(segment, definition=made, looks=looks)
        reads = tuple(buffer for buffer, _ in self._read(seen))
        step = CallStep("", reads, tuple(map(self._buffers, segment.outputs)), known, known)
        self._call("rest", self._rest(seen, self._device), step)

    def _read(self, segment: Segment) -> Iterator[tuple[Buffer, Any]]:
        """What a segment reads, with views made of what they are of, and tensors like that."""
        looks = {look.name: look for look in segment.looks}
        for name, source in zip(segment.reads, segment.inputs, strict=True):
            buffer, tensor = self._buffers(source), self._like(self._buffers(source))
            if name in looks:
                moves = looks[name].moves
                extents = moves[-1].extents
                view = Buffer(f"{name}@{segment.outputs[0]}", buffer.dtype, extents)
                look = looking(tensor, moves, self._extents)
                self._view(buffer, view, look)
                buffer, tensor = view, look(tensor)
            yield buffer, tensor

    def sweep(self, segment: Segment, sweep: Sweep) -> None:
        """A sweep, views of what it reads before it, and its results in their shapes behind."""
        self._settle(segment.inputs)
        reads, alike = zip(*self._read(segment), strict=True)
        kernel = compiled_sweep(sweep)
        kernel.admit(alike)
        self.own[kernel.name] = kernel
        writes = self._unseen(segment)
        self._steps.append(SweepStep(kernel.name, sweep, reads, writes))
        self._show(segment, writes)

    def _unseen(self, segment: Segment) -> tuple[Buffer, ...]:
        """The results of a kernel, those that others see in another shape in its own."""
        seen = dict(segment.seen)
        return tuple(
            Buffer(f"{b.name}@", b.dtype, seen[b.name]) if b.name in seen else b
            for b in map(self._buffers.whole, segment.outputs)
        )

    def _show(self, segment: Segment, writes: Sequence[Buffer]) -> None:
        """Look at results in the shapes that others see; nobody does at a part of a whole."""
        for made, result in zip(writes, map(self._buffers, segment.outputs), strict=True):
            if made is not result and made.past is None:
                shape = result.sizes(self._extents)
                self._view(made, result, partial(_reshaped, shape))

    def views(self, segment: Segment) -> None:
        """Results that are views of what other segments make."""
        self._settle(segment.inputs)
        for view in segment.views:
            source, target = self._buffers(view.source), self._buffers(view.name)
            self._view(source, target, looking(self._like(source), view.moves, self._extents))

    def join(self, segment: Segment) -> None:
        """What lies where it belongs is together; what does not is copied there."""
        self._settle(segment.inputs)
        self._steps += self._wholes.joined(segment)

    def summary(self, segment: Segment, needed: Collection[str]) -> None:
        """Reductions of tensors, or what follows those of a kernel.

        Args:
            segment: a summary.
            needed: what others read or are given.
        """
        found = {n: self._parts[n].parts for n in segment.inputs if n in self._parts}
        if not is_finish(segment):
            self._settle(segment.inputs)
            return self._summarize(segment.definition, segment.inputs, segment.outputs)
        if (
            set(found) != set(segment.inputs)
            or len({(p.buffer.shape, p.over) for p in found.values()}) > 1
        ):
            return self.rest(segment)
        also = tuple(n for n in segment.inputs if n in needed)
        kinds = {n: (p.op, len(p.buffer.shape), p.over, p.rounded) for n, p in found.items()}
        whole = replace(segment.definition, outputs=(*segment.outputs, *also))
        reads = [p.buffer for p in found.values()]
        self._summarize(behind_parts(whole, kinds), reads, whole.outputs, parts=True)
        for name in found:
            del self._parts[name]

    def _summarize(
        self,
        definition: Definition,
        reads: Sequence[str | Buffer],
        writes: Sequence[str],
        parts: bool = False,
    ) -> None:
        given = [b if isinstance(b, Buffer) else self._buffers(b) for b in reads]
        summary, seen = import_summary(definition), list(map(self._buffers, writes))
        made = [_of_rank(len(r.dims), b) for r, b in zip(summary.results, seen, strict=True)]
        steps = summary_steps(summary, given, made, parts)
        self.own |= kernels_of(steps)
        self._steps += steps
        for inner, outer in zip(made, seen, strict=True):
            if inner is not outer:
                self._view(inner, outer, partial(_reshaped, outer.sizes(self._extents)))

    def _settle(self, names: Iterable[str]) -> None:
        """Put together what of these a kernel has stored in parts, all that are of one kernel."""
        while left := [self._parts[n] for n in names if n in self._parts]:
            step, plan = left[0].step, left[0].plan
            mine = {n: p for n, p in self._parts.items() if p.step is step}
            for name in mine:
                del self._parts[name]
            steps = finish_steps(plan, step, {p.at: p.parts for p in mine.values()})
            self.own |= kernels_of(steps)
            self._steps += steps

    def kernel(self, segment: Segment) -> None:
        """A kernel, views of what it reads before it, and its results in their shapes behind."""
        self._settle(segment.inputs)
        reads, alike = zip(*self._read(segment), strict=True)
        kernel = kernels.compile(segment.definition, alike)
        writes = self._unseen(segment)
        within = self._wholes.places(segment.outputs, writes)
        if within != writes and (stored := storing(segment, kernel, alike, within, self._extents)):
            kernel, writes = stored, within
            self._steps += self._wholes.filled(segment.outputs, writes)
        else:
            kernel = self._beside_statistics(segment, kernel, reads, alike) or kernel
        launched = kernel.alone.following  # behind the statistics, which write no operand of it
        launched.admit(alike)
        self.kernels.append(kernel)
        self.own[name := _name_of(launched, self.own)] = launched
        wide = tuple(map(self._buffers, segment.outputs))
        whole = KernelStep(name, kernel.plan, reads, writes)
        step, parts = in_parts_step(kernel.plan, whole)
        self._steps.append(step)
        self._parts |= {
            wide[at].name: _Part(kernel.plan, whole, at, found) for at, found in parts.items()
        }
        self._settle(dict(segment.seen))
        self._show(segment, writes)

    def _beside_statistics(
        self,
        segment: Segment,
        kernel: CompiledFusion,
        reads: Sequence[Buffer],
        alike: Sequence[Any],
    ) -> CompiledFusion | None:
        """The kernel that runs beside the summary in front of it, which then does so, too; None
        where there is no such summary, or it would not pay.
        """
        fusion, compiled = kernel.fusion, partial(kernels.compile, segment.definition, alike)
        memory = [b.memory for b in reads]
        given = zip(fusion.inputs, memory, strict=True)
        front = Front.of(self._steps, memory, [m for b, m in given if b.tensor in fusion.operands])
        if front is None or unreadable(fusion, alike):
            return None
        read = sum(b.nbytes(self._extents) for b in front.summary.reads)
        found = beside(kernel, alike, read, lambda params: compiled(params=params))
        if found is not None:
            made = compiled_summary(front.summary.summary, alongside=True)
            self.own[made.name] = made
            self._steps = front.alongside(made)
        return found

    def _view(self, source: Buffer, target: Buffer, look: Callable[[Any], Any]) -> None:
        """Look at a buffer as another one; what does not lie so is copied."""
        step = CallStep("", (source,), (target,), True, True, stable=True)
        self._call("view", lambda values: (look(values[0]),), step)

    def _call(self, kind: str, function: Function, step: CallStep) -> None:
        name = f"{kind}{len(self.functions)}"
        self.functions[name] = function
        self._steps.append(replace(step, function=name))


@dataclass(frozen=True, slots=True)
class _Part:
    """A result that a kernel has stored in parts, which nobody has put together yet.

    Args:
        plan: of the kernel.
        step: of the kernel, with the results as they should be.
        at: position of the result.
        parts: what is stored.
    """

    plan: Plan
    step: KernelStep
    at: int
    parts: Parts


def _like(
    given: Mapping[str, Any], extents: Mapping[str, int], device: torch.device, buffer: Buffer
) -> Any:
    """An input, or a tensor that lies in memory as what a segment will make."""
    if buffer.name in given:
        return given[buffer.name]
    return new_tensor(buffer, extents, device)


def _lies_as_declared(definition: Definition, written: Written, given: Any) -> bool:
    """Whether the input that an output is written into has no gaps, and begins where TMA writes."""
    node = definition.node(written.into)
    order = None if node is None else declared_order(node)
    lies = given if order is None else given.permute(order)
    return bool(lies.is_contiguous()) and given.data_ptr() % ALIGNMENT == 0


def _of_rank(rank: int, seen: Buffer) -> Buffer:
    """A result of a summary of so many dimensions: parts have no dimension of size 1 for one that
    is reduced, which others may see.
    """
    if len(seen.shape) == rank:
        return seen
    left = [n for n in seen.shape if n != ONE]
    return Buffer(f"{seen.name}@", seen.dtype, (ONE,) * (rank - len(left)) + tuple(left))


def _reshaped(shape: tuple[int, ...], tensor: Any) -> Any:
    return tensor.view(shape)


def _name_of(kernel: CompiledFusion, kernels: Mapping[str, Kernel]) -> str:
    """The kernel's name, with a number where another one of the program has it."""
    name, number = kernel.kernel.name, 1
    while kernels.get(name, kernel) is not kernel:
        number += 1
        name = f"{kernel.kernel.name}_{number}"
    return name
