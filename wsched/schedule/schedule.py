"""A cursor over a schedule: the primitives as methods, the fusion as state."""

from __future__ import annotations

from collections.abc import Mapping

from lowering.ground.expr import ExprLike
from wsched.fusion import (
    CircularBufferType,
    Fusion,
    LoadStoreOpType,
    MemoryType,
    ParallelType,
    TensorView,
)
from wsched.schedule.primitives.cache_after import cache_after
from wsched.schedule.primitives.cache_before import cache_before
from wsched.schedule.primitives.circular_buffer import circular_buffer
from wsched.schedule.primitives.inline_at import inline_at
from wsched.schedule.primitives.merge import merge
from wsched.schedule.primitives.parallelize import parallelize
from wsched.schedule.primitives.reorder import reorder
from wsched.schedule.primitives.set_memory_type import set_memory_type
from wsched.schedule.primitives.split import split

__all__ = ["Schedule"]


class Schedule:
    """Holds the current fusion; every method replaces it by what the primitive returns.

    Args:
        fusion: the fusion to schedule; it stays as it is.
    """

    def __init__(self, fusion: Fusion) -> None:
        self.fusion = fusion

    def tensor(self, tv: str) -> TensorView:
        """The tensor as it is now."""
        return self.fusion.tensor(tv)

    def axis(self, tv: str, label: str) -> int:
        """Position of the loop with this label; -1 if there is none."""
        labels = [d.label for d in self.tensor(tv).loop]
        return labels.index(label) if label in labels else -1

    def cache_after(self, tv: str, op: LoadStoreOpType = LoadStoreOpType.Set) -> str:
        """See :func:`~wsched.schedule.primitives.cache_after.cache_after`; the name of the copy."""
        self.fusion, name = cache_after(self.fusion, tv, op)
        return name

    def cache_before(self, tv: str, op: LoadStoreOpType = LoadStoreOpType.Set) -> str:
        """See :mod:`wsched.schedule.primitives.cache_before`; the name of the new tensor."""
        self.fusion, name = cache_before(self.fusion, tv, op)
        return name

    def set_memory_type(self, tv: str, memory: MemoryType) -> None:
        """See :func:`~wsched.schedule.primitives.set_memory_type.set_memory_type`."""
        self.fusion = set_memory_type(self.fusion, tv, memory)

    def split(
        self,
        tv: str,
        axis: int,
        factor: ExprLike,
        *,
        inner_split: bool = True,
        labels: tuple[str, str] | None = None,
        dynamic: bool = False,
    ) -> None:
        """See :func:`~wsched.schedule.primitives.split.split`."""
        self.fusion = split(
            self.fusion,
            tv,
            axis,
            factor,
            inner_split=inner_split,
            labels=labels,
            dynamic=dynamic,
        )

    def merge(
        self,
        tv: str,
        axis_o: int,
        axis_i: int | None = None,
        *,
        traversal: int = 0,
        label: str | None = None,
    ) -> None:
        """See :func:`~wsched.schedule.primitives.merge.merge`."""
        self.fusion = merge(self.fusion, tv, axis_o, axis_i, traversal=traversal, label=label)

    def reorder(self, tv: str, old2new: Mapping[int, int]) -> None:
        """See :func:`~wsched.schedule.primitives.reorder.reorder`."""
        self.fusion = reorder(self.fusion, tv, old2new)

    def parallelize(self, tv: str, axis: int, parallel: ParallelType) -> None:
        """See :func:`~wsched.schedule.primitives.parallelize.parallelize`."""
        self.fusion = parallelize(self.fusion, tv, axis, parallel)

    def inline_at(self, tv: str, position: int) -> None:
        """See :func:`~wsched.schedule.primitives.inline_at.inline_at`."""
        self.fusion = inline_at(self.fusion, tv, position)

    def circular_buffer(
        self, tv: str, stages: int, prefetch: int, type: CircularBufferType
    ) -> None:
        """See :func:`~wsched.schedule.primitives.circular_buffer.circular_buffer`."""
        self.fusion = circular_buffer(self.fusion, tv, stages, prefetch, type)
