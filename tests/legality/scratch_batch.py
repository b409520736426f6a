"""Random schedules from nothing of a batch, whose sums or load steps are dealt out to CTAs.

Matrices are tiles like others, one behind the other or next to each other, or CTAs along y or z
have one each, where K is in parts on z, in shares of the load steps, or whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.batches import batched
from tests.legality.builder import P, matmul
from tests.legality.scratch import Scratch
from tests.legality.scratch_loads import Loads, LoadsOfRings
from tests.legality.scratch_steps import Steps
from wsched.fusion import LoadStoreOpType

__all__ = ["batches"]

_TMA, _SET = LoadStoreOpType.CpAsyncBulkTensorTile, LoadStoreOpType.Set

_ADDED = {"c": ([-1, -1, -1], "BFloat16")}
_SUMMED = ("e = fd.ops.add(d, c)", "d = fd.ops.cast(e, dtype=DataType.BFloat16)")
_RANKS = ((3, 3), (3, 2), (2, 3))
_TEXTS = tuple(batched(ranks=ranks) for ranks in _RANKS)
"""Of operands that both have a matrix for each of the batch, and where one of them is the same."""

_WITH_MATRIX = batched(inputs=_ADDED, epilogue=_SUMMED)


@dataclass
class _Matrices(Scratch):
    """The loop over matrices has its place before anything is done to those over tiles."""

    parts_of_k: float = 0.6

    def _tiles(self) -> list[str]:
        rng, m = self.rng, self.m
        m.order(m.every, "B Mo No")
        where = rng.choice(("tiles", "tiles", "tiles", "beside", "beside", "split", "first"))
        if where == "split":
            outer = self.maybe(0.3)
            m.split(m.every, "B", 2, "B one", outer=outer)
            aside = rng.choice(("B", "one"))
            m.run(m.every, aside, P.BIDy)
            m.order(m.every, aside)
            into = "one" if aside == "B" else "B"
            return self._others(into, [aside])
        if where == "beside":
            m.run(m.every, "B", rng.choice((P.BIDy, P.BIDy, P.BIDz)))
            return self._others("", ["B"])
        if where == "first":
            return ["B", *super()._tiles()]
        return self._others("B", [])

    def _others(self, matrix: str, beside: list[str]) -> list[str]:
        """What there is of matrices is merged into rows or columns of tiles, mostly outside."""
        rng, m = self.rng, self.m
        if matrix:
            into = rng.choice(("Mo", "No"))
            outside = self.maybe(0.8)
            m.merge(m.every, f"{matrix} {into}" if outside else f"{into} {matrix}", into)
        found = super()._tiles()
        self.ctas = (*beside, *self.ctas)
        return found

    def _parts_of_k(self) -> list[str]:
        on_z = self.m.s.tensor(self.m.acc).axis_on(P.BIDz)
        return super()._parts_of_k() if on_z is None else []


@dataclass
class _Batch(_Matrices, Scratch):
    """Whole tiles, and parts of K."""


@dataclass
class _Shares(_Matrices, Steps):
    """Shares of the load steps of all matrices, or of those of a matrix."""


@dataclass
class _Loaded(_Matrices, Loads):
    """Operands that threads load."""


@dataclass
class _Added(_Matrices, LoadsOfRings):
    """A matrix of the epilogue through a ring."""


def batches(rng: Random) -> tuple[Callable[[], Scratch], str]:
    """What begins a schedule, and the definition that it is of."""
    kind, by_tma = rng.random(), rng.random() < 0.6
    if kind < 0.2:
        by = rng.choice((_TMA, _TMA, _SET))
        return lambda: _Added(
            rng, matmul(_WITH_MATRIX, by_tma=by_tma, ring=True, inputs_by=by)
        ), _WITH_MATRIX
    text = rng.choice(_TEXTS)
    if kind < 0.35:
        operands = rng.choice(((_SET, _TMA), (_TMA, _SET)))
        return lambda: _Loaded(rng, matmul(text, by_tma=by_tma, operands=operands)), text
    how = _Shares if kind < 0.65 else _Batch
    return lambda: how(rng, matmul(text, by_tma=by_tma)), text
