"""Schedules written call by call, each of another form than those of the matmul scheduler."""

from __future__ import annotations

from lowering.ground.expr import Special
from tests.schedules import definition
from wsched import LoadStoreOpType, MemoryType, ParallelType, Schedule, WarpSpecialized

__all__ = ["OWN"]

P, TMA = ParallelType, LoadStoreOpType.CpAsyncBulkTensorTile
CTAS = Special("nctaid.x")


class Own:
    """A linear in the making.

    Args:
        direct: threads write the result, instead of TMA.
    """

    def __init__(self, direct: bool = False) -> None:
        self.s = s = Schedule(definition())
        self.loads = tuple(s.cache_after(x, TMA) for x in (s.a, s.b))
        for t in self.loads:
            s.set_memory_type(t, MemoryType.Shared)
        self.acc, self.out = s.acc, s.outputs[0]
        self.held = s.cache_before(self.out, LoadStoreOpType.Set if direct else TMA)
        self.boxes: tuple[str, ...] = () if direct else (self.held, self.out)
        if not direct:
            s.set_memory_type(self.held, MemoryType.Shared)
            self.held = s.cache_before(self.held, LoadStoreOpType.StMatrix)
        self.fragments = (self.held, self.out) if direct else (self.held,)
        self.compute = (self.acc, *dict.fromkeys((*self.fragments, *self.boxes)))
        self.all = (*self.loads, *self.compute)

    def tiles(self, m: int, n: int, k: int, dealt: bool = True, turned: bool = False) -> None:
        """``[tiles, (Ko), Mi, Ni, (Ki)]``; if ``dealt``, ``[cta, tile, ...]``."""
        for t in self.all:
            c = self.s[t].split("M", m).split("N", n)
            c.reorder(["No", "Mo"] if turned else ["Mo", "No"])
            c.merge(0, 1, label="tiles")
            if t in (*self.loads, self.acc):
                c.split("K", k)
            if dealt:
                c.split("tiles", CTAS, labels=("tile", "cta")).reorder(["cta", "tile"])
                c.parallelize("cta", P.BIDx)

    def fill(self, *outer: str, stages: int = 4) -> None:
        """The loads: one loop over ``outer``, from slow to fast, and a box."""
        for t in self.loads:
            c = self.s[t].reorder([d for d in c_labels(self, t) if d == "cta"] + [*outer])
            first = c.loops.index(outer[0])
            for _ in outer[1:]:
                c.merge(first, first + 1)
            for axis in range(first + 1, len(c.loops)):
                c.parallelize(axis, P.Bulk)
            c.circular_buffer(stages, stages - 2, WarpSpecialized(P.TIDy, (40, 232), first + 1))

    def on_warpgroups(self, axis: str, size: int, label: str, on: ParallelType) -> None:
        """Split ``axis`` (Mi or Ni) of what is computed: ``size`` of it for each warpgroup."""
        for t in self.compute:
            self.s[t].split(axis, size, labels=(label, axis)).parallelize(label, on)

    def multiply(self, *outer: str) -> None:
        """The accumulator: ``outer``, then the wgmmas of a slice."""
        c = (
            self.s[self.acc]
            .split("Ki", 16, labels=("k16", "k"))
            .split("Mi", 64, labels=("m64", "m"))
        )
        c.reorder([*outer, "k16", "m64"]).parallelize(["m", "Ni", "k"], P.Mma)

    def store(self, *outer: str, chunk: int | None = 64, inside: str) -> None:
        """The rest: chunks of columns in ``outer``; all inlined, the accumulator at ``inside``."""
        loops = [*outer]
        for t in self.compute[1:]:
            c = self.s[t]
            if chunk is not None:
                c.split("Ni", chunk, labels=("chunk", "Ni"))
            c.reorder([*loops, *(["chunk"] if chunk is not None else [])])
            if t in self.fragments:
                c.split("Mi", 64, labels=("m64", "Mi"))
            c.parallelize(
                [len(c.loops) - 2, len(c.loops) - 1], P.Mma if t in self.fragments else P.Bulk
            )
        last = "chunk" if chunk is not None else inside
        direct = self.out in self.fragments
        for t in self.compute[1:-1]:
            self.s[t].inline_at("m64" if direct else last)
        self.s[self.acc].inline_at(inside)


def c_labels(own: Own, t: str) -> tuple[str, ...]:
    return own.s[t].loops
