"""Random schedules from nothing of what no other kind has together.

Rings of the epilogue, by TMA or by threads, where warpgroups share a tile by rows in three, or by
columns, and take turns, on tiles from the queue, on clusters, in shares of the load steps, with K
in parts; and all of that but the rings with two products, which have two accumulators.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.epilogues import RESIDUAL, epilogue
from tests.legality.builder import Matmul, P, matmul, products, unscheduled
from tests.legality.scratch import Scratch
from tests.legality.scratch_apart import ROUNDED, beside
from tests.legality.scratch_loads import Loads, LoadsOfRings, LoadsOfSteps
from tests.legality.scratch_steps import Steps
from tests.schedule.gated import gated
from wsched.fusion import Fusion, LoadStoreOpType

__all__ = ["TWO_MATRICES", "crossed", "two_sums"]

_TMA, _SET = LoadStoreOpType.CpAsyncBulkTensorTile, LoadStoreOpType.Set
_PAIRS = ((_TMA, _TMA), (_TMA, _TMA), (_SET, _TMA), (_TMA, _SET), (_SET, _SET))

TWO_MATRICES = epilogue(
    "r: [-1, -1]", "q: [-1, -1]", "s = fd.ops.add(y, r)", "t = fd.ops.mul(s, q)",
    "d = fd.ops.cast(t, dtype=DataType.BFloat16)",
)  # fmt: skip
_AGAIN = epilogue(
    "r: [-1, -1]", "s = fd.ops.add(y, r)", "t = fd.ops.mul(s, r)",
    "d = fd.ops.cast(t, dtype=DataType.BFloat16)",
)  # fmt: skip
_TEXTS = (RESIDUAL, TWO_MATRICES, TWO_MATRICES, _AGAIN)


@dataclass
class _Crossed(LoadsOfRings):
    """Rings, loads by threads, and everything that says who has which tile."""

    def _size(self) -> tuple[int, int]:
        return self.rng.choice((64, 128, 128, 192)), self.rng.choice((32, 64))

    def _stages(self) -> int:
        return self.rng.choice((1, 2, 2, 3, 4))

    def _roles(self, tiles: list[str]) -> tuple[list[str], list[str]]:
        roles, turns = super()._roles(tiles)
        m = self.m
        free = [p for p in (P.TIDy, P.TIDz) if m.s.tensor(m.acc).axis_on(p) is None]
        if roles or not free or not self.maybe(0.5):
            return roles, turns
        m.split(m.compute, "Ni", self.columns // 2, "column Ni")
        m.run(m.compute, "column", free[0])
        return ["column"], turns


@dataclass
class _CrossedSteps(_Crossed, Steps):
    """The same in shares of load steps."""

    def _tiles(self) -> list[str]:
        return Steps._tiles(self)


def crossed(rng: Random) -> tuple[Callable[[], Scratch], Fusion]:
    """What begins a schedule, and what it is of."""
    if rng.random() < 0.25:
        return lambda: beside(rng), unscheduled(ROUNDED)
    text, operands = rng.choice(_TEXTS), rng.choice(_PAIRS)
    kind = _CrossedSteps if rng.random() < 0.1 else _Crossed
    by = rng.choice((_TMA, _TMA, _SET))

    def begin() -> Matmul:
        return matmul(text, by_tma=rng.random() < 0.6, ring=True, operands=operands, inputs_by=by)

    return lambda: kind(rng, begin()), unscheduled(text)


@dataclass
class _TwoSums(Loads):
    """Two products of one A: three operands in a stage."""

    def _size(self) -> tuple[int, int]:
        return self.rng.choice((64, 128, 128, 192)), self.rng.choice((32, 64))


def two_sums(rng: Random) -> Scratch:
    """Nothing chosen yet, of a gated product."""
    m = products(gated(), rng.choice(_PAIRS), by_tma=rng.random() < 0.6)
    return LoadsOfSteps(rng, m) if rng.random() < 0.1 else _TwoSums(rng, m)
