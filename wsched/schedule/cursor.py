"""The calls of a schedule for one tensor, written one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lowering.ground.expr import ExprLike
from wsched.fusion import CircularBufferType, LoadStoreOpType, MemoryType, ParallelType, nest_text
from wsched.schedule.axes import Axis
from wsched.schedule.schedule import Schedule

__all__ = ["Cursor"]


@dataclass(frozen=True, slots=True)
class Cursor:
    """A tensor of a schedule: ``s["T5"].split("M", 128).parallelize("Mo", ParallelType.BIDx)``.

    Each call is the schedule's of the same name, with this tensor as its first argument. Those that
    change the tensor return the same cursor, those that make one the cursor of the new one.

    Args:
        schedule: whose tensor it is.
        name: its name.
    """

    schedule: Schedule
    name: str

    @property
    def loops(self) -> tuple[str, ...]:
        """Labels of the loops as they are now, outermost first."""
        return tuple(d.label for d in self.schedule.tensor(self.name).loop)

    def cache_after(self, op: LoadStoreOpType = LoadStoreOpType.Set) -> Cursor:
        """The copy between this tensor and its readers."""
        return Cursor(self.schedule, self.schedule.cache_after(self.name, op))

    def cache_before(self, op: LoadStoreOpType = LoadStoreOpType.Set) -> Cursor:
        """The new tensor that this one is copied from."""
        return Cursor(self.schedule, self.schedule.cache_before(self.name, op))

    def set_memory_type(self, memory: MemoryType) -> Cursor:
        """Keep it in another memory."""
        self.schedule.set_memory_type(self.name, memory)
        return self

    def split(self, axis: Axis, factor: ExprLike, **options: Any) -> Cursor:
        """Replace a loop by two."""
        self.schedule.split(self.name, axis, factor, **options)
        return self

    def merge(self, axis_o: Axis, axis_i: Axis | None = None, **options: Any) -> Cursor:
        """Replace two loops by one."""
        self.schedule.merge(self.name, axis_o, axis_i, **options)
        return self

    def reorder(self, order: Mapping[Axis, int] | Iterable[Axis]) -> Cursor:
        """Move loops."""
        self.schedule.reorder(self.name, order)
        return self

    def parallelize(self, axis: Axis | Sequence[Axis], parallel: ParallelType) -> Cursor:
        """Have loops run by CTAs, threads, one TMA or one wgmma."""
        self.schedule.parallelize(self.name, axis, parallel)
        return self

    def inline_at(self, inside: Axis) -> Cursor:
        """Compute it inside loops of what reads it."""
        self.schedule.inline_at(self.name, inside)
        return self

    def circular_buffer(self, stages: int, prefetch: int, type: CircularBufferType) -> Cursor:
        """Load it into a ring of stages."""
        self.schedule.circular_buffer(self.name, stages, prefetch, type)
        return self

    def __str__(self) -> str:
        return nest_text(self.schedule.tensor(self.name))
