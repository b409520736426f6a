"""Random schedules from nothing whose operands, or what the epilogue reads, threads load.

Each of them by TMA or by threads, with everything that has to do with who loads: tiles from the
queue, warpgroups in turns, clusters, shares of the load steps, rings of one stage.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.epilogues import RESIDUAL
from tests.legality.builder import P, matmul
from tests.legality.scratch import CTAS, Scratch
from tests.legality.scratch_rings import Rings
from tests.legality.scratch_steps import Steps
from wsched.fusion import IterDomain, LoadStoreOpType, Pipelined, WarpSpecialized

__all__ = ["Loads", "LoadsOfRings", "LoadsOfSteps", "loads"]

_TMA, _SET = LoadStoreOpType.CpAsyncBulkTensorTile, LoadStoreOpType.Set
_PAIRS = ((_SET, _TMA), (_TMA, _SET), (_SET, _SET))


@dataclass
class Loads(Scratch):
    """Stages that threads fill, one warpgroup or several that have a share of the rows each.

    Args:
        at: where the stage begins among the loops of the operands' loads.
    """

    at: int = 1

    def _tiles(self) -> list[str]:
        rng, m = self.rng, self.m
        if self.maybe(0.55):
            return super()._tiles()
        clusters = self.maybe(0.4)
        cut = rng.choice(("Mo", "No"))
        if clusters:
            m.split(m.every, cut, 2, f"{cut} place")
        m.merge(m.every, rng.choice(("Mo No", "No Mo")), "tiles")
        number = CTAS // 2 if clusters else CTAS
        m.split(m.every, "tiles", number, "tile cta", dynamic=self.maybe(0.7))
        m.order(m.every, "cta place tile")
        if clusters:
            m.merge(m.every, "cta place", "cta")
        m.run(m.every, "cta", P.BIDx)
        self.ctas = ("cta",)
        return ["tile"]

    def _stages(self) -> int:
        return self.rng.choice((1, 1, 2, 3, 4))

    def _deal(self, steps: str) -> None:
        super()._deal(steps)
        first = self.m.s.tensor(self.m.loads[0])
        self.at = next(p for p, d in enumerate(first.loop) if d.parallel is P.Serial) + 1
        groups = self.rng.choice((1, 1, 1, 2, 2, 4))
        axis = self.rng.choice((P.TIDy, P.TIDy, P.TIDz))
        for tv, label, rows in zip(
            self.m.loads, ("Mi", "Ni", "Ni"), (self.rows, *[self.columns] * 2), strict=False
        ):
            if tv in self.m.s.fusion.loaded_by_threads:
                own = groups if self.maybe(0.93) else self.rng.choice((1, 2))
                self._share(tv, label, rows // own if own > 1 else 0, axis)

    def _share(self, tv: str, label: str, rows: int, axis: P) -> None:
        """Warpgroups load so many rows each, one of them all where ``rows`` is 0."""
        if rows:
            self.m.split((tv,), label, rows, f"share {label}")
            self.m.order((tv,), " ".join([d.label for d in self._left(tv)] + ["share"]))
            self.m.run((tv,), "share", axis)

    def _left(self, tv: str) -> tuple[IterDomain, ...]:
        return self.m.s.tensor(tv).loop[: self.at]

    def _loader(self, turns: str) -> WarpSpecialized | Pipelined:
        how = super()._loader(turns)
        return WarpSpecialized(how.on, None, self.at) if isinstance(how, WarpSpecialized) else how


@dataclass
class LoadsOfSteps(Loads, Steps):
    """The same where load steps are dealt out to CTAs."""

    def _tiles(self) -> list[str]:
        return Steps._tiles(self)


@dataclass
class LoadsOfRings(Loads, Rings):
    """The same with rings of what the epilogue reads, which threads may load, too."""


def loads(rng: Random) -> tuple[Callable[[], Scratch], str | None]:
    """What begins a schedule, and the definition that it is of, None for that of most draws."""
    kind, operands = rng.random(), rng.choice(_PAIRS)
    if kind < 0.25:
        return lambda: LoadsOfSteps(rng, matmul(by_tma=rng.random() < 0.5, operands=operands)), None
    if kind < 0.45:
        by = rng.choice((_TMA, _SET))
        return lambda: LoadsOfRings(
            rng, matmul(RESIDUAL, by_tma=False, ring=True, operands=operands, inputs_by=by)
        ), RESIDUAL
    return lambda: Loads(rng, matmul(by_tma=rng.random() < 0.5, operands=operands)), None
