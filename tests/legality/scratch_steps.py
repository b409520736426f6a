"""Random schedules from nothing whose load steps are dealt out to CTAs (stream-K)."""

from __future__ import annotations

from dataclasses import dataclass

from lowering.ground.expr import Const, Expr
from tests.legality.builder import P
from tests.legality.scratch import CTAS, Scratch

__all__ = ["Steps"]


@dataclass
class Steps(Scratch):
    """What computes has loops over all tiles; the loads' one loop is cut into shares.

    Args:
        neighbours: CTAs of a cluster, which have a share together.
    """

    neighbours: int = 1

    def _tiles(self) -> list[str]:
        rng, m = self.rng, self.m
        if self.maybe(0.1):
            beside, tile = rng.choice((("Mo", "No"), ("No", "Mo")))
            m.run(m.every, beside, P.BIDy)
            m.order(m.every, f"{beside} {tile}")
            self.ctas = (beside,)
            return [tile]
        if self.maybe(0.25):
            self.neighbours = rng.choice((2, 2, 3))
            cut = rng.choice(("Mo", "No"))
            m.split(m.every, cut, self.neighbours, f"{cut} place")
            m.run(m.compute, "place", P.BIDx)
        m.merge(m.every, rng.choice(("Mo No", "No Mo")), "tile", rng.choice((0, 0, 0, 2, 3)))
        if self.neighbours > 1:
            m.order(m.every, "place tile")
            self.ctas = ("place",)
        return ["tile"]

    def _deal(self, steps: str) -> None:
        rng, m = self.rng, self.m
        outer = self.maybe(0.9)
        labels = "cta step" if outer else "step cta"
        m.split(m.loads, steps, self._shares(), labels, outer=outer)
        if self.neighbours > 1:
            inner = self.maybe(0.85)
            m.order(m.loads, "cta place" if inner else "place cta")
            m.merge(m.loads, "cta place" if inner else "place cta", "cta")
        m.order(m.loads, "cta")
        m.run(m.loads, "cta", P.BIDx)
        if self.maybe(0.1):
            m.split(m.loads, "step", rng.choice((2, 3)), "so si")
            m.steps("so si")

    def _shares(self) -> Expr:
        usual = CTAS // self.neighbours if self.neighbours > 1 else CTAS
        odd = (Const(3), CTAS // 2, CTAS * 2, CTAS)
        return usual if self.maybe(0.88) else self.rng.choice(odd)
