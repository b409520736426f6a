"""Random schedules from nothing with two parts that compute: one multiplies, and another one rounds
its operand, or stores what it makes.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.epilogues import epilogue
from tests.legality.builder import P, matmul
from tests.legality.by_hand.parts import CAST, DOUBLED, SHIFTED, apart, fragments, of_computed
from tests.legality.scratch import TILES, Scratch
from tests.legality.scratch_rings import Rings
from wsched.fusion import CastOp, DataType, ParallelType, Pipelined, WarpSpecialized

__all__ = ["COMPUTED", "ROUNDED", "beside", "two_parts"]

COMPUTED = (CAST, SHIFTED, DOUBLED)
"""Definitions whose operand is computed."""

_INSIDE = (("chunk",), ("chunk",), ("chunk", "m64"), ("m64", "chunk"), ("m64",), ())
"""Loops of what is stored, inside those over tiles."""


@dataclass
class _Computed(Scratch):
    """What makes the operand steps through its tiles and k as the sums do, or nearly."""

    def _epilogue(self, last: str, chunk: int) -> None:
        super()._epilogue(last, chunk)
        rng, m = self.rng, self.m
        labels = [d.label for d in m.s.tensor(m.rings[0]).loop]
        tiles = [x for x in TILES if x in labels and x not in self.ctas]
        steps = [*tiles, "k"] if self.maybe(0.93) else ["k", *tiles]
        inside: list[str] = []
        if self.rows == 128 and self.maybe(0.5):
            m.split(m.rings, "Mi", 64, "share Mi")
            m.run(m.rings, "share", rng.choice((P.TIDy, P.TIDz)))
            inside = ["share"]
        fragments(m, m.rings, " ".join([*self.ctas, *steps, *inside]))
        stages = rng.choice((1, 2, 2, 3, 4))
        end = len(self.ctas) + len(steps) + rng.choice((0, 0, 0, 0, 1, -1))
        how = WarpSpecialized(P.TIDy, None, end)
        m.s.circular_buffer(m.rings[-1], stages, rng.randrange(stages), how)

    def _loader(self, turns: str) -> WarpSpecialized | Pipelined:
        return WarpSpecialized(P.TIDy) if self.maybe(0.9) else super()._loader(turns)


@dataclass
class _Apart(Scratch):
    """Each of two parts has warpgroups, chunks and an order of its own.

    Args:
        stored: what the part that multiplies makes, a ring's tensor the last.
        after: what the other part makes.
    """

    stored: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    def _roles(self, tiles: list[str]) -> tuple[list[str], list[str]]:
        """Warpgroups of each part are chosen with its loops."""
        return [], []

    def _warpgroups(self, tensors: tuple[str, ...], chance: float) -> list[str]:
        """Roles that share what some tensors hold: rows, columns, or both."""
        axes = self.rng.sample((P.TIDy, P.TIDz), 2)
        roles = []
        if self.rows == 128 and self.maybe(chance):
            self._shared(tensors, "Mi", 64, "row", axes.pop())
            roles.append("row")
        if self.maybe(chance / 3):
            self._shared(tensors, "Ni", self.columns // 2, "column", axes.pop())
            roles.append("column")
        return roles

    def _shared(
        self, tensors: tuple[str, ...], label: str, size: int, role: str, axis: ParallelType
    ) -> None:
        self.m.split(tensors, label, size, f"{role} {label}")
        self.m.run(tensors, role, axis)

    def _epilogue(self, last: str, chunk: int) -> None:
        rng, m = self.rng, self.m
        labels = [d.label for d in m.s.tensor(m.acc).loop]
        outer = labels[: labels.index(last) + 1]
        first = (m.acc, *self.stored)
        roles, others = self._warpgroups(first, 0.6), self._warpgroups(self.after, 0.4)
        m.order((m.acc,), " ".join([*outer, *roles]))
        m.wgmma()
        inside = rng.choice(_INSIDE)
        m.split(self.stored, "Ni", chunk, "chunk Ni")
        fragments(m, self.stored, " ".join([*outer, *inside, *roles]))
        m.split(self.after, "Ni", chunk if self.maybe(0.7) else 16, "chunk Ni")
        inside = inside if self.maybe(0.7) else rng.choice(_INSIDE)
        loops = [*inside, *others] if self.maybe(0.7) else [*others, *inside]
        fragments(m, self.after, " ".join([*outer, *loops]))
        stages, deep = rng.choice((1, 2, 2, 3, 4)), rng.choice((0, 1, 1, 1, 2))
        on = P.TIDy if self.maybe(0.9) else rng.choice((P.TIDx, P.TIDz))
        how = WarpSpecialized(on, None, len(outer) + deep)
        m.s.circular_buffer(self.stored[-1], stages, rng.randrange(stages), how)
        m.s.inline_at(m.acc, [*outer, *roles][-1] if self.maybe(0.5) else last)

    def _loader(self, turns: str) -> WarpSpecialized | Pipelined:
        return WarpSpecialized(P.TIDy) if self.maybe(0.9) else super()._loader(turns)


@dataclass
class _Beside(_Apart, Rings):
    """The same where each of the two parts reads a matrix through a ring as well."""

    def _epilogue(self, last: str, chunk: int) -> None:
        super()._epilogue(last, chunk)
        for tv in self.m.rings:
            self._ring(tv, chunk)


ROUNDED = epilogue(
    "r: [-1, -1]", "q: [-1, -1]", "y = fd.ops.linear(x, w, dtype=DataType.Float)",
    "s = fd.ops.add(y, r)", "h = fd.ops.cast(s, dtype=DataType.BFloat16)",
    "t = fd.ops.mul(h, q)", "d = fd.ops.cast(t, dtype=DataType.BFloat16)",
)  # fmt: skip
"""What is rounded, between two matrices and nowhere else, goes from one part to the other."""


def beside(rng: Random) -> Scratch:
    """Nothing chosen yet, of ``ROUNDED``."""
    m = matmul(ROUNDED, by_tma=rng.random() < 0.5, ring=True)
    casts = [e.output for e in m.s.fusion.exprs if isinstance(e, CastOp)]
    first = next(x for x in casts if m.s.tensor(x).dtype is DataType.BFloat16)
    stored, after = apart(m, first)
    return _Beside(rng, m, stored=stored, after=after)


def two_parts(rng: Random, text: str | None) -> Scratch:
    """Nothing chosen yet.

    Args:
        rng: chooses.
        text: the definition, one of ``COMPUTED``; None where what a linear makes is stored apart.
    """
    if text is not None:
        return _Computed(rng, of_computed(text))
    m = matmul(by_tma=rng.random() < 0.5)
    stored, after = apart(m)
    return _Apart(rng, m, stored=stored, after=after)
