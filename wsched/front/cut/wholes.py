"""Memory that several kernels store into: the whole of what a definition puts together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import Const
from lowering.ground.frozen import replaced
from wsched.choose.heuristics import choose_params
from wsched.front import kernels
from wsched.front.chosen import own_choice
from wsched.front.cut.buffers import Buffers
from wsched.front.cut.joined import parts_in
from wsched.front.cut.segments import Segment
from wsched.front.problems import problem_of
from wsched.program.memory import new_tensor, part_of
from wsched.program.program import Buffer, CopyStep, JoinStep, Step, WorkspaceStep
from wsched.run.compiled import CompiledFusion

__all__ = ["Wholes", "storing"]


class Wholes:
    """The wholes of a program, of which each becomes memory when the first part is made.

    Args:
        segments: all of the program.
        buffers: of the names in the definition.
        extents: value of each symbol in their sizes.
    """

    def __init__(
        self, segments: Sequence[Segment], buffers: Buffers, extents: Mapping[str, int]
    ) -> None:
        self._buffers, self._extents = buffers, extents
        self._memory: dict[str, Buffer] = {}
        self._stored: dict[str, Buffer] = {}
        self._within: dict[str, Buffer] = {}
        for segment in (s for s in segments if s.join):
            names = segment.parts
            places = self._places(segment)
            triples = zip(names, places, segment.join, strict=True)
            self._within |= {name: place for name, place, stored in triples if stored}

    def _places(self, segment: Segment) -> list[Buffer]:
        (name,) = segment.outputs
        whole = self._buffers.whole(name)
        memory = replace(whole, name=f"{name}@memory")
        return list(parts_in(segment, memory, [self._buffers(n) for n in segment.parts]))

    @property
    def stored(self) -> frozenset[str]:
        """Names of the parts that are stored where they belong."""
        return frozenset(self._stored)

    def places(self, names: Sequence[str], writes: Sequence[Buffer]) -> tuple[Buffer, ...]:
        """Where a kernel may store its results: those that belong into a whole there.

        Args:
            names: of the results.
            writes: their buffers, in the shapes that the kernel makes.
        """
        return tuple(
            self._in_shape(self._within[name], made) if name in self._within else made
            for name, made in zip(names, writes, strict=True)
        )

    def _in_shape(self, place: Buffer, made: Buffer) -> Buffer:
        """A part of a whole in the shape that a kernel makes, where it lies in that."""
        import torch

        if place.shape == made.shape or place.at is None:
            return place
        meta = torch.device("meta")
        there = part_of(new_tensor(place.at, self._extents, meta), place, self._extents)
        try:
            strides = there.view(made.sizes(self._extents)).stride()
        except RuntimeError:  # its rows are no rows of one matrix
            return made
        return replace(place, shape=made.shape, strides=tuple(map(Const, strides)))

    def filled(self, names: Sequence[str], writes: Sequence[Buffer]) -> list[Step]:
        """Memory for the wholes that a kernel stores into, where there is none yet.

        Args:
            names: of its results.
            writes: where they are stored.
        """
        made = {n: b for n, b in zip(names, writes, strict=True) if b.past is not None}
        self._stored |= made
        return [step for b in made.values() for step in self._there(b)]

    def _there(self, place: Buffer) -> list[Step]:
        memory = place.at
        assert memory is not None
        if memory.name in self._memory:
            return []
        self._memory[memory.name] = memory
        return [WorkspaceStep(memory)]

    def joined(self, segment: Segment) -> list[Step]:
        """What is not stored where it belongs copied there, and all of it as one tensor."""
        (name,), steps, parts = segment.outputs, list[Step](), list[Buffer]()
        for part, place in zip(segment.parts, self._places(segment), strict=True):
            stored = self._stored.get(part)
            if stored is None or stored.at != place.at:
                steps += [*self._there(place), CopyStep(self._buffers(part), place)]
                stored = place
            parts.append(stored)
        self._buffers[name] = replace(self._buffers.whole(name), at=parts[0].at)
        return [*steps, JoinStep(tuple(parts), self._buffers[name])]


def storing(
    segment: Segment,
    kernel: CompiledFusion,
    inputs: Sequence[Any],
    writes: Sequence[Buffer],
    extents: Mapping[str, int],
) -> CompiledFusion | None:
    """A segment's kernel, if it can store its results there, else one whose threads do; None where
    neither can.

    TMA stores rows of multiples of 16 bytes that begin at such; threads one element or two at once.

    Args:
        segment: of a matmul.
        kernel: as it is chosen for results of its own.
        inputs: tensors like what it reads.
        writes: where the results are to lie.
        extents: value of each symbol in their sizes.

    Raises:
        InternalError: the schedule that was chosen for that is illegal.
    """
    import torch

    meta = torch.device("meta")
    outputs = [
        new_tensor(b, extents, meta)
        if b.at is None or b.past is None
        else part_of(new_tensor(b.at, extents, meta), b, extents)
        for b in writes
    ]
    with suppress(UnsupportedError):
        kernel.admit_into(inputs, outputs)
        return kernel
    problem = replaced(problem_of(kernel.fusion, inputs), smem_epilogue=False)
    for pairs in dict.fromkeys((problem.pairs, False)):
        with suppress(UnsupportedError):
            params = choose_params(replaced(problem, pairs=pairs))
            with own_choice(kernel.fusion, params):
                other = kernels.compile(segment.definition, inputs, params=params)
            other.admit_into(inputs, outputs)
            return other
    return None
