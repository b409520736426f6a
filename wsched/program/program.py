"""A program: the steps of one call, and the memory between them.

A plan is one kernel. What takes several (a reduction in two phases, a definition of which nvFuser
runs a part, an operand that has to be copied first) is a program: steps in order, each of which
names the buffers that it reads and writes. A buffer is written by one step; what lies in the memory
of another one has a name of its own and says so. Sizes are expressions in the extents of the
inputs, so that one program serves all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lowering.ground.dtypes import DType
from lowering.ground.expr import ONE, Expr, evaluate
from wsched.fusion.summary import Summary
from wsched.fusion.sweep import Sweep
from wsched.schedule.plan import Plan

__all__ = [
    "Buffer", "CallStep", "CopyStep", "JoinStep", "KernelStep", "Program", "Step",
    "SummaryStep", "SweepStep", "WorkspaceStep",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Buffer:
    """Contents of memory, from the step that writes them on.

    Args:
        name: a word, each only once in a program.
        dtype: type of its elements; None of a number, or where wsched has no word for it.
        shape: elements along each dimension, outermost first; empty of a number, and of a tensor
            without a type whose shape only the caller or a called function knows.
        strides: elements from one index to the next along each dimension; None is dense, with the
            last dimension contiguous.
        at: the buffer whose memory it takes over; nobody reads that one any more.
        past: elements of that memory in front of its first one, where it is a part of a workspace
            beside which there are others (:class:`JoinStep`); None where it is all of it.
    """

    name: str
    dtype: DType | None = None
    shape: tuple[Expr, ...] = ()
    strides: tuple[Expr, ...] | None = None
    at: Buffer | None = None
    past: Expr | None = None

    @property
    def is_known(self) -> bool:
        """Whether the program says anything of its type or shape."""
        return self.dtype is not None or bool(self.shape)

    @property
    def memory(self) -> Buffer:
        """The buffer that the memory was allocated for, itself or the first one in its place."""
        return self if self.at is None else self.at.memory

    @property
    def steps(self) -> tuple[Expr, ...]:
        """The strides, those of a dense buffer worked out."""
        if self.strides is not None:
            return self.strides
        found: list[Expr] = []
        step: Expr = ONE
        for extent in reversed(self.shape):
            found.append(step)
            step = extent * step
        return tuple(reversed(found))

    def sizes(self, extents: Mapping[str, int]) -> tuple[int, ...]:
        """Elements along each dimension."""
        return tuple(evaluate(e, extents) for e in self.shape)

    def pitches(self, extents: Mapping[str, int]) -> tuple[int, ...]:
        """Elements from one index to the next along each dimension."""
        return tuple(evaluate(e, extents) for e in self.steps)

    def nbytes(self, extents: Mapping[str, int]) -> int:
        """Bytes from its first element to the end of its last one; 0 of an unknown one."""
        sizes = self.sizes(extents)
        if self.dtype is None or 0 in sizes:
            return 0
        spans = ((size - 1) * step for size, step in zip(sizes, self.pitches(extents), strict=True))
        return (1 + sum(spans)) * self.dtype.bytes

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class KernelStep:
    """A kernel of wsched's.

    Args:
        kernel: its name, which stands for the plan in texts.
        plan: its schedule, proved.
        reads: for each input of the plan's fusion.
        writes: for each output.
    """

    kernel: str
    plan: Plan
    reads: tuple[Buffer, ...]
    writes: tuple[Buffer, ...]

    def __str__(self) -> str:
        return f"kernel {self.kernel}({_list(self.reads)}) -> {_list(self.writes)}"


@dataclass(frozen=True, slots=True)
class SummaryStep:
    """A kernel of wsched's that reduces tensors, and has no schedule.

    Args:
        kernel: its name, which stands for the summary in texts.
        summary: what it computes, in one stage.
        reads: for each input of the summary.
        writes: for each result.
    """

    kernel: str
    summary: Summary
    reads: tuple[Buffer, ...]
    writes: tuple[Buffer, ...]

    def __str__(self) -> str:
        return f"summary {self.kernel}({_list(self.reads)}) -> {_list(self.writes)}"


@dataclass(frozen=True, slots=True)
class SweepStep:
    """A kernel of wsched's that is pointwise, and has no schedule.

    Args:
        kernel: its name, which stands for the sweep in texts.
        sweep: what it computes.
        reads: for each input of the sweep, in any strides.
        writes: for each result.
    """

    kernel: str
    sweep: Sweep
    reads: tuple[Buffer, ...]
    writes: tuple[Buffer, ...]

    def __str__(self) -> str:
        return f"sweep {self.kernel}({_list(self.reads)}) -> {_list(self.writes)}"


@dataclass(frozen=True, slots=True)
class CopyStep:
    """The same elements in other memory, with other strides."""

    source: Buffer
    target: Buffer

    @property
    def reads(self) -> tuple[Buffer, ...]:
        """The source."""
        return (self.source,)

    @property
    def writes(self) -> tuple[Buffer, ...]:
        """The target."""
        return (self.target,)

    def __str__(self) -> str:
        return f"copy {self.source} -> {self.target}"


@dataclass(frozen=True, slots=True)
class WorkspaceStep:
    """Memory that later steps fill through buffers that lie ``at`` this one.

    Args:
        buffer: the memory.
        zeroed: whether it holds zeros; otherwise nobody may read it as it is.
    """

    buffer: Buffer
    zeroed: bool = False

    @property
    def reads(self) -> tuple[Buffer, ...]:
        """Nothing."""
        return ()

    @property
    def writes(self) -> tuple[Buffer, ...]:
        """The memory."""
        return (self.buffer,)

    def __str__(self) -> str:
        return f"workspace {self.buffer}{' zeroed' if self.zeroed else ''}"


@dataclass(frozen=True, slots=True)
class JoinStep:
    """The parts of a workspace, all written, as one tensor from here on. Nothing runs.

    Args:
        parts: all that the workspace holds, none of which lies where another one does.
        whole: the tensor, at the workspace.
    """

    parts: tuple[Buffer, ...]
    whole: Buffer

    @property
    def reads(self) -> tuple[Buffer, ...]:
        """The parts."""
        return self.parts

    @property
    def writes(self) -> tuple[Buffer, ...]:
        """The whole."""
        return (self.whole,)

    def __str__(self) -> str:
        return f"join {_list(self.parts)} -> {self.whole}"


@dataclass(frozen=True, slots=True)
class CallStep:
    """A function of somebody else's, nvFuser's or torch's, that returns new tensors.

    Args:
        function: its name.
        reads: its arguments.
        writes: its results.
        deterministic: whether equal arguments are known to give equal bits.
        batch_invariant: whether the bits of a row of a result are known not to depend on other
            rows, nor on their number.
        stable: whether arguments of one class are known to give results of one class
            (:func:`~wsched.program.classes.class_key`).
    """

    function: str
    reads: tuple[Buffer, ...]
    writes: tuple[Buffer, ...]
    deterministic: bool = False
    batch_invariant: bool = False
    stable: bool = False

    def __str__(self) -> str:
        said = ("deterministic", "batch_invariant", "stable")
        known = (n for n in said if getattr(self, n))
        text = f"call {self.function}({_list(self.reads)}) -> {_list(self.writes)}"
        return " ".join((text, *known))


Step = KernelStep | SummaryStep | SweepStep | CopyStep | WorkspaceStep | JoinStep | CallStep


@dataclass(frozen=True, slots=True)
class Program:
    """Steps in the order in which they run.

    Args:
        inputs: what the caller passes, in his order.
        steps: what is done.
        outputs: what he gets, in his order.
    """

    inputs: tuple[Buffer, ...]
    steps: tuple[Step, ...]
    outputs: tuple[Buffer, ...]

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """Every buffer, the inputs first, then in the order in which steps name them."""
        return tuple(dict.fromkeys(self._named()))

    def _named(self) -> Iterator[Buffer]:
        yield from self.inputs
        for step in self.steps:
            for buffer in (*step.reads, *step.writes):
                chain = [buffer]
                while chain[-1].at is not None:
                    chain.append(chain[-1].at)
                yield from reversed(chain)
        yield from self.outputs

    def allocates(self, step: Step) -> tuple[Buffer, ...]:
        """What a step makes memory for: the buffers it writes that lie at no other."""
        return tuple(b for b in step.writes if b.at is None)


def _list(buffers: tuple[Buffer, ...]) -> str:
    return ", ".join(b.name for b in buffers)
