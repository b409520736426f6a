"""Calls of a program of kernels alone: one look at addresses finds the launches of all steps.

A step that runs by itself allocates its results, finds its launch by addresses, and gives memory
back; of small kernels the host is busy with nothing else. Where all steps are kernels, and views of
what they make or memory for several of them, a call allocates its results and one piece of memory
for what lies between, and finds the launches of all steps together. How everything lies is taken
from a first call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from lowering.ground.locks import Lock
from lowering.ground.recent import bounded
from wsched.program.lifetimes import Lifetime, placed
from wsched.program.memory import allocator, spanned_bytes
from wsched.program.program import (
    Buffer,
    CallStep,
    JoinStep,
    KernelStep,
    Program,
    SummaryStep,
    SweepStep,
    WorkspaceStep,
)
from wsched.program.scratch import Scratch

if TYPE_CHECKING:
    import torch

__all__ = ["Chain", "Packs", "Values", "chained"]

_LAUNCHES = 256
"""Sets of addresses of a call for which launches are kept, and as many of each step."""

Launch = Callable[[], object]


class Packs(Protocol):
    """A kernel that packs launches."""

    def packed(self, inputs: Sequence[Any], outputs: list[torch.Tensor]) -> Launch | None:
        """A launch for these tensors that knows addresses only; None where calls make more."""


@dataclass(frozen=True, slots=True)
class _Was:
    """A tensor of a first call without its memory.

    Args:
        like: of the same shape, strides and type.
        memory: address of all of its memory.
        past: elements in front of its first one.
        device: where it was.
    """

    like: torch.Tensor
    memory: int
    past: int
    device: torch.device

    @staticmethod
    def of(value: Any) -> _Was | None:
        """What is left of a value, None of a number."""
        import torch

        if isinstance(value, _Was) or not hasattr(value, "untyped_storage"):
            return value if isinstance(value, _Was) else None
        like = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
        memory = value.untyped_storage().data_ptr()
        return _Was(like, memory, value.storage_offset(), value.device)


class Values(list[Any]):
    """The values of a first call. Of what it forgets it remembers how that lay."""

    def __setitem__(self, at: Any, value: Any) -> None:
        """Forget the memory of a value."""
        super().__setitem__(at, _Was.of(self[at]))


@dataclass(frozen=True, slots=True)
class _Lies:
    """Where a value lies.

    Args:
        root: number of the tensor that has its memory: the inputs, the results, what lies between.
        offset: bytes from that tensor's first element.
        like: a value of the same shape, strides and type, without memory.
        whole: whether it is all of the root, as that lies.
    """

    root: int
    offset: int
    like: torch.Tensor
    whole: bool

    def of(self, roots: Sequence[torch.Tensor]) -> torch.Tensor:
        """The value of a call."""
        import torch

        root, like = roots[self.root], self.like
        if self.whole:
            return root
        if like.dtype is root.dtype and not root.requires_grad:  # which takes half as long
            past = root.storage_offset() + self.offset // root.element_size()
            return root.as_strided(like.shape, like.stride(), past)
        bare = torch.empty(0, dtype=like.dtype, device=root.device)
        first = root.storage_offset() * root.element_size() + self.offset
        at = first // like.element_size()
        return bare.set_(root.untyped_storage(), at, like.shape, like.stride())


@dataclass(frozen=True, slots=True)
class _Step:
    """A kernel, and where it reads and writes."""

    kernel: Packs
    reads: tuple[_Lies, ...]
    writes: tuple[_Lies, ...]
    launches: dict[tuple[int, ...], Launch]


@dataclass(frozen=True, slots=True)
class _Stage:
    """How far a call goes with the addresses that it has looked at.

    Args:
        new: results that are allocated for it.
        looked: tensors whose addresses are looked at, which were not before.
        width: addresses looked at until then, that of what lies between the first.
        kernels: how many launches they find, from the first one on.
        found: by these addresses, the launches.
    """

    new: tuple[Callable[[], torch.Tensor], ...]
    looked: tuple[int, ...]
    width: int
    kernels: int
    found: dict[tuple[int, ...], tuple[Launch, ...]] = field(default_factory=dict)


class Chain:
    """Calls on inputs of one class.

    The first kernel is launched before any address is looked at that is none of its own, and before
    memory is allocated that only others need: the GPU has nothing to do until then. So are those
    behind it up to one that needs more.

    Args:
        inputs: how many there are.
        scratch: what lies between, whose number as a root is behind the results'.
        new: allocates the results that are none of the inputs.
        steps: in order.
        results: where they lie.
    """

    __slots__ = ("_lock", "_results", "_scratch", "_stages", "_steps")

    def __init__(
        self,
        inputs: int,
        scratch: Scratch,
        new: Sequence[Callable[[], torch.Tensor]],
        steps: Sequence[_Step],
        results: Sequence[_Lies],
    ) -> None:
        self._scratch, self._steps, self._results = scratch, tuple(steps), tuple(results)
        self._stages = _stages(inputs, new, self._steps)
        self._lock = Lock()

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor] | None:
        """Allocate and launch; None, and nothing is done that others see, where a kernel makes more
        than its results.
        """
        between = self._scratch.take()
        try:
            roots, at = [*inputs], (between,)
            found: tuple[Launch, ...] | None = ()
            launched = 0
            for stage in self._stages:
                if stage.new:
                    roots += [new() for new in stage.new]
                at += tuple([roots[n].data_ptr() for n in stage.looked])
                found = stage.found.get(at)
                if found is not None:
                    for launch in found[launched:]:
                        launch()
                    launched = stage.kernels
            if found is None:
                found = self._found(roots, at)
                if found is None:
                    return None
                for launch in found[launched:]:
                    launch()
        finally:
            self._scratch.give_back(between)
        return [roots[r.root] if r.whole else r.of(roots) for r in self._results]

    def _found(
        self, roots: Sequence[torch.Tensor], at: tuple[int, ...]
    ) -> tuple[Launch, ...] | None:
        """The launches of all steps; ``at`` are the addresses that a call has looked at."""
        there = [*roots, self._scratch.tensor(at[0])]
        addresses = [t.data_ptr() for t in there]
        found = [self._launch(step, there, addresses) for step in self._steps]
        launches = tuple(launch for launch in found if launch is not None)
        if len(launches) < len(found):
            return None
        with self._lock:
            for stage in self._stages:
                key, its = at[: stage.width], launches[: stage.kernels]
                bounded(stage.found, key, its, _LAUNCHES)
        return launches

    def _launch(
        self, step: _Step, roots: Sequence[torch.Tensor], at: Sequence[int]
    ) -> Launch | None:
        """The launch of a step, which other addresses of other steps do not change."""
        key = tuple([at[x.root] + x.offset for x in (*step.reads, *step.writes)])
        found = step.launches.get(key)
        if found is None:
            reads, writes = ([x.of(roots) for x in xs] for xs in (step.reads, step.writes))
            found = step.kernel.packed(reads, writes)
            if found is None:
                return None
            with self._lock:
                bounded(step.launches, key, found, _LAUNCHES)
        return found


def _stages(
    inputs: int, new: Sequence[Callable[[], torch.Tensor]], steps: Sequence[_Step]
) -> list[_Stage]:
    """The first kernel; those behind it that need no more memory; all of them."""
    between = inputs + len(new)
    soon = max([inputs, *(n + 1 for n in _roots(steps[:1]) - {between})])
    early = _ahead(inputs, {between, *range(soon)}, steps)
    stages, looked, there = list[_Stage](), list[int](), inputs
    for kernels in sorted({min(early, 1), early, len(steps)} - {0}):
        fresh = sorted(_roots(steps[:kernels]) - {between, *looked})
        looked += fresh
        past = max([there, *(n + 1 for n in fresh)])
        made = tuple(new[there - inputs : past - inputs])
        stages.append(_Stage(made, tuple(fresh), len(looked) + 1, kernels))
        there = past
    return stages


def _roots(steps: Sequence[_Step]) -> set[int]:
    """What they read and write."""
    return {x.root for step in steps for x in (*step.reads, *step.writes)}


def _ahead(inputs: int, there: set[int], steps: Sequence[_Step]) -> int:
    """How many kernels, from the first on, need none but the tensors that are ``there``, and write
    no input, which others see.
    """
    for at, step in enumerate(steps):
        if not _roots([step]) <= there or any(x.root < inputs for x in step.writes):
            return at
    return len(steps)


def chained(program: Program, kernels: Mapping[str, Packs], values: Sequence[Any]) -> Chain | None:
    """How further calls run; None where a step is none of these.

    Args:
        program: verified.
        kernels: of each name in it.
        values: of a first call: the inputs, then what each step has written.
    """
    were = [_Was.of(v) for v in values]
    known = [w for w in were if w is not None]
    if len(known) < len(were):
        return None
    found = _Places(program, known)
    if not found.known:
        return None
    scratch, new, lies = found.roots()
    steps, at = list[_Step](), len(program.inputs)
    of = dict(zip(program.inputs, range(at), strict=True))
    for step in program.steps:
        places = range(at, at + len(step.writes))
        of |= dict(zip(step.writes, places, strict=True))
        at += len(step.writes)
        if isinstance(step, CallStep | WorkspaceStep | JoinStep):
            continue
        assert isinstance(step, KernelStep | SummaryStep | SweepStep)
        reads, writes = (
            tuple(lies[n] for n in names) for names in ([of[b] for b in step.reads], places)
        )
        steps.append(_Step(kernels[step.kernel], reads, writes, {}))
    return Chain(len(program.inputs), scratch, new, steps, [lies[of[b]] for b in program.outputs])


class _Places:
    """Which memory each value of a first call has, and for how long.

    Attributes:
        known: whether all steps are kernels, views of what they make, or memory for several.
    """

    def __init__(self, program: Program, values: Sequence[_Was]) -> None:
        self._program, self._values = program, values
        self._base = list(range(len(program.inputs)))  # of each value the one that has its memory
        self._lives: dict[int, Lifetime] = {}
        self._of: dict[Buffer, int] = dict(zip(program.inputs, self._base, strict=True))
        self.known = all(self._step(at) for at in range(len(program.steps)))

    def _step(self, at: int) -> bool:
        step = self._program.steps[at]
        for buffer in step.reads:
            self._lives_on(self._base[self._of[buffer]], at)
        for buffer in step.writes:
            value, base = len(self._base), self._source(at, buffer)
            if base is None:
                return False
            self._base.append(value if base < 0 else base)
            self._of[buffer] = value
            self._lives_on(self._base[value], at)
        return True

    def _source(self, at: int, buffer: Buffer) -> int | None:
        """The value that has a buffer's memory already, -1 for none; None of what is not known."""
        step, value = self._program.steps[at], self._values[len(self._base)]
        if isinstance(step, KernelStep | SummaryStep | SweepStep):
            return -1 if buffer.at is None else self._base[self._of[buffer.at]]
        if isinstance(step, WorkspaceStep):
            return None if step.zeroed else -1
        if isinstance(step, JoinStep):
            return self._base[self._of[step.parts[0]]]
        if not isinstance(step, CallStep) or not step.stable or len(step.reads) != 1:
            return None
        base = self._base[self._of[step.reads[0]]]
        its = self._values[base]
        alike = value.memory == its.memory and value.like.dtype is its.like.dtype
        return base if alike else None

    def _lives_on(self, base: int, at: int) -> None:
        first = self._lives[base].first if base in self._lives else at
        self._lives[base] = Lifetime(first, at)

    def roots(self) -> tuple[Scratch, list[Callable[[], torch.Tensor]], list[_Lies]]:
        """What a call allocates between steps and for results, and where each value lies."""
        inputs, values = len(self._program.inputs), self._values
        made = [b for b in dict.fromkeys(self._base) if b >= inputs]
        given = {self._base[self._of[b]] for b in self._program.outputs}
        results, between = ([b for b in made if (b in given) is r] for r in (True, False))
        pieces = [(spanned_bytes(values[b].like), self._lives[b]) for b in between]
        total, offsets = placed(pieces)
        device = values[0].device
        new = [allocator(values[b].like, device) for b in results]
        last = inputs + len(results)
        root = {b: (b, 0) for b in range(inputs)}
        root |= {b: (inputs + n, 0) for n, b in enumerate(results)}
        root |= {b: (last, offset) for b, offset in zip(between, offsets, strict=True)}
        lies = [self._lies(at, b, *root[b]) for at, b in enumerate(self._base)]
        return Scratch(total, device), new, lies

    def _lies(self, at: int, base: int, root: int, offset: int) -> _Lies:
        value, whole = self._values[at], self._values[base]
        past = (value.past - whole.past) * value.like.element_size()
        shapes = [(w.like.shape, w.like.stride(), w.past) for w in (value, whole)]
        inputs = len(self._program.inputs)
        apart = base < inputs or base in {self._base[self._of[b]] for b in self._program.outputs}
        return _Lies(root, offset + past, value.like, apart and shapes[0] == shapes[1])
