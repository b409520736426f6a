"""Pieces of hand-written schedules, by primitives and labels."""

from __future__ import annotations

from dataclasses import dataclass

from lowering.ground.expr import ExprLike, Special
from tests.schedules import definition
from wsched.fusion import (
    CircularBufferType,
    Fusion,
    LoadStoreOpType,
    MemoryType,
    ParallelType,
    WarpSpecialized,
)
from wsched.importer import build_fusion, record_text
from wsched.schedule import Schedule

__all__ = ["CTAS", "ON_TIDY", "Matmul", "P", "matmul", "products", "unscheduled"]

P = ParallelType
CTAS = Special("nctaid.x")
ON_TIDY = WarpSpecialized(P.TIDy)
_TMA, _SET = LoadStoreOpType.CpAsyncBulkTensorTile, LoadStoreOpType.Set


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
    rings: tuple[str, ...] = ()
    boxed: tuple[str, ...] = ()
    more: tuple[str, ...] = ()

    @property
    def sums(self) -> tuple[str, ...]:
        """The accumulators: that of the first product, and those of ``more``."""
        return (self.acc, *self.more)

    @property
    def every(self) -> tuple[str, ...]:
        """All tensors with loops."""
        return (*self.loads, *self.sums, *self.rings, *self.epilogue)

    @property
    def compute(self) -> tuple[str, ...]:
        """The compute side."""
        return (*self.sums, *self.epilogue)

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

    def deal(
        self, axes: str = "Mo No", traversal: int = 0, *, runs: bool = False, dynamic: bool = False
    ) -> None:
        """``[cta, tile, ...]``: all tiles in one loop, dealt out to the CTAs in turn, in runs of
        neighbours, or at run time.
        """
        self.merge(self.every, axes, "tiles", traversal)
        labels = "cta tile" if runs else "tile cta"
        self.split(self.every, "tiles", CTAS, labels, outer=runs, dynamic=dynamic)
        self.order(self.every, "cta tile")
        self.run(self.every, "cta", P.BIDx)

    def share(self, label: str, size: int, group: str, parallel: ParallelType) -> None:
        """Rows or columns of a tile are shared out to warpgroups, ``size`` of them each."""
        self.split(self.compute, label, size, f"{group} {label}")
        self.run(self.compute, group, parallel)

    def steps(self, labels: str, who: tuple[str, ...] = ()) -> None:
        """The loads' loops with these labels become one, the slowest first."""
        first, *others = labels.split()
        for label in others:
            self.merge(who or self.loads, f"{first} {label}", f"{first}·{label}")
            first = f"{first}·{label}"

    def stage(self, stages: int = 3, prefetch: int = 1, how: CircularBufferType = ON_TIDY) -> None:
        """The operands' tile is a box, what is left of it one loop in stages."""
        self.fill(self.loads, stages, prefetch, how)

    def fill(
        self, loads: tuple[str, ...], stages: int, prefetch: int, how: CircularBufferType
    ) -> None:
        """The same for any loads."""
        for tv in loads:
            for label in ("Mi", "Ni", "Ki"):
                self.run((tv,), label, P.Bulk)
            self.s.circular_buffer(tv, stages, prefetch, how)

    def wgmma(self) -> None:
        """The accumulators' tiles, their innermost loops, in wgmmas: ``k16, m64 | M, N, K``."""
        s = self.s
        for acc in self.sums:
            s.split(acc, s.axis(acc, "Ki"), 16, labels=("k16", "K"))
            s.split(acc, s.axis(acc, "Mi"), 64, labels=("m64", "M"))
            inner = s.axis(acc, "m64")
            s.reorder(acc, {s.axis(acc, "k16"): inner, inner: inner + 1})
            for label in ("M", "Ni", "K"):
                self.run((acc,), label, P.Mma)

    def chunks(self, last: str, columns: int = 0, who: tuple[str, ...] = ()) -> None:
        """The epilogue in fragments of 64 rows, the results in boxes; chunk by chunk of ``columns``
        of them inside loop ``last``, or all at once.
        """
        s = self.s
        for tv in who or self.epilogue:
            if columns:
                s.split(tv, s.axis(tv, "Ni"), columns, labels=("chunk", "N"))
                s.reorder(tv, {s.axis(tv, "chunk"): s.axis(tv, last) + 1})
            boxed = tv in self.boxed
            if not boxed:
                s.split(tv, s.axis(tv, "Mi"), 64, labels=("m64", "M"))
            for axis in range(len(s.tensor(tv).loop) - 2, len(s.tensor(tv).loop)):
                s.parallelize(tv, axis, P.Bulk if boxed else P.Mma)

    def fragments(self, last: str, chunk: int = 64) -> None:
        """The accumulator in wgmmas, the epilogue in chunks of columns; ``last`` is the innermost
        loop in front of them on either side.
        """
        self.wgmma()
        self.chunks(last, chunk)

    def inline(self, last: str, box: str = "chunk") -> None:
        """The accumulator inside loop ``last``, what a box is stored from in the box's loop
        ``box``, other fragments per m64.
        """
        s = self.s
        for tv in reversed(self.epilogue[:-1]):
            boxed = any(t.name in self.boxed for t in s.fusion.consumers(tv))
            s.inline_at(tv, s.axis(tv, box if boxed else "m64") + 1)
        for acc in self.sums:
            s.inline_at(acc, s.axis(acc, last) + 1)


def unscheduled(text: str | None = None, *, by_calls: bool = False) -> Fusion:
    """A definition, by default what most draws schedule.

    Args:
        text: the definition.
        by_calls: whether it is scheduled call by call, as several parts that compute are.
    """
    return build_fusion(record_text(text or definition()), by_calls=by_calls)


def matmul(
    text: str | None = None,
    *,
    by_tma: bool = True,
    ring: bool = False,
    operands: tuple[LoadStoreOpType, LoadStoreOpType] = (_TMA, _TMA),
    inputs_by: LoadStoreOpType = _TMA,
) -> Matmul:
    """A linear, or another definition, whose tensors are cached.

    Args:
        text: the definition; by default a linear of 16 bits.
        by_tma: whether results go through shared memory and from there by TMA, or from registers.
        ring: whether the epilogue's inputs are loaded into shared memory, or read by the threads
            that compute.
        operands: how A and B are loaded.
        inputs_by: how the epilogue's inputs are, with ``ring``.
    """
    s = Schedule(unscheduled(text))
    loads = tuple(s.cache_after(tv, op) for tv, op in zip((s.a, s.b), operands, strict=True))
    inputs = tuple(s.cache_after(tv, inputs_by if ring else _SET) for tv in s.inputs[2:])
    for tv in (*loads, *(inputs if ring else ())):
        s.set_memory_type(tv, MemoryType.Shared)
    if ring:
        for tv in inputs:
            s.cache_after(tv, LoadStoreOpType.LdMatrix)
    return _stored(s, loads, inputs if ring else (), by_tma)


def products(
    of: Fusion, operands: tuple[LoadStoreOpType, LoadStoreOpType], *, by_tma: bool
) -> Matmul:
    """Several products with one A, whose tensors are cached.

    Args:
        of: the fusion.
        operands: how A is loaded, and all B are.
        by_tma: whether results go through shared memory and from there by TMA.
    """
    s, mmas = Schedule(of), of.mmas
    views = dict.fromkeys(x for e in mmas for x in (e.a, e.b))
    ways = (operands[0] if tv == mmas[0].a else operands[1] for tv in views)
    loads = tuple(s.cache_after(tv, op) for tv, op in zip(views, ways, strict=True))
    for tv in loads:
        s.set_memory_type(tv, MemoryType.Shared)
    return _stored(s, loads, (), by_tma)


def _stored(s: Schedule, loads: tuple[str, ...], rings: tuple[str, ...], by_tma: bool) -> Matmul:
    """The result cached, too, on its way to global memory."""
    out = s.outputs[0]
    copy = s.cache_before(out, _TMA if by_tma else _SET)
    if by_tma:
        matrices = s.tensor(out).dtype.bytes == 2
        s.cache_before(copy, LoadStoreOpType.StMatrix if matrices else _SET)
        s.set_memory_type(copy, MemoryType.Shared)
    made = [e.output for e in s.fusion.exprs]
    sums = tuple(e.output for e in s.fusion.mmas)
    views = [p.name for tv in loads for p in s.fusion.producers(tv)]
    others = {*sums, *loads, *rings, *views}
    after = tuple(tv for tv in made[min(map(made.index, sums)) :] if tv not in others)
    return Matmul(s, loads, sums[0], after, out, rings, (out,) if by_tma else (), sums[1:])
