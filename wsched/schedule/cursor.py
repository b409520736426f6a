"""The calls of a schedule for one tensor or several, written one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import ExprLike
from wsched.fusion import (
    CircularBufferType,
    DataType,
    LoadStoreOpType,
    MemoryType,
    ParallelType,
    nest_text,
)
from wsched.schedule.axes import Axis
from wsched.schedule.schedule import Schedule

__all__ = ["Cursor"]


@dataclass(frozen=True, slots=True)
class Cursor:
    """Tensors of a schedule: ``s["T5"].split("M", 128).parallelize("Mo", ParallelType.BIDx)``.

    Each call is the schedule's of the same name, with each tensor in turn as its first argument;
    one that is refused for a tensor is made for none. Those that change the tensors return the same
    cursor, those that make some the cursor of the new ones.

    Args:
        schedule: whose tensors they are.
        name: the name of the first one.
        others: the names of the others, which are scheduled alike.
    """

    schedule: Schedule
    name: str
    others: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all tensors."""
        return (self.name, *self.others)

    @property
    def loops(self) -> tuple[str, ...]:
        """Labels of the loops of the first one as they are now, outermost first."""
        return tuple(d.label for d in self.schedule.tensor(self.name).loop)

    def cache_after(self, op: LoadStoreOpType = LoadStoreOpType.Set) -> Cursor:
        """The copy between a tensor and its readers."""
        return self._made(lambda tv: self.schedule.cache_after(tv, op))

    def cache_before(self, op: LoadStoreOpType = LoadStoreOpType.Set) -> Cursor:
        """The new tensor that a tensor is copied from."""
        return self._made(lambda tv: self.schedule.cache_before(tv, op))

    def accumulate_in(self, dtype: DataType) -> Cursor:
        """The accumulator of another type that a matrix product is cast from."""
        return self._made(lambda tv: self.schedule.accumulate_in(tv, dtype))

    def set_memory_type(self, memory: MemoryType) -> Cursor:
        """Keep it in another memory."""
        return self._each(lambda tv: self.schedule.set_memory_type(tv, memory))

    def split(self, axis: Axis, factor: ExprLike, **options: Any) -> Cursor:
        """Replace a loop by two."""
        return self._each(lambda tv: self.schedule.split(tv, axis, factor, **options))

    def merge(self, axis_o: Axis, axis_i: Axis | None = None, **options: Any) -> Cursor:
        """Replace two loops by one."""
        return self._each(lambda tv: self.schedule.merge(tv, axis_o, axis_i, **options))

    def reorder(self, order: Mapping[Axis, int] | Iterable[Axis]) -> Cursor:
        """Move loops."""
        order = order if isinstance(order, Mapping | str) else tuple(order)
        return self._each(lambda tv: self.schedule.reorder(tv, order))

    def parallelize(self, axis: Axis | Sequence[Axis], parallel: ParallelType) -> Cursor:
        """Have loops run by CTAs, threads, one TMA or one wgmma."""
        return self._each(lambda tv: self.schedule.parallelize(tv, axis, parallel))

    def inline_at(self, inside: Axis) -> Cursor:
        """Compute it inside loops of what reads it."""
        return self._each(lambda tv: self.schedule.inline_at(tv, inside))

    def circular_buffer(self, stages: int, prefetch: int, type: CircularBufferType) -> Cursor:
        """Load it into a ring of stages."""
        return self._each(lambda tv: self.schedule.circular_buffer(tv, stages, prefetch, type))

    def _each(self, call: Callable[[str], None]) -> Cursor:
        self._called(call)
        return self

    def _made(self, call: Callable[[str], str]) -> Cursor:
        first, *others = self._called(call)
        return Cursor(self.schedule, first, tuple(others))

    def _called(self, call: Callable[[str], Any]) -> list[Any]:
        """What a call returns for each tensor; none is made if one is refused."""
        before = len(self.schedule.history)
        try:
            return [call(tv) for tv in self.names]
        except ScheduleError:
            self.schedule.undo(len(self.schedule.history) - before)
            raise

    def __str__(self) -> str:
        return "\n".join(nest_text(self.schedule.tensor(tv)) for tv in self.names)
