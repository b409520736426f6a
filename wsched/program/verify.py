"""What makes a program one that can run: every read has something to read, no write hurts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import ONE, ZERO, Const, Expr, Var, free_vars
from lowering.ground.poly import poly
from wsched.fusion import TensorBinding
from wsched.fusion.summary import Extent
from wsched.program.program import (
    Buffer,
    CopyStep,
    JoinStep,
    KernelStep,
    Program,
    Step,
    SummaryStep,
    SweepStep,
    WorkspaceStep,
)
from wsched.program.text import print_program

__all__ = ["verify"]


def verify(program: Program) -> None:
    """Check a program.

    Raises:
        ScheduleError: it is none that can run; the rule is ``buffer-name`` (two buffers of one
            name), ``buffer-extent`` (a size that no input tells), ``buffer-defined`` (read and not
            written), ``buffer-written`` (written a second time), ``buffer-taken`` (read after its
            memory was given away), ``in-place`` (memory that cannot be taken over), ``output`` (a
            result that is an input, a part or another result), ``kernel``, ``copy`` or ``join``
            (what they are given does not fit). It is raised for the first fault in the order of
            the text.
    """
    _Verifier(program).run()


@dataclass(slots=True)
class _Verifier:
    """The walk over the steps.

    Attributes:
        defined: what has contents, or is memory; with the step that made it, None for an input.
        empty: workspaces without zeros.
        taken: buffers whose memory holds something else now, and what.
        parts: of workspaces, what lies within them.
    """

    program: Program
    defined: dict[Buffer, Step | None] = field(default_factory=dict)
    empty: set[Buffer] = field(default_factory=set)
    taken: dict[Buffer, Buffer] = field(default_factory=dict)
    parts: dict[Buffer, list[Buffer]] = field(default_factory=dict)

    def run(self) -> None:
        """Check names and sizes, then step by step, then the outputs."""
        self._check_buffers()
        for buffer in self.program.inputs:
            if buffer.at is not None:
                why = f"it is an input, and lies at {buffer.at}"
                raise self._refuse("in-place", f"input {buffer}", why, ("memory of its own",))
            self._define(buffer, None)
        for step in self.program.steps:
            for buffer in step.reads:
                self._read(buffer, str(step))
            if isinstance(step, KernelStep):
                self._check_kernel(step)
            elif isinstance(step, SummaryStep):
                self._check_summary(step)
            elif isinstance(step, SweepStep):
                self._check_sweep(step)
            elif isinstance(step, CopyStep):
                self._check_copy(step)
            elif isinstance(step, JoinStep):
                self._check_join(step)
            for buffer in step.writes:
                self._write(buffer, step)
        self._check_outputs()

    def _refuse(
        self, rule: str, wrote: str, why: str, legal: tuple[str, ...] = ()
    ) -> ScheduleError:
        return ScheduleError(rule, wrote, why, legal, print_program(self.program))

    # --- buffers ------------------------------------------------------------------------------

    def _check_buffers(self) -> None:
        by_name: dict[str, Buffer] = {}
        told = {e for b in self.program.inputs for e in b.shape if isinstance(e, Var)}
        for buffer in self.program.buffers:
            if by_name.setdefault(buffer.name, buffer) != buffer:
                why = "there are two buffers of this name that differ"
                raise self._refuse("buffer-name", buffer.name, why)
            for extent in (*buffer.shape, *(buffer.strides or ())):
                for unknown in sorted(free_vars(extent) - told, key=str):
                    raise self._refuse(
                        "buffer-extent",
                        f"{buffer}: {extent}",
                        f"no input has a dimension {unknown}",
                        tuple(sorted(map(str, told))),
                    )

    def _define(self, buffer: Buffer, step: Step | None) -> None:
        wrote = f"input {buffer}" if step is None else str(step)
        if buffer in self.defined:
            before = self.defined[buffer]
            by = "it is an input" if before is None else f"it was written by {before}"
            legal = ("a buffer of its own",)
            raise self._refuse("buffer-written", wrote, f"{buffer} is written again: {by}", legal)
        self.defined[buffer] = step

    def _read(self, buffer: Buffer, wrote: str) -> None:
        if buffer not in self.defined:
            why = f"{buffer} is read, and nothing has written it before"
            raise self._refuse("buffer-defined", wrote, why, self._readable())
        if buffer in self.empty:
            why = f"{buffer} is read, a workspace that holds nothing"
            legal = (f"workspace {buffer} zeroed", f"a buffer at {buffer} that a step has written")
            raise self._refuse("buffer-defined", wrote, why, legal)
        if buffer in self.taken:
            why = f"{buffer} is read, and its memory holds {self.taken[buffer]}"
            raise self._refuse("buffer-taken", wrote, why, self._readable())

    def _readable(self) -> tuple[str, ...]:
        found = (b for b in self.defined if b not in self.taken and b not in self.empty)
        return tuple(b.name for b in found)

    # --- steps --------------------------------------------------------------------------------

    def _write(self, buffer: Buffer, step: Step) -> None:
        self._define(buffer, step)
        if isinstance(step, WorkspaceStep):
            if buffer.dtype is None or buffer.at is not None:
                why = "a workspace is new memory of a size that is known"
                raise self._refuse("in-place", str(step), why)
            if not step.zeroed:
                self.empty.add(buffer)
        if buffer.at is not None:
            self._take(buffer, buffer.at, step)

    def _take(self, buffer: Buffer, base: Buffer, step: Step) -> None:
        """Check that a step may write a buffer in the place of another one."""
        wrote = str(step)
        if base not in self.defined or self.defined[base] is step:
            why = f"{buffer} lies at {base}, which is no memory before this step"
            raise self._refuse("in-place", wrote, why, tuple(map(str, self.defined)))
        if base in self.taken:
            why = f"{buffer} lies at {base}, whose memory holds {self.taken[base]}"
            raise self._refuse("in-place", wrote, why, (f"{buffer} at {self.taken[base]}",))
        if buffer.past is not None:
            return self._take_part(buffer, base, buffer.past, wrote)
        if base in self.parts and not isinstance(step, JoinStep):
            why = f"{buffer} lies at {base}, which holds {_names(self.parts[base])}"
            raise self._refuse("in-place", wrote, why, ("a workspace of its own",))
        if _told(buffer) != _told(base) or buffer.dtype is None:
            why = f"{buffer} lies at {base}, which has another type, shape or strides"
            raise self._refuse("in-place", wrote, why)
        if isinstance(step, CopyStep):
            if base in step.reads:
                raise self._refuse("in-place", wrote, f"{buffer} lies at {base}: it is no copy")
        elif isinstance(step, KernelStep) and base in step.reads:
            self._check_elementwise(buffer, base, step)
        elif isinstance(step, SweepStep) and base in step.reads:
            self._check_swept(buffer, base, step)
        self.taken[base] = buffer

    def _take_part(self, buffer: Buffer, base: Buffer, past: Expr, wrote: str) -> None:
        """Check that a step may write a part of a workspace."""
        if base not in self.empty:
            why = f"{buffer} is a part of {base}, which is no workspace"
            raise self._refuse("in-place", wrote, why, (f"workspace {base}",))
        beside = self.parts.setdefault(base, [])
        met = [b for b in beside if b.past is not None and poly(b.past).apart(poly(past)) == 0]
        end = past + sum(
            ((size - 1) * step for size, step in zip(buffer.shape, buffer.steps, strict=True)),
            start=ONE,
        )
        if buffer.dtype is not base.dtype or (poly(end).apart(poly(_elements(base))) or 0) > 0:
            why = f"{buffer} lies at {base}, which has another type or ends before it"
            raise self._refuse("in-place", wrote, why)
        if met:
            why = f"{buffer} lies at {base} from {past}, where {met[0]} lies"
            raise self._refuse("in-place", wrote, why, ("memory of its own",))
        beside.append(buffer)

    def _check_join(self, step: JoinStep) -> None:
        """All parts of a workspace, which are all of it."""
        base, given = step.whole.at, set(step.parts)
        there = self.parts.get(base, []) if base is not None else []
        if step.whole.past is not None or given != set(there) or len(given) < len(step.parts):
            found = f"parts of {base} are {_names(there) or 'none'}"
            raise self._refuse("join", str(step), found, ("all parts of one workspace, each once",))
        assert base is not None
        total = sum(map(_elements, step.parts), start=ZERO)
        if _differ(total, _elements(base)):
            why = f"its parts have {total} elements, {base} has {_elements(base)}"
            raise self._refuse("join", str(step), why, ("parts that fill it",))

    def _check_elementwise(self, buffer: Buffer, base: Buffer, step: KernelStep) -> None:
        """A kernel reads an element of what it overwrites only where it writes that element."""
        fusion = step.plan.fusion
        result = fusion.outputs[step.writes.index(buffer)].extents
        for read, binding in zip(step.reads, fusion.inputs, strict=True):
            if read == base and binding.extents != result:
                axes, own = (f"[{', '.join(a)}]" for a in (binding.extents, result))
                raise self._refuse(
                    "in-place",
                    str(step),
                    f"{buffer} {own} lies at {base}, which the kernel reads as {axes}, elements "
                    "of it after others have been written",
                    (f"a buffer of its own for {buffer}",),
                )

    def _check_swept(self, buffer: Buffer, base: Buffer, step: SweepStep) -> None:
        """Likewise a sweep."""
        dims = step.sweep.results[step.writes.index(buffer)].dims
        for read, place in zip(step.reads, step.sweep.inputs, strict=True):
            if read == base and place.dims != dims:
                why = f"{buffer} lies at {base}, elements of which the sweep reads for several"
                legal = (f"a buffer of its own for {buffer}",)
                raise self._refuse("in-place", str(step), why, legal)

    def _check_kernel(self, step: KernelStep) -> None:
        """What a kernel is given fits the plan."""
        fusion, sizes = step.plan.fusion, dict[str, tuple[Expr, Buffer]]()
        for what, given, bindings in (
            ("reads", step.reads, fusion.inputs), ("writes", step.writes, fusion.outputs),
        ):  # fmt: skip
            if len(given) != len(bindings):
                why = f"it {what} {len(given)} buffers, the plan {len(bindings)}"
                raise self._refuse("kernel", str(step), why)
            for buffer, binding in zip(given, bindings, strict=True):
                self._check_binding(step, buffer, binding, sizes)

    def _check_binding(
        self,
        step: KernelStep,
        buffer: Buffer,
        binding: TensorBinding,
        sizes: dict[str, tuple[Expr, Buffer]],
    ) -> None:
        if not buffer.is_known and buffer not in step.writes:
            return
        wanted = binding.dtype.element
        if buffer.dtype is None or buffer.dtype.stored is not wanted.stored:
            found = buffer.dtype.value if buffer.dtype else "any"
            why = f"{buffer} has elements of type {found}, the plan {wanted.value}"
            raise self._refuse("kernel", str(step), why)
        if len(buffer.shape) != len(binding.axes):
            why = f"{buffer} has {len(buffer.shape)} dimensions, the plan {len(binding.axes)}"
            raise self._refuse("kernel", str(step), why)
        for axis, fixed, size in zip(binding.extents, binding.sizes, buffer.shape, strict=True):
            known = ONE if axis == "1" else None if fixed is None else Const(fixed)
            other, where = (known, None) if known else sizes.setdefault(axis, (size, buffer))
            if other is not None and _differ(size, other):
                said = f"in {where}" if where is not None else "in the plan"
                why = f"{axis} is {size} in {buffer} and {other} {said}"
                raise self._refuse("kernel", str(step), why)

    def _check_summary(self, step: SummaryStep) -> None:
        """What a summary is given has its types, and its tensors the dimensions."""
        summary = step.summary
        made = tuple(summary.value(r.value) for r in summary.results)
        for what, given, values in (
            ("reads", step.reads, summary.inputs), ("writes", step.writes, made),
        ):  # fmt: skip
            if len(given) != len(values):
                why = f"it {what} {len(given)} buffers, the summary {len(values)}"
                raise self._refuse("kernel", str(step), why)
            for buffer, value in zip(given, values, strict=True):
                if not buffer.is_known and value.extent is Extent.ONE:
                    continue
                if buffer.dtype is not (wanted := value.dtype.element):
                    found = buffer.dtype.value if buffer.dtype else "any"
                    why = f"{buffer} has elements of type {found}, the summary {wanted.value}"
                    raise self._refuse("kernel", str(step), why)
                if value.extent is Extent.TENSOR and len(buffer.shape) != summary.rank:
                    rank = f"{len(buffer.shape)} dimensions, the summary {summary.rank}"
                    raise self._refuse("kernel", str(step), f"{buffer} has {rank}")

    def _check_sweep(self, step: SweepStep) -> None:
        """What a sweep is given has its types and dimensions."""
        for what, given, places in (
            ("reads", step.reads, step.sweep.inputs), ("writes", step.writes, step.sweep.results),
        ):  # fmt: skip
            if len(given) != len(places):
                why = f"it {what} {len(given)} buffers, the sweep {len(places)}"
                raise self._refuse("kernel", str(step), why)
            for buffer, place in zip(given, places, strict=True):
                if not buffer.is_known and not place.dims:
                    continue
                if buffer.dtype is not (wanted := step.sweep.term(place.term).dtype.element):
                    found = buffer.dtype.value if buffer.dtype else "any"
                    why = f"{buffer} has elements of type {found}, the sweep {wanted.value}"
                    raise self._refuse("kernel", str(step), why)
                if len(buffer.shape) != len(place.dims):
                    ranks = f"{len(buffer.shape)} dimensions, the sweep {len(place.dims)}"
                    raise self._refuse("kernel", str(step), f"{buffer} has {ranks}")

    def _check_copy(self, step: CopyStep) -> None:
        source, target = step.source, step.target
        if source.dtype is None or target.dtype is not source.dtype:
            types = (b.dtype.value if b.dtype else "any" for b in (source, target))
            why = "a copy has the type of what is copied, which has to be known: {} is {}"
            raise self._refuse("copy", str(step), why.format(*types))
        same = len(source.shape) == len(target.shape)
        if not same or any(map(_differ, source.shape, target.shape)):
            shapes = (f"[{', '.join(map(str, b.shape))}]" for b in (source, target))
            raise self._refuse("copy", str(step), "{} into {}".format(*shapes))

    # --- results ------------------------------------------------------------------------------

    def _check_outputs(self) -> None:
        for at, buffer in enumerate(self.program.outputs):
            wrote = f"output {buffer}"
            self._read(buffer, wrote)
            if self.defined[buffer] is None:
                why = f"{buffer} is an input, and a result is memory of its own or written in place"
                raise self._refuse("output", wrote, why, ("a copy of it",))
            if buffer.past is not None:
                why = f"{buffer} is a part of {buffer.at}, and a result is memory of its own"
                raise self._refuse("output", wrote, why, ("a copy of it",))
            if buffer in self.program.outputs[:at]:
                raise self._refuse("output", wrote, "it is a result already", ("a copy of it",))


def _names(buffers: Sequence[Buffer]) -> str:
    return ", ".join(b.name for b in buffers)


def _elements(buffer: Buffer) -> Expr:
    return prod(buffer.shape, start=ONE)


def _told(buffer: Buffer) -> tuple[object, ...]:
    """What has to agree where one buffer takes the place of another."""
    return buffer.dtype, buffer.shape, buffer.steps


def _differ(a: Expr, b: Expr) -> bool:
    """Whether two extents differ whatever the inputs are; those that may agree are for the call."""
    return poly(a).apart(poly(b)) not in (None, 0)
