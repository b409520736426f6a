"""Pieces of hand-written schedules, by primitives and labels."""

from __future__ import annotations

from dataclasses import dataclass, field

from lowering.ground.expr import ExprLike
from tests.schedules import definition
from wsched.fusion import (
    CircularBufferType,
    LoadStoreOpType,
    MemoryType,
    ParallelType,
    WarpSpecialized,
)
from wsched.importer import build_fusion, record_text
from wsched.schedule import Schedule

__all__ = ["ON_TIDY", "Matmul", "P", "matmul"]

P = ParallelType
ON_TIDY = WarpSpecialized(P.TIDy)
_TMA = LoadStoreOpType.CpAsyncBulkTensorTile


@dataclass
class Matmul:
    """A linear whose tensors are cached, none of them transformed.

    Loops are named by labels: a call is made on each tensor that has them.
    """

    s: Schedule
    loads: tuple[str, ...]
    acc: str
    epilogue: tuple[str, ...]
    out: str
    groups: list[str] = field(default_factory=list)

    @property
    def every(self) -> tuple[str, ...]:
        """All tensors with loops."""
        return (*self.loads, self.acc, *self.epilogue)

    @property
    def compute(self) -> tuple[str, ...]:
        """The compute side."""
        return (self.acc, *self.epilogue)

    def split(
        self,
        tensors: tuple[str, ...],
        label: str,
        factor: ExprLike,
        labels: str,
        *,
        outer: bool = False,
        dynamic: bool = False,
    ) -> None:
        """Split a loop in two; ``outer`` makes the factor the extent of the outer one."""
        for tv in tensors:
            axis = self.s.axis(tv, label)
            if axis >= 0:
                a, b = labels.split()
                self.s.split(
                    tv, axis, factor, inner_split=not outer, labels=(a, b), dynamic=dynamic
                )

    def order(self, tensors: tuple[str, ...], labels: str) -> None:
        """Bring loops to the front in this order."""
        for tv in tensors:
            there = [x for x in labels.split() if self.s.axis(tv, x) >= 0]
            self.s.reorder(tv, {self.s.axis(tv, x): n for n, x in enumerate(there)})

    def merge(self, tensors: tuple[str, ...], labels: str, label: str, traversal: int = 0) -> None:
        """Merge two loops, the slower one first."""
        for tv in tensors:
            a, b = (self.s.axis(tv, x) for x in labels.split())
            self.s.merge(tv, a, b, traversal=traversal, label=label)

    def run(self, tensors: tuple[str, ...], label: str, parallel: ParallelType) -> None:
        """Parallelize a loop."""
        for tv in tensors:
            axis = self.s.axis(tv, label)
            if axis >= 0:
                self.s.parallelize(tv, axis, parallel)

    def tile(self, m: int, n: int, k: int) -> None:
        """``[Mo, No, k, Mi, Ni, Ki]`` everywhere."""
        for label, size, labels in (("M", m, "Mo Mi"), ("N", n, "No Ni"), ("K", k, "k Ki")):
            self.split(self.every, label, size, labels)
        self.order(self.every, "Mo No k")

    def stage(self, stages: int = 3, prefetch: int = 1, how: CircularBufferType = ON_TIDY) -> None:
        """The loads' tile is a box, what is left of it one loop in stages."""
        for tv in self.loads:
            for label in ("Mi", "Ni", "Ki"):
                self.s.parallelize(tv, self.s.axis(tv, label), P.Bulk)
            self.s.circular_buffer(tv, stages, prefetch, how)

    def fragments(self, last: str, chunk: int = 64, before: str = "") -> None:
        """The accumulator in wgmmas, the epilogue in chunks of columns; ``last`` is the innermost
        loop in front of them on either side.
        """
        s, acc = self.s, self.acc
        s.split(acc, s.axis(acc, "Ki"), 16, labels=("k16", "K"))
        s.split(acc, s.axis(acc, "Mi"), 64, labels=("m64", "M"))
        inner = max(p for p, d in enumerate(s.tensor(acc).loop) if d.label in ("k", "ki")) + 1
        s.reorder(acc, {s.axis(acc, "k16"): inner, s.axis(acc, "m64"): inner + 1})
        for axis in range(inner + 2, inner + 5):
            s.parallelize(acc, axis, P.Mma)
        for tv in self.epilogue:
            s.split(tv, s.axis(tv, "Ni"), chunk, labels=("chunk", "N"))
            s.reorder(tv, {s.axis(tv, "chunk"): s.axis(tv, last) + 1})
            boxed = tv == self.out
            if not boxed:
                s.split(tv, s.axis(tv, "Mi"), 64, labels=("m64", "M"))
            for axis in range(len(s.tensor(tv).loop) - 2, len(s.tensor(tv).loop)):
                s.parallelize(tv, axis, P.Bulk if boxed else P.Mma)

    def inline(self, last: str) -> None:
        """Fragments per m64, stored per chunk; the accumulator inside loop ``last``."""
        s = self.s
        for tv, label in zip(self.epilogue[-2::-1], ("chunk", "m64"), strict=True):
            s.inline_at(tv, s.axis(tv, label) + 1)
        s.inline_at(self.acc, s.axis(self.acc, last) + 1)


def matmul(text: str | None = None) -> Matmul:
    """Operands by TMA, the result through shared memory by TMA; 16 bits."""
    s = Schedule(build_fusion(record_text(text or definition())))
    mma, out = s.fusion.mma, s.fusion.outputs[0].tensor
    loads = (s.cache_after(mma.a, _TMA), s.cache_after(mma.b, _TMA))
    staged = s.cache_before(out, _TMA)
    cast = s.cache_before(staged, LoadStoreOpType.StMatrix)
    for tv in (*loads, staged):
        s.set_memory_type(tv, MemoryType.Shared)
    return Matmul(s, loads, mma.output, (cast, staged, out), out)
