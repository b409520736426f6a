"""A tensor with its logical domain, its loop nest and how it is buffered."""

from __future__ import annotations

from dataclasses import dataclass

from lowering.ground.frozen import quick
from wsched.fusion.domain import IterDomain, Transform
from wsched.fusion.types import BOX, DataType, IterType, MemoryType, ParallelType

__all__ = [
    "CircularBuffer", "CircularBufferType", "Pipelined", "TensorView", "WarpSpecialized", "roots",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pipelined:
    """Loads are issued by the warpgroups that compute."""

    def __str__(self) -> str:
        return "Pipelined()"


@dataclass(frozen=True, slots=True)
class WarpSpecialized:
    """Stages are filled by warps of their own: loads by a load warpgroup, what is computed by as
    many warpgroups as its loops on TIDy and TIDz count.

    Args:
        on: the parallel type that is lengthened by the warpgroups that fill.
        num_registers: registers a thread of the (filling, reading) warpgroups after ``setmaxnreg``;
            None leaves the registers as the kernel starts with them.
        stage_slice_position: loops left of it step through the stages, loops right of it are one
            stage; None means left of the first ``Bulk`` or ``Mma`` loop.
    """

    on: ParallelType
    num_registers: tuple[int, int] | None = None
    stage_slice_position: int | None = None


CircularBufferType = Pipelined | WarpSpecialized


@dataclass(frozen=True, slots=True)
class CircularBuffer:
    """``stages`` copies of a tensor's slice, filled up to ``prefetch`` steps ahead of use."""

    stages: int
    prefetch: int
    type: CircularBufferType


@quick
@dataclass(frozen=True, slots=True)
class TensorView:
    """One tensor of a fusion.

    Args:
        name: ``T3``; never changes and never dies.
        dtype: element type.
        memory: global, shared or local (registers).
        logical: its dimensions, outermost first, reductions included.
        loop: its loop nest, outermost first.
        transforms: from ``logical`` to ``loop``, in the order in which they were made.
        compute_at: number of outer loops that it shares with its consumers.
        circular_buffer: how it is circular-buffered, or None.
        allocation: its dimensions in the order of memory, the contiguous one last; empty where
            that is the order of ``logical``. Of inputs, of which one whose K is not innermost is
            *MN-major*, and of results in parts.
        root: of a reduction that is made in parts, its dimensions as its input has them; the
            transforms then lead from there through ``logical`` to ``loop``. Empty where
            ``logical`` are these.
    """

    name: str
    dtype: DataType
    memory: MemoryType
    logical: tuple[IterDomain, ...]
    loop: tuple[IterDomain, ...]
    transforms: tuple[Transform, ...] = ()
    compute_at: int = 0
    circular_buffer: CircularBuffer | None = None
    allocation: tuple[IterDomain, ...] = ()
    root: tuple[IterDomain, ...] = ()

    @property
    def read(self) -> tuple[IterDomain, ...]:
        """Its dimensions as those of what it is made from, reductions included."""
        return self.root or self.logical

    @property
    def in_memory(self) -> tuple[IterDomain, ...]:
        """Dimensions in the order of memory, the contiguous one last."""
        return self.allocation or self.stored

    @property
    def stored(self) -> tuple[IterDomain, ...]:
        """Logical dimensions without reductions: what a consumer sees."""
        return tuple(d for d in self.logical if d.iter_type is not IterType.Reduction)

    @property
    def sums(self) -> bool:
        """Whether it sums over dimensions of what it is made from."""
        return any(d.iter_type is IterType.Reduction for d in self.logical)

    @property
    def in_place(self) -> bool:
        """Whether it is made in the loops of what reads it, and in no ring of stages."""
        return self.circular_buffer is None and self.compute_at > 0

    @property
    def slice_position(self) -> int:
        """Position that parts the loops over stages (left) from those in one stage (right)."""
        if self.in_place:
            return self.compute_at
        buffered = self.circular_buffer
        if buffered is not None and isinstance(buffered.type, WarpSpecialized):
            position = buffered.type.stage_slice_position
            if position is not None:
                return position
        inside = (p for p, d in enumerate(self.loop) if d.parallel in BOX)
        return next(inside, len(self.loop))

    def axis_on(self, parallel: ParallelType) -> IterDomain | None:
        """The loop domain that ``parallel`` runs, if there is one."""
        return next((d for d in self.loop if d.parallel is parallel), None)

    @property
    def head(self) -> str:
        """Name, memory and type: ``T4_s___bfloat``."""
        return f"{self.name}_{self.memory.value}_{self.dtype.text}"

    def __str__(self) -> str:
        return f"{self.head}[ {', '.join(map(str, self.loop))} ]"


def roots(t: TensorView, d: IterDomain) -> list[IterDomain]:
    """The logical dimensions of ``t`` that a loop domain was made from."""
    whole = {x.id for x in t.logical}
    made_from = {o.id: s.inputs for s in t.transforms for o in s.outputs if o.id not in whole}

    def found(d: IterDomain) -> list[IterDomain]:
        sources = made_from.get(d.id)
        return [d] if sources is None else [r for s in sources for r in found(s)]

    return found(d)
